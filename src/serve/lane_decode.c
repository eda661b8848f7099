/* The decoder step of a lane: generation, scoring, and the review that records attention weights.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine_internal.h"

/* The prefix is fed and every live hypothesis has one new token. */
static bool feeds_hypotheses(const struct task *task)
{
    return task->phase == TASK_GENERATE &&
           task->fed + 1 == search_length(task->row->answer.search) && task->fed > 0;
}

/* What the other tasks feed piece by piece: a prefix, targets to score, a sequence under review. */
struct feed {
    const int32_t *tokens;
    size_t count;
};

static struct feed task_feed(const struct task *task)
{
    const struct row *row = task->row;
    if (task->phase != TASK_REVIEW)
        return (struct feed){ row->prefix, row->prefix_count };
    const size_t generated = search_sequence(row->answer.search, task->reviewed).count;
    return (struct feed){ task->review, row->prefix_count + generated - 1 };
}

static struct segment *add_segment(struct lane *lane, const struct task *task,
                                   const int32_t *tokens, size_t start, size_t count,
                                   const int32_t *path)
{
    struct segment *segment = &lane->segments[lane->segment_count++];
    *segment =
        (struct segment){ .key_values = &task->key_values,
                          .tokens = tokens,
                          .start = start,
                          .count = count,
                          .prefix_count = task->phase == TASK_GENERATE ? task->row->prefix_count
                                                                       : start + count,
                          .path = path };
    return segment;
}

static void add_hypotheses(struct lane *lane, struct task *task)
{
    const struct search *search = task->row->answer.search;
    const size_t live = search_live(search);
    for (size_t i = 0; i < live; i++)
        add_segment(lane, task, search_tokens(search, i), task->fed, 1, search_path(search, i));
    lane->pieces[lane->piece_count++] = (struct piece){ task, live, live };
}

/* At most `room` tokens; returns how many. */
static size_t add_feed(struct lane *lane, struct task *task, size_t room)
{
    const struct row *row = task->row;
    const struct feed feed = task_feed(task);
    const size_t left = feed.count - task->fed, count = left < room ? left : room;
    const bool generate = task->phase == TASK_GENERATE;
    struct segment *segment =
        add_segment(lane, task, feed.tokens, task->fed, count,
                    generate ? search_path(row->answer.search, 0) : lane->identity);
    if (task->phase == TASK_SCORE) {
        segment->self_weights = row->answer.decoder_attentions;
        segment->cross_weights = row->answer.cross_attentions;
    } else if (task->phase == TASK_REVIEW) {
        segment->cross_weights = row->answer.sequence_attentions[task->reviewed];
    }
    segment->places = feed.count;
    segment->source_places = row->places;
    segment->sent_count = row->sent_count;
    const size_t wanted = task->phase == TASK_SCORE ? count : generate && count == left;
    lane->pieces[lane->piece_count++] = (struct piece){ task, count, wanted };
    return count;
}

/* Tasks that are off leave at the next step and feed nothing more. */
static void gather_pieces(struct lane *lane)
{
    size_t room = lane->engine->config.step_tokens;
    lane->piece_count = lane->segment_count = 0;
    for (size_t i = 0; i < lane->decoding_count; i++) {
        struct task *task = lane->decoding[i];
        if (request_is_off(task->row->request))
            continue;
        if (feeds_hypotheses(task))
            add_hypotheses(lane, task);
        else /* one token in place of a hypothesis: a long feed holds up nobody; more from room */
            room -= add_feed(lane, task, 1 + room) - 1;
    }
}

/* Copies the states whose logits are wanted to lie together; returns how many. */
static size_t gather_wanted(struct lane *lane)
{
    const size_t D = lane->engine->model->config.width;
    const float *state = lane->states;
    float *wanted = lane->wanted;
    for (size_t i = 0; i < lane->piece_count; i++) {
        const struct piece *piece = &lane->pieces[i];
        const size_t skipped = piece->states - piece->wanted;
        memcpy(wanted, state + skipped * D, piece->wanted * D * sizeof *wanted);
        wanted += piece->wanted * D;
        state += piece->states * D;
    }
    return (size_t)(wanted - lane->wanted) / D;
}

/* The log-probability of the row's target at `place`, by raw logits (V). */
static int score_place(const struct row *row, size_t place, const float *logits, size_t V,
                       struct error *err)
{
    const size_t best = row->request->top_logprobs;
    if (!logits_usable(logits, V))
        return error_set(err, ERR_NONFINITE, "the logits of row %zu at target %zu are not finite",
                         row->index, place);
    const double log_sum = logits_log_sum_exp(logits, V);
    row->answer.token_logprobs[place] = (float)((double)logits[row->targets[place]] - log_sum);
    if (best > 0)
        logits_top(logits, V, log_sum, row->answer.top_logprobs + place * best, best);
    return 0;
}

static int score(struct lane *lane, struct task *task, size_t count, const float *logits,
                 struct error *err)
{
    const size_t V = lane->engine->model->config.target_vocabulary;
    for (size_t i = 0; i < count; i++)
        if (score_place(task->row, task->fed - count + i, logits + i * V, V, err) < 0)
            return -1;
    if (task->fed == task->row->prefix_count)
        lane_end_task(lane, task);
    return 0;
}

/* Lays out the decoder inputs of the sequence to be fed again. */
static int prepare_review(struct lane *lane, struct task *task, struct error *err)
{
    struct row *row = task->row;
    const struct model_config *c = &lane->engine->model->config;
    const struct sequence sequence = search_sequence(row->answer.search, task->reviewed);
    memcpy(task->review, row->prefix, row->prefix_count * sizeof *row->prefix);
    memcpy(task->review + row->prefix_count, sequence.tokens,
           (sequence.count - 1) * sizeof *sequence.tokens);
    task->fed = 0;
    const size_t places = task_feed(task).count;
    float *weights =
        mem_alloc(c->decoder.layers * c->decoder.heads * places * row->sent_count, sizeof *weights);
    row->answer.sequence_attentions[task->reviewed] = weights;
    return weights ? 0 : error_set(err, ERR_NO_MEMORY, "attention weights of row %zu", row->index);
}

/* The search is done: the row ends, or its sequences are reviewed one after another. */
static int start_review(struct lane *lane, struct task *task, struct error *err)
{
    struct row *row = task->row;
    if (!row->options.output_attentions) {
        lane_end_task(lane, task);
        return 0;
    }
    row->answer.sequence_attentions =
        mem_alloc(search_sequence_count(row->answer.search), sizeof(float *));
    if (!row->answer.sequence_attentions)
        return error_set(err, ERR_NO_MEMORY, "attention weights of row %zu", row->index);
    task->phase = TASK_REVIEW;
    return prepare_review(lane, task, err);
}

static int review(struct lane *lane, struct task *task, struct error *err)
{
    if (task->fed < task_feed(task).count)
        return 0;
    if (++task->reviewed < search_sequence_count(task->row->answer.search))
        return prepare_review(lane, task, err);
    lane_end_task(lane, task);
    return 0;
}

/* `logits` (live, V): every hypothesis of the row goes one token on. */
static int advance(struct lane *lane, struct task *task, float *logits, struct error *err)
{
    struct row *row = task->row;
    if (search_step(row->answer.search, logits, err) < 0)
        return -1;
    row->last_token_ns = clock_ns();
    if (row->first_token_ns == 0) {
        row->first_token_ns = row->last_token_ns;
        histogram_observe(lane->engine->metrics.first_token,
                          (double)(row->first_token_ns - row->request->received_ns) / 1e9);
    }
    return search_done(row->answer.search) ? start_review(lane, task, err) : 0;
}

static int use_piece(struct lane *lane, const struct piece *piece, float *logits, struct error *err)
{
    struct task *task = piece->task;
    task->fed += feeds_hypotheses(task) ? 1 : piece->states;
    if (task->phase == TASK_SCORE)
        return score(lane, task, piece->states, logits, err);
    if (task->phase == TASK_REVIEW)
        return review(lane, task, err);
    return piece->wanted > 0 ? advance(lane, task, logits, err) : 0;
}

void lane_decode(struct lane *lane)
{
    const struct engine *engine = lane->engine;
    const struct pass pass = { engine->model, engine->kernels, &lane->scratch };
    const size_t V = engine->model->config.target_vocabulary;
    const uint64_t start = clock_ns();
    gather_pieces(lane);
    if (lane->piece_count == 0)
        return;
    decoder_forward(&pass, lane->segments, lane->segment_count, lane->states);
    const size_t wanted = gather_wanted(lane);
    decoder_logits(&pass, lane->wanted, wanted, lane->logits);
    histogram_observe(engine->metrics.batch_sequences[PHASE_DECODE], (double)lane->piece_count);
    float *logits = lane->logits;
    size_t states = 0;
    for (size_t i = 0; i < lane->piece_count; i++) {
        const struct piece piece = lane->pieces[i];
        struct error error = { 0 };
        if (use_piece(lane, &piece, logits, &error) < 0)
            lane_fail(lane, piece.task, &error);
        logits += piece.wanted * V;
        states += piece.states;
    }
    histogram_observe(engine->metrics.batch_tokens[PHASE_DECODE], (double)states);
    histogram_observe(engine->metrics.step_duration, (double)(clock_ns() - start) / 1e9);
}
