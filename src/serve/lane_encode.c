/* The encoder pass of a lane, and the answers of /v1/encode. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine_internal.h"

/* Real tokens' states x (n, D) become the row's vector. */
static void pool(enum pooling pooling, const float *x, size_t n, size_t D, float *vector)
{
    if (pooling == POOLING_CLS || pooling == POOLING_LAST) {
        memcpy(vector, pooling == POOLING_CLS ? x : x + (n - 1) * D, D * sizeof *vector);
        return;
    }
    for (size_t d = 0; d < D; d++) {
        double sum = 0.0;
        float largest = x[d];
        for (size_t i = 0; i < n; i++) {
            sum += (double)x[i * D + d];
            largest = x[i * D + d] > largest ? x[i * D + d] : largest;
        }
        vector[d] = pooling == POOLING_MEAN ? (float)(sum / (double)n) : largest;
    }
}

/* To unit L2 norm; a vector of zeros stays. */
static void normalize(float *vector, size_t D)
{
    double squares = 0.0;
    for (size_t d = 0; d < D; d++)
        squares += (double)vector[d] * (double)vector[d];
    const double length = sqrt(squares);
    for (size_t d = 0; d < D && length > 0.0; d++)
        vector[d] = (float)((double)vector[d] / length);
}

static bool is_finite(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void answer_encode(struct row *row, const float *x, size_t D)
{
    const struct request *request = row->request;
    float *embedding = row->answer.embedding;
    if (request->pooling == POOLING_NONE) {
        for (size_t i = 0; i < row->token_count; i++)
            memcpy(embedding + (size_t)row->places[i] * D, x + i * D, D * sizeof *x);
        return;
    }
    pool(request->pooling, x, row->token_count, D, embedding);
    if (request->normalize)
        normalize(embedding, D);
}

static void finish_row(struct lane *lane, struct task *task, const float *x)
{
    const size_t D = lane->engine->model->config.width;
    struct row *row = task->row;
    row->encoded_ns = clock_ns();
    if (!is_finite(x, row->token_count * D)) {
        struct error error = { 0 };
        error_set(&error, ERR_NONFINITE, "the encoder's output for row %zu is not finite",
                  row->index);
        lane_fail(lane, task, &error);
    }
    if (request_is_off(row->request)) {
        lane_give_up_task(lane, task);
        return;
    }
    if (row->request->kind == REQUEST_ENCODE) {
        answer_encode(row, x, D);
        lane_end_task(lane, task);
        return;
    }
    task->phase = row->request->kind == REQUEST_GENERATE ? TASK_GENERATE : TASK_SCORE;
    lane->decoding[lane->decoding_count++] = task;
    struct error error = { 0 };
    if (task->phase == TASK_GENERATE && search_create(&row->answer.search, &row->options,
                                                      lane->engine->model->config.target_vocabulary,
                                                      row->prefix, row->prefix_count, &error) < 0)
        lane_fail(lane, task, &error);
}

void lane_forget_pass(struct lane *lane)
{
    lane->encoding_count = lane->decoded_count = 0;
    lane->encoding_tokens = lane->decoded_tokens = lane->stage = 0;
    lane->encode_ns = 0;
}

static void finish_pass(struct lane *lane)
{
    struct engine_metrics *metrics = &lane->engine->metrics;
    const size_t count = lane->encoding_count, D = lane->engine->model->config.width;
    const float *x = lane->hidden;
    histogram_observe(metrics->encode_duration, (double)lane->encode_ns / 1e9);
    counter_add(metrics->prompt_tokens, (double)lane->encoding_tokens);
    lane_forget_pass(lane);
    for (size_t i = 0; i < count; i++) {
        const size_t tokens = lane->sources[i].count;
        histogram_observe(metrics->source_tokens, (double)tokens);
        finish_row(lane, lane->encoding[i], x);
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
    if (stage < c->encoder_layers)
        encoder_layer(pass, stage, lane->sources, rows, lane->hidden);
    else
        decoder_cross(pass, stage - c->encoder_layers, lane->hidden, lane->decoded_tokens,
                      lane->caches, lane->decoded_count);
    if (stage + 1 == c->encoder_layers)
        encoder_finish(pass, lane->hidden, lane->encoding_tokens);
    const size_t last = c->encoder_layers + (lane->decoded_count > 0 ? c->decoder_layers : 0);
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
        finish_pass(lane);
}
