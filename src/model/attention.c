#include "attention.h"

#include <math.h>

/* Queries whose scores are in memory at once; a constant, so that a row's bits depend on the row
 * alone. */
enum { QUERY_BLOCK = 128 };

size_t attention_scratch_bytes(size_t keys_max)
{
    return arena_need(QUERY_BLOCK * keys_max, sizeof(float));
}

void attention_prepare(const struct model_config *config, float *rows, size_t M)
{
    const size_t K = config->key_width;
    if (config->attention_score != SCORE_COSINE)
        return;
    for (size_t i = 0; i < M * config->heads; i++) {
        float *head = rows + i * K;
        double squares = 0.0;
        for (size_t j = 0; j < K; j++)
            squares += (double)head[j] * (double)head[j];
        const float scale = (float)(1.0 / fmax(sqrt(squares), 1e-12));
        for (size_t j = 0; j < K; j++)
            head[j] *= scale;
    }
}

/* What dot products are multiplied by. */
static float score_scale(const struct model_config *config)
{
    if (config->attention_score == SCORE_SCALED_DOT)
        return (float)(1.0 / sqrt((double)config->key_width));
    if (config->attention_score == SCORE_COSINE)
        return 1.0f / config->attention_temperature;
    return 1.0f;
}

static float additive_score(const float *weight, const float *q, const float *k, size_t K)
{
    float sum = 0.0f;
    for (size_t i = 0; i < K; i++)
        sum += weight[i] * tanhf(q[i] + k[i]);
    return sum;
}

/* In place; n ≥ 1. */
static void softmax(float *x, size_t n)
{
    float largest = x[0], sum = 0.0f;
    for (size_t i = 1; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - largest);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

static void record_weights(const struct attention_record *record, size_t head, size_t query_place,
                           const float *weights, size_t count)
{
    if (!record->weights)
        return;
    float *row = record->weights + (head * record->queries_max + query_place) * record->keys_max;
    for (size_t j = 0; j < count; j++)
        row[record->key_places ? (size_t)record->key_places[j] : j] = weights[j];
}

/* scores (n, S) of n queries with the S keys of one head. */
static void row_scores(const struct pass *pass, const struct attention_weights *attention,
                       size_t head, const float *q, size_t n, const float *k, size_t S,
                       float *scores)
{
    const struct model_config *c = &pass->model->config;
    const size_t K = c->key_width, stride = c->heads * K;
    if (c->attention_score != SCORE_ADDITIVE) {
        blas_nt(&(struct blas){ .m = n,
                                .n = S,
                                .k = K,
                                .alpha = score_scale(c),
                                .a = q,
                                .a_stride = stride,
                                .b = k,
                                .b_stride = stride,
                                .c = scores,
                                .c_stride = S });
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < S; j++)
            scores[i * S + j] = additive_score(attention->score_weight + head * K, q + i * stride,
                                               k + j * stride, K);
}

void attention_row(const struct pass *pass, const struct attention_weights *attention,
                   const float *q, const float *k, const float *v, size_t S, float *out,
                   const struct attention_record *record, const int32_t *query_places)
{
    const struct model_config *c = &pass->model->config;
    const size_t K = c->key_width, W = c->value_width, keys = c->heads * K, values = c->heads * W;
    const size_t mark = arena_mark(pass->arena);
    float *scores = arena_take(pass->arena, QUERY_BLOCK * S, sizeof *scores);
    for (size_t first = 0; first < S; first += QUERY_BLOCK) {
        const size_t n = S - first < QUERY_BLOCK ? S - first : QUERY_BLOCK;
        for (size_t h = 0; h < c->heads; h++) {
            row_scores(pass, attention, h, q + first * keys + h * K, n, k + h * K, S, scores);
            for (size_t i = 0; i < n; i++) {
                softmax(scores + i * S, S);
                record_weights(record, h,
                               query_places ? (size_t)query_places[first + i] : first + i,
                               scores + i * S, S);
            }
            blas_nn(&(struct blas){ .m = n,
                                    .n = W,
                                    .k = S,
                                    .alpha = 1.0f,
                                    .a = scores,
                                    .a_stride = S,
                                    .b = v + h * W,
                                    .b_stride = values,
                                    .c = out + first * values + h * W,
                                    .c_stride = values });
        }
    }
    arena_release(pass->arena, mark);
}

void attention_query(const struct pass *pass, const struct attention_weights *attention,
                     const struct attention_query *query, const struct attention_record *record,
                     size_t query_place)
{
    const struct model_config *c = &pass->model->config;
    const size_t K = c->key_width, W = c->value_width;
    const float scale = score_scale(c);
    const size_t mark = arena_mark(pass->arena);
    float *weights = arena_take(pass->arena, query->count, sizeof *weights);
    for (size_t h = 0; h < c->heads; h++) {
        const float *q = query->q + h * K;
        float *out = query->out + h * W;
        for (size_t j = 0; j < query->count; j++) {
            const size_t row = query->path ? (size_t)query->path[j] : j;
            const float *k = query->keys + (row * c->heads + h) * K;
            weights[j] = c->attention_score == SCORE_ADDITIVE
                             ? additive_score(attention->score_weight + h * K, q, k, K)
                             : scale * pass->kernels->dot(q, k, K);
        }
        softmax(weights, query->count);
        record_weights(record, h, query_place, weights, query->count);
        for (size_t i = 0; i < W; i++)
            out[i] = 0.0f;
        for (size_t j = 0; j < query->count; j++) {
            const size_t row = query->path ? (size_t)query->path[j] : j;
            pass->kernels->axpy(weights[j], query->values + (row * c->heads + h) * W, out, W);
        }
    }
    arena_release(pass->arena, mark);
}
