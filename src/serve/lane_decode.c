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
    lane->pieces[lane->piece_count++] =
        (struct piece){ .task = task, .positions = 1, .states = live, .wanted = live };
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
    lane->pieces[lane->piece_count++] =
        (struct piece){ .task = task, .positions = count, .states = count, .wanted = wanted };
    return count;
}

/* Tokens of feeds that one step takes besides the live hypotheses: what the configuration allows,
 * but no more than takes about 20 ms. */
static size_t feed_room(const struct lane *lane)
{
    enum { FEED_PRODUCTS = 1 << 29 };
    const struct engine *engine = lane->engine;
    size_t keys = 0;
    for (size_t i = 0; i < lane->decoding_count; i++) {
        const struct task *task = lane->decoding[i];
        const size_t both = task->fed + task->row->token_count;
        keys = both > keys ? both : keys;
    }
    const size_t tokens = FEED_PRODUCTS * team_size(lane->team) /
                          decoder_token_products(&engine->model->config, keys);
    return tokens < engine->config.step_tokens ? tokens : engine->config.step_tokens;
}

/* Tasks that are off leave at the next step and feed nothing more. */
static void gather_pieces(struct lane *lane)
{
    size_t room = feed_room(lane);
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

/* Copies the states whose logits are wanted to lie together, and says where the logits will. */
static void gather_wanted(struct lane *lane)
{
    const size_t D = lane->engine->model->config.width;
    const size_t V = lane->engine->model->config.target_vocabulary;
    const float *state = lane->states;
    size_t count = 0;
    for (size_t i = 0; i < lane->piece_count; i++) {
        struct piece *piece = &lane->pieces[i];
        const bool generates = piece->task->phase == TASK_GENERATE && piece->wanted > 0;
        const size_t needed = generates ? search_needed(piece->task->row->answer.search) : 0;
        state += (piece->states - piece->wanted) * D;
        memcpy(lane->wanted + count * D, state, piece->wanted * D * sizeof *state);
        state += piece->wanted * D;
        piece->logits = lane->logits + count * V;
        for (size_t j = 0; j < piece->wanted; j++)
            lane->needed[count++] = needed;
    }
    lane->wanted_count = count;
}

/* The log-probability of the row's target at `place`, by raw logits (V). */
static int score_place(const struct kernels *kernels, const struct row *row, size_t place,
                       const float *logits, size_t V, struct error *err)
{
    const size_t best = row->request->top_logprobs;
    if (!logits_usable(kernels, logits, V))
        return error_set(err, ERR_NONFINITE, "the logits of row %zu at target %zu are not finite",
                         row->index, place);
    const double log_sum = logits_log_sum_exp(kernels, logits, V);
    row->answer.token_logprobs[place] = (float)((double)logits[row->targets[place]] - log_sum);
    if (best > 0)
        logits_top(kernels, logits, V, log_sum, row->answer.top_logprobs + place * best, best);
    return 0;
}

/* The row's targets whose logits the piece got. */
static int score(const struct kernels *kernels, struct piece *piece, size_t V)
{
    for (size_t i = 0; i < piece->wanted; i++)
        if (score_place(kernels, piece->task->row, piece->task->fed + i, piece->logits + i * V, V,
                        &piece->error) < 0)
            return -1;
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

/* Every hypothesis of the row went one token on. */
static int advance(struct lane *lane, struct task *task, struct error *err)
{
    struct row *row = task->row;
    row->last_token_ns = clock_ns();
    if (row->first_token_ns == 0) {
        row->first_token_ns = row->last_token_ns;
        histogram_observe(lane->engine->metrics.first_token,
                          (double)(row->first_token_ns - row->request->received_ns) / 1e9);
    }
    return search_done(row->answer.search) ? start_review(lane, task, err) : 0;
}

/* What the piece's logits mean, which concerns its row alone. */
static void use_logits(const struct kernels *kernels, struct piece *piece, size_t V)
{
    struct task *task = piece->task;
    if (piece->wanted == 0)
        return;
    const int rc = task->phase == TASK_SCORE
                       ? score(kernels, piece, V)
                       : search_step(task->row->answer.search, piece->logits, &piece->error);
    piece->failed = rc < 0;
}

/* A member takes the pieces whose first row of logits is among its own. */
static void share_logits(void *context, size_t member, size_t members)
{
    struct lane *lane = context;
    const size_t V = lane->engine->model->config.target_vocabulary;
    size_t first, end;
    team_share(lane->wanted_count, 1, member, members, &first, &end);
    for (size_t i = 0; i < lane->piece_count; i++) {
        const size_t row = (size_t)(lane->pieces[i].logits - lane->logits) / V;
        if (first <= row && row < end)
            use_logits(lane->engine->kernels, &lane->pieces[i], V);
    }
}

/* The task goes on, or leaves the lane. */
static int go_on(struct lane *lane, const struct piece *piece, struct error *err)
{
    struct task *task = piece->task;
    task->fed += piece->positions;
    if (task->phase == TASK_REVIEW)
        return review(lane, task, err);
    if (task->phase == TASK_GENERATE)
        return piece->wanted > 0 ? advance(lane, task, err) : 0;
    if (task->fed == task->row->prefix_count)
        lane_end_task(lane, task);
    return 0;
}

void lane_decode(struct lane *lane)
{
    const struct engine *engine = lane->engine;
    const struct pass pass = { engine->model, engine->kernels, &lane->scratch, lane->team,
                               engine->config.screening };
    const uint64_t start = clock_ns();
    gather_pieces(lane);
    if (lane->piece_count == 0)
        return;
    decoder_forward(&pass, lane->segments, lane->segment_count, lane->states);
    gather_wanted(lane);
    decoder_logits(&pass, lane->wanted, lane->wanted_count, lane->needed, lane->logits);
    team_run(lane->wanted_count > 1 ? lane->team : NULL, share_logits, lane);
    histogram_observe(engine->metrics.batch_sequences[PHASE_DECODE], (double)lane->piece_count);
    size_t states = 0;
    for (size_t i = 0; i < lane->piece_count; i++) {
        struct piece *piece = &lane->pieces[i];
        states += piece->states;
        if (piece->failed || go_on(lane, piece, &piece->error) < 0)
            lane_fail(lane, piece->task, &piece->error);
    }
    histogram_observe(engine->metrics.batch_tokens[PHASE_DECODE], (double)states);
    lane->decode_ns = clock_ns() - start;
    histogram_observe(engine->metrics.step_duration, (double)lane->decode_ns / 1e9);
}
