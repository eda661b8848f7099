#include "attention.h"

#include <math.h>

/* Queries whose scores are in memory at once; a constant, so that a row's bits depend on the row
 * alone. */
enum { QUERY_BLOCK = 128 };

size_t attention_scratch_bytes(size_t keys_max)
{
    return arena_need(QUERY_BLOCK * keys_max, sizeof(float));
}

void attention_prepare(const struct model_config *config, const struct stack_shape *shape,
                       float *rows, size_t M)
{
    const size_t K = shape->key_width;
    if (config->attention_score != SCORE_COSINE)
        return;
    for (size_t i = 0; i < M * shape->heads; i++) {
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
static float score_scale(const struct model_config *config, const struct stack_shape *shape)
{
    if (config->attention_score == SCORE_SCALED_DOT)
        return (float)(1.0 / sqrt((double)shape->key_width));
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

/* Biases of one head by the distance of a key from its query. */
struct biases {
    const float *by_bucket;  /* NULL: none */
    const uint16_t *buckets; /* [0] is that of distance 0 */
    ptrdiff_t R;
};

static struct biases head_biases(const struct pass *pass, const struct attention *attention,
                                 size_t head)
{
    const struct model_config *c = &pass->model->config;
    const float *relative = attention->weights->relative;
    if (!relative || !attention->buckets)
        return (struct biases){ 0 };
    return (struct biases){ relative + head * c->relative_buckets,
                            attention->buckets + c->relative_distance,
                            (ptrdiff_t)c->relative_distance };
}

static float bias(const struct biases *biases, size_t key, size_t query)
{
    const ptrdiff_t distance = (ptrdiff_t)key - (ptrdiff_t)query, R = biases->R;
    return biases->by_bucket[biases->buckets[distance < -R ? -R : distance > R ? R : distance]];
}

/* Queries `first` … first + n − 1 of a row's S tokens. */
struct block {
    size_t first, n, S;
    const int32_t *places;
};

static void add_biases(const struct biases *biases, const struct block *block, float *scores)
{
    for (size_t i = 0; i < block->n; i++) {
        const size_t query = (size_t)block->places[block->first + i];
        for (size_t j = 0; j < block->S; j++)
            scores[i * block->S + j] += bias(biases, (size_t)block->places[j], query);
    }
}

/* scores (n, S) of the block's queries with the S keys of one head; q, k: the first token's. */
static void block_scores(const struct pass *pass, const struct attention *attention, size_t head,
                         const float *q, const float *k, const struct block *block, float *scores)
{
    const struct model_config *c = &pass->model->config;
    const size_t K = attention->shape->key_width, stride = attention->shape->heads * K;
    const size_t S = block->S;
    q += block->first * stride + head * K;
    k += head * K;
    if (c->attention_score == SCORE_ADDITIVE) {
        const float *weight = attention->weights->score_weight + head * K;
        for (size_t i = 0; i < block->n; i++)
            for (size_t j = 0; j < S; j++)
                scores[i * S + j] = additive_score(weight, q + i * stride, k + j * stride, K);
        return;
    }
    blas_nt(&(struct blas){ .m = block->n,
                            .n = S,
                            .k = K,
                            .alpha = score_scale(c, attention->shape),
                            .a = q,
                            .a_stride = stride,
                            .b = k,
                            .b_stride = stride,
                            .c = scores,
                            .c_stride = S });
    const struct biases biases = head_biases(pass, attention, head);
    if (biases.by_bucket)
        add_biases(&biases, block, scores);
}

void attention_row(const struct pass *pass, const struct attention *attention, const float *q,
                   const float *k, const float *v, size_t S, const int32_t *places, float *out,
                   const struct attention_record *record)
{
    const size_t H = attention->shape->heads, W = attention->shape->value_width, values = H * W;
    const size_t mark = arena_mark(pass->arena);
    float *scores = arena_take(pass->arena, QUERY_BLOCK * S, sizeof *scores);
    for (size_t first = 0; first < S; first += QUERY_BLOCK) {
        const size_t n = S - first < QUERY_BLOCK ? S - first : QUERY_BLOCK;
        const struct block block = { first, n, S, places };
        for (size_t h = 0; h < H; h++) {
            block_scores(pass, attention, h, q, k, &block, scores);
            for (size_t i = 0; i < n; i++) {
                softmax(scores + i * S, S);
                record_weights(record, h, (size_t)places[first + i], scores + i * S, S);
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

/* weights (count) = the scores of one head. */
static void query_scores(const struct pass *pass, const struct attention *attention, size_t head,
                         const struct attention_query *query, float *weights)
{
    const struct model_config *c = &pass->model->config;
    const size_t H = attention->shape->heads, K = attention->shape->key_width;
    const float *q = query->q + head * K;
    const struct biases biases = head_biases(pass, attention, head);
    const float scale = score_scale(c, attention->shape);
    for (size_t j = 0; j < query->count; j++) {
        const size_t row = query->path ? (size_t)query->path[j] : j;
        const float *k = query->keys + (row * H + head) * K;
        if (c->attention_score == SCORE_ADDITIVE)
            weights[j] = additive_score(attention->weights->score_weight + head * K, q, k, K);
        else
            weights[j] = scale * pass->kernels->dot(q, k, K);
        if (biases.by_bucket)
            weights[j] += bias(&biases, j, query->place);
    }
}

void attention_query(const struct pass *pass, const struct attention *attention,
                     const struct attention_query *query, const struct attention_record *record)
{
    const size_t H = attention->shape->heads, W = attention->shape->value_width;
    const size_t mark = arena_mark(pass->arena);
    float *weights = arena_take(pass->arena, query->count, sizeof *weights);
    for (size_t h = 0; h < H; h++) {
        float *out = query->out + h * W;
        query_scores(pass, attention, h, query, weights);
        softmax(weights, query->count);
        record_weights(record, h, query->place, weights, query->count);
        for (size_t i = 0; i < W; i++)
            out[i] = 0.0f;
        for (size_t j = 0; j < query->count; j++) {
            const size_t row = query->path ? (size_t)query->path[j] : j;
            pass->kernels->axpy(weights[j], query->values + (row * H + h) * W, out, W);
        }
    }
    arena_release(pass->arena, mark);
}
