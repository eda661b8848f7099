/* The encoder pass of a lane, and the answers of /v1/encode. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine_internal.h"

static bool is_finite(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

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
    return is_finite(embedding, dim);
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
    bool finite = is_finite(x, source->count * pass->model->config.width);
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
    const struct search_input input = { .prefix = row->prefix,
                                        .prefix_count = row->prefix_count,
                                        .source = row->sent_ids,
                                        .source_count = row->sent_ids ? row->sent_count : 0 };
    if (task->phase == TASK_GENERATE &&
        search_create(&row->answer.search, &row->options,
                      lane->engine->model->config.target_vocabulary, &input, &error) < 0)
        lane_fail(lane, task, &error);
}

void lane_forget_pass(struct lane *lane)
{
    lane->encoding_count = lane->decoded_count = 0;
    lane->encoding_tokens = lane->decoded_tokens = lane->stage = 0;
    lane->encode_ns = 0;
}

static void finish_pass(struct lane *lane, const struct pass *pass)
{
    struct engine_metrics *metrics = &lane->engine->metrics;
    const size_t count = lane->encoding_count, D = pass->model->config.width;
    const float *x = lane->hidden;
    histogram_observe(metrics->encode_duration, (double)lane->encode_ns / 1e9);
    counter_add(metrics->prompt_tokens, (double)lane->encoding_tokens);
    lane_forget_pass(lane);
    for (size_t i = 0; i < count; i++) {
        const size_t tokens = lane->sources[i].count;
        histogram_observe(metrics->source_tokens, (double)tokens);
        finish_row(lane, pass, lane->encoding[i], &lane->sources[i], x);
        x += tokens * D;
    }
}

/* Stages: the encoder's layers, then for each decoder layer its cross keys and values. */
static bool run_stage(struct lane *lane, const struct pass *pass)
{
    const struct model_config *c = &pass->model->config;
    const size_t rows = lane->encoding_count, stage = lane->stage++;
    if (stage == 0)
        encoder_embed(pass, lane->sources, rows, lane->hidden);
    if (stage < c->encoder.layers)
        encoder_layer(pass, stage, lane->sources, rows, lane->hidden);
    else
        decoder_cross(pass, stage - c->encoder.layers, lane->hidden, lane->decoded_tokens,
                      lane->caches, lane->decoded_count);
    if (stage + 1 == c->encoder.layers)
        encoder_finish(pass, lane->hidden, lane->encoding_tokens);
    const size_t last = c->encoder.layers + (lane->decoded_count > 0 ? c->decoder.layers : 0);
    return lane->stage < last;
}

void lane_encode(struct lane *lane)
{
    const struct pass pass = { lane->engine->model, lane->engine->kernels, &lane->scratch };
    const uint64_t start = clock_ns();
    size_t work = 0;
    bool more;
    do {
        more = run_stage(lane, &pass);
        work += lane->encoding_tokens;
    } while (more && work + lane->encoding_tokens <= lane->engine->config.encode_token_layers);
    lane->encode_ns += clock_ns() - start;
    if (!more)
        finish_pass(lane, &pass);
}
