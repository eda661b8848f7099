#include "attention.h"

#include <math.h>
#include <string.h>

/* Queries of a row whose scores are in memory at once, so few that they stay in the L2 cache with
 * all keys and values of the head; for most kernel sets a multiple of the rows in a tile. */
enum { QUERY_BLOCK = 24 };

/* Floats, so that the next piece of scratch begins at a multiple of 64 bytes. */
static size_t filled(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* From one query's scores to the next one's.  An odd number of cache lines: with a power of two the
 * same key's scores would fall into few sets of the cache and push each other out. */
static size_t score_stride(size_t keys)
{
    return filled(keys) | 16;
}

/* What one head of a row needs. */
struct row_scratch {
    float *keys, *values; /* strips */
    float *queries;       /* (QUERY_BLOCK, K), scaled */
    float *scores;        /* (QUERY_BLOCK, stride) */
    size_t stride;
    float *distances; /* (2·S − 1): biases by distance, −(S − 1) … S − 1 */
};

/* Floats of it; *at is where they lie if they begin at `scratch`. */
static size_t row_scratch(const struct stack_shape *shape, size_t S, float *scratch,
                          struct row_scratch *at)
{
    const size_t sizes[] = { filled(S) * shape->key_width, filled(shape->value_width) * S,
                             filled(QUERY_BLOCK * shape->key_width), QUERY_BLOCK * score_stride(S),
                             filled(2 * S) };
    size_t offsets[6] = { 0 };
    for (size_t i = 0; i < 5; i++)
        offsets[i + 1] = offsets[i] + sizes[i];
    if (at)
        *at = (struct row_scratch){ scratch + offsets[0], scratch + offsets[1],
                                    scratch + offsets[2], scratch + offsets[3],
                                    score_stride(S),      scratch + offsets[4] };
    return offsets[5];
}

size_t attention_scratch_bytes(const struct stack_shape *shape, size_t keys_max)
{
    const size_t row = row_scratch(shape, keys_max, NULL, NULL);
    const size_t queries = ATTENTION_QUERIES * score_stride(keys_max);
    return arena_need(row > queries ? row : queries, sizeof(float));
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

static void additive_scores(const struct float_rows *keys, const float *q, const float *weight,
                            float *out)
{
    for (size_t j = 0; j < keys->count; j++) {
        const float *k = keys->data + (keys->path ? (size_t)keys->path[j] : j) * keys->stride;
        out[j] = 0.0f;
        for (size_t i = 0; i < keys->width; i++)
            out[j] += weight[i] * tanhf(q[i] + k[i]);
    }
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

/* One head of a row. */
struct row_head {
    const struct pass *pass;
    const struct attention *attention;
    const struct attention_row *row;
    size_t head;
    struct row_scratch at;
    struct biases biases;
    bool consecutive; /* the places are: a query's biases lie side by side in at.distances */
};

static struct float_rows head_keys(const struct row_head *h)
{
    const size_t K = h->attention->shape->key_width, H = h->attention->shape->heads;
    return (struct float_rows){ h->row->k + h->head * K, H * K, NULL, h->row->S, K, NULL };
}

static void open_head(struct row_head *h)
{
    const struct kernels *kernels = h->pass->kernels;
    const struct attention_row *row = h->row;
    const size_t W = h->attention->shape->value_width, H = h->attention->shape->heads;
    const size_t S = row->S;
    const struct float_rows keys = head_keys(h);
    const struct float_rows values = { row->v + h->head * W, H * W, NULL, S, W, NULL };
    if (h->pass->model->config.attention_score != SCORE_ADDITIVE)
        kernels->pack_keys(&keys, h->at.keys);
    kernels->pack_values(&values, h->at.values);
    h->biases = head_biases(h->pass, h->attention, h->head);
    h->consecutive = (size_t)(row->places[S - 1] - row->places[0]) == S - 1;
    for (size_t i = 0; h->biases.by_bucket && h->consecutive && i < 2 * S - 1; i++)
        h->at.distances[i] = bias(&h->biases, i, S - 1);
}

static void add_biases(const struct row_head *h, size_t query, float *scores)
{
    const size_t S = h->row->S;
    const int32_t *places = h->row->places;
    if (!h->biases.by_bucket)
        return;
    if (h->consecutive) {
        const float *distances = h->at.distances + (S - 1 - query);
        for (size_t j = 0; j < S; j++)
            scores[j] += distances[j];
        return;
    }
    for (size_t j = 0; j < S; j++)
        scores[j] += bias(&h->biases, (size_t)places[j], (size_t)places[query]);
}

/* Scores of queries first … first+n−1 with every key, biases not yet added. */
static void block_scores(const struct row_head *h, size_t first, size_t n)
{
    const struct model_config *c = &h->pass->model->config;
    const struct stack_shape *shape = h->attention->shape;
    const size_t K = shape->key_width, stride = shape->heads * K;
    const float *q = h->row->q + first * stride + h->head * K;
    if (c->attention_score == SCORE_ADDITIVE) {
        const float *weight = h->attention->weights->score_weight + h->head * K;
        const struct float_rows keys = head_keys(h);
        for (size_t i = 0; i < n; i++)
            additive_scores(&keys, q + i * stride, weight, h->at.scores + i * h->at.stride);
        return;
    }
    const float scale = score_scale(c, shape);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < K; j++)
            h->at.queries[i * K + j] = q[i * stride + j] * scale;
    h->pass->kernels->multiply(&(struct strip_product){ .x = h->at.queries,
                                                        .x_stride = K,
                                                        .M = n,
                                                        .strips = h->at.keys,
                                                        .K = K,
                                                        .N = h->row->S,
                                                        .y = h->at.scores,
                                                        .y_stride = h->at.stride });
}

static void attend_block(const struct row_head *h, size_t first, size_t n)
{
    const struct attention_row *row = h->row;
    const size_t W = h->attention->shape->value_width, values = h->attention->shape->heads * W;
    block_scores(h, first, n);
    for (size_t i = 0; i < n; i++) {
        float *scores = h->at.scores + i * h->at.stride;
        add_biases(h, first + i, scores);
        h->pass->kernels->softmax(scores, row->S);
        record_weights(&row->record, h->head, (size_t)row->places[first + i], scores, row->S);
    }
    h->pass->kernels->multiply(
        &(struct strip_product){ .x = h->at.scores,
                                 .x_stride = h->at.stride,
                                 .M = n,
                                 .strips = h->at.values,
                                 .K = row->S,
                                 .N = W,
                                 .y = row->out + (first - row->first) * values + h->head * W,
                                 .y_stride = values });
}

void attention_row(const struct pass *pass, const struct attention *attention,
                   const struct attention_row *row, struct heads heads, void *scratch)
{
    struct row_head h = { .pass = pass, .attention = attention, .row = row };
    row_scratch(attention->shape, row->S, scratch, &h.at);
    for (h.head = heads.first; h.head < heads.end; h.head++) {
        open_head(&h);
        for (size_t first = row->first; first < row->end; first += QUERY_BLOCK)
            attend_block(&h, first,
                         row->end - first < QUERY_BLOCK ? row->end - first : QUERY_BLOCK);
    }
}

static float *cache_keys(const struct stack_shape *shape, const struct attention_cache *cache,
                         size_t head)
{
    return cache->base + head * cache->tokens * (shape->key_width + shape->value_width);
}

static float *cache_values(const struct stack_shape *shape, const struct attention_cache *cache,
                           size_t head)
{
    return cache_keys(shape, cache, head) + cache->tokens * shape->key_width;
}

void attention_store(const struct stack_shape *shape, const struct attention_cache *cache,
                     size_t token, const float *k, const float *v, struct heads heads)
{
    const size_t K = shape->key_width, W = shape->value_width;
    for (size_t h = heads.first; h < heads.end; h++) {
        memcpy(cache_keys(shape, cache, h) + token * K, k + h * K, K * sizeof *k);
        memcpy(cache_values(shape, cache, h) + token * W, v + h * W, W * sizeof *v);
    }
}

/* weights (count) = softmax of the scores of one head; `ahead` as in struct float_rows. */
static void query_weights(const struct pass *pass, const struct attention *attention,
                          const struct attention_query *query, size_t head, const float *keys,
                          const float *ahead, float *weights)
{
    const struct model_config *c = &pass->model->config;
    const size_t K = attention->shape->key_width;
    const struct float_rows rows = { keys, K, query->path, query->count, K, ahead };
    const struct biases biases = head_biases(pass, attention, head);
    const float *q = query->q + head * K;
    if (c->attention_score == SCORE_ADDITIVE)
        additive_scores(&rows, q, attention->weights->score_weight + head * K, weights);
    else
        pass->kernels->scores(&rows, q, score_scale(c, attention->shape), weights);
    for (size_t j = 0; biases.by_bucket && j < query->count; j++)
        weights[j] += bias(&biases, j, query->place);
    pass->kernels->softmax(weights, query->count);
    record_weights(&query->record, head, query->place, weights, query->count);
}

/* All keys of a head are read, then all its values: a query after the first finds them in the
 * cache.  The first one has the other half fetched meanwhile: values, then the next head's keys. */
void attention_queries(const struct pass *pass, const struct attention *attention,
                       const struct attention_cache *cache, const struct attention_query *queries,
                       size_t count, struct heads heads, void *scratch)
{
    const size_t W = attention->shape->value_width;
    size_t keys_max = 0;
    for (size_t i = 0; i < count; i++)
        keys_max = queries[i].count > keys_max ? queries[i].count : keys_max;
    const size_t stride = score_stride(keys_max);
    float *weights = scratch;
    for (size_t h = heads.first; h < heads.end; h++) {
        const float *keys = cache_keys(attention->shape, cache, h);
        const float *values = cache_values(attention->shape, cache, h);
        const float *next = h + 1 < heads.end ? cache_keys(attention->shape, cache, h + 1) : NULL;
        for (size_t i = 0; i < count; i++)
            query_weights(pass, attention, &queries[i], h, keys, i == 0 ? values : NULL,
                          weights + i * stride);
        for (size_t i = 0; i < count; i++) {
            struct float_rows rows = { values, W, queries[i].path, queries[i].count, W, NULL };
            if (i == 0)
                rows.ahead = next;
            pass->kernels->mix(&rows, weights + i * stride, queries[i].out + h * W);
        }
    }
}
