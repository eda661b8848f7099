/* The encoder pass of a lane, and the answers of /v1/encode. */
#include <string.h>

#include "base/clock.h"
#include "engine_internal.h"

/* False: the vector is not finite. */
static bool answer_encode(const struct pass *pass, struct row *row, const struct source_row *source,
                          const float *x)
{
    const struct request *request = row->request;
    const size_t dim = pooling_dim(pass->model, request->pooling);
    float *embedding = row->answer.embedding;
    if (request->pooling == POOLING_NONE) {
        for (size_t i = 0; i < source->count; i++)
            memcpy(embedding + (size_t)source->places[i] * dim, x + i * dim, dim * sizeof *x);
        return true;
    }
    pooling_vector(pass, request->pooling, request->normalize, source, x, embedding);
    return all_finite(embedding, dim);
}

static void fail_nonfinite(struct lane *lane, struct task *task)
{
    struct error error = { 0 };
    error_set(&error, ERR_NONFINITE, "the encoder's output for row %zu is not finite",
              task->row->index);
    lane_fail(lane, task, &error);
}

static void finish_row(struct lane *lane, const struct pass *pass, struct task *task,
                       const struct source_row *source, const float *x)
{
    struct row *row = task->row;
    const bool encode = row->request->kind == REQUEST_ENCODE;
    row->encoded_ns = clock_ns();
    bool finite = all_finite(x, source->count * pass->model->config.width);
    if (finite && encode && !request_is_off(row->request))
        finite = answer_encode(pass, row, source, x);
    if (!finite)
        fail_nonfinite(lane, task);
    if (request_is_off(row->request)) {
        lane_give_up_task(lane, task);
        return;
    }
    if (encode) {
        lane_end_task(lane, task);
        return;
    }
    task->phase = row->request->kind == REQUEST_GENERATE ? TASK_GENERATE : TASK_SCORE;
    lane->decoding[lane->decoding_count++] = task;
    struct error error = { 0 };
    const struct search_input input = { .kernels = lane->engine->kernels,
                                        .prefix = row->prefix,
                                        .prefix_count = row->prefix_count,
                                        .source = row->sent_ids,
                                        .source_count = row->sent_ids ? row->sent_count : 0 };
    if (task->phase == TASK_GENERATE &&
        search_create(&row->answer.search, &row->options,
                      lane->engine->model->config.target_vocabulary, &input, &error) < 0)
        lane_fail(lane, task, &error);
}

static void finish_pass(struct lane *lane, const struct pass *pass, struct encode_pass *encode)
{
    struct engine_metrics *metrics = &lane->engine->metrics;
    const size_t count = encode->row_count, D = pass->model->config.width;
    const float *x = encode->encoding.x;
    histogram_observe(metrics->encode_duration, (double)encode->ns / 1e9);
    counter_add(metrics->prompt_tokens, (double)encode->encoding.M);
    encode->row_count = 0;
    for (size_t i = encode->offset; i < encode->offset + count; i++) {
        const size_t tokens = lane->sources[i].count;
        histogram_observe(metrics->source_tokens, (double)tokens);
        finish_row(lane, pass, lane->encoding[i], &lane->sources[i], x);
        x += tokens * D;
    }
}

/* One piece of about PIECE_PRODUCTS multiplications for each thread: a few ms, fewer than a decoder
 * step.  False: the pass has no more. */
static bool run_piece(struct lane *lane, const struct pass *pass, struct encode_pass *p)
{
    enum { PIECE_PRODUCTS = 1 << 29 };
    const struct model_config *c = &pass->model->config;
    const struct encoding *e = &p->encoding;
    const bool cross = p->layer >= c->encoder.layers;
    const size_t products = PIECE_PRODUCTS * team_size(pass->team);
    if (p->layer == 0 && p->phase == ENCODER_PROJECT && p->next == 0)
        encoder_embed(pass, e);
    size_t last = e->M, end;
    if (cross) {
        last = p->decoded_tokens;
        end = last - p->next < CROSS_TOKENS ? last : p->next + CROSS_TOKENS;
        decoder_cross(pass, p->layer - c->encoder.layers, e->x, lane->caches + p->offset, p->next,
                      end);
    } else {
        end = encoder_chunk(c, e, p->phase, p->next, products);
        encoder_run(pass, p->layer, p->phase, e, p->next, end);
    }
    p->next = end;
    if (end < last)
        return true;
    p->next = 0;
    if (!cross && p->phase == ENCODER_PROJECT) {
        p->phase = ENCODER_TRANSFORM;
        return true;
    }
    p->phase = ENCODER_PROJECT;
    if (++p->layer == c->encoder.layers)
        encoder_finish(pass, e->x, e->M);
    return p->layer < c->encoder.layers + (p->decoded_count > 0 ? c->decoder.layers : 0);
}

/* The pass with the fewest tokens, every other time: short rows do not wait for long ones, which
 * go on all the same. */
static struct encode_pass *choose_pass(struct lane *lane)
{
    struct encode_pass *chosen = NULL;
    for (size_t i = 0; i < ENCODE_PASSES; i++) {
        struct encode_pass *pass = &lane->passes[i];
        if (pass->row_count == 0)
            continue;
        if (!chosen || (lane->turn % 2 == 0 ? pass->encoding.M < chosen->encoding.M
                                            : pass->encoding.M > chosen->encoding.M))
            chosen = pass;
    }
    lane->turn++;
    return chosen;
}

bool lane_encode(struct lane *lane)
{
    const struct pass pass = { lane->engine->model, lane->engine->kernels, &lane->scratch,
                               lane->team, false };
    const uint64_t begin = clock_ns(), budget = lane->engine->config.encode_ms * NS_PER_MS;
    bool encoded = false;
    uint64_t now = begin;
    do {
        struct encode_pass *chosen = choose_pass(lane);
        if (!chosen)
            break;
        encoded = true;
        const bool more = run_piece(lane, &pass, chosen);
        const uint64_t end = clock_ns();
        chosen->ns += end - now;
        now = end;
        if (!more)
            finish_pass(lane, &pass, chosen);
    } while (now - begin < budget);
    return encoded;
}
