/* attention.h — softmax(score(q, k)) · v, for a whole row or for single queries.  Private to
 * src/model.
 *
 * A token's q and k are (H, K), its v is (H, W), W the width of a head's values, side by side in
 * one row of memory.  Masked tokens are not among the keys at all, so they have exactly no weight.
 *
 * Heads are independent: threads may each do some of a row's, with scratch of their own.  What a
 * query gets depends on its keys and values alone, to the bit. */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "model/forward.h"

/* To be called once on projected queries and once on projected keys, (M, H·K), before they are used
 * or stored: cosine attention divides each head by its length. */
void attention_prepare(const struct model_config *config, const struct stack_shape *shape,
                       float *rows, size_t M);

/* A sublayer's attention. */
struct attention {
    const struct attention_weights *weights;
    const struct stack_shape *shape;
    const uint16_t *buckets; /* of the stack; NULL: places do not matter */
};

/* Heads first … end−1. */
struct heads {
    size_t first, end;
};

/* Those of unit `unit` (a row, a hypothesis) that are among items first … end−1, when the items are
 * all heads of unit 0, then all of unit 1, and so on. */
static inline struct heads heads_among(size_t unit, size_t H, size_t first, size_t end)
{
    const size_t begin = unit * H;
    const size_t from = first > begin ? first - begin : 0, to = end > begin ? end - begin : 0;
    return (struct heads){ from < H ? from : H, to < H ? to : H };
}

/* Where attention weights go: query i's row of head h begins at
 * weights + (h · queries_max + i) · keys_max, and key j's place in it is key_places[j], or j if
 * that is NULL. */
struct attention_record {
    float *weights; /* NULL: nowhere */
    size_t queries_max, keys_max;
    const int32_t *key_places;
};

/* A row whose every token attends to every other. */
struct attention_row {
    const float *q, *k, *v; /* (S, H·K), (S, H·K), (S, H·W) */
    size_t S;
    size_t first, end;     /* the queries that are asked */
    const int32_t *places; /* (S), of the tokens in the row as sent; ascending */
    float *out;            /* (end − first, H·W) */
    struct attention_record record;
};
void attention_row(const struct pass *pass, const struct attention *attention,
                   const struct attention_row *row, struct heads heads, void *scratch);

/* Keys and values of `tokens` tokens: for each head its keys (tokens, K), then its values
 * (tokens, W), so that one query reads them as a single stream. */
struct attention_cache {
    float *base;
    size_t tokens;
};

/* Keys k (H·K) and values v (H·W) become those of token `token`. */
void attention_store(const struct stack_shape *shape, const struct attention_cache *cache,
                     size_t token, const float *k, const float *v, struct heads heads);

/* One query at `place` over `count` ≥ 1 keys; key j is at place j, and is token path[j] of the
 * cache, or token j if path is NULL. */
struct attention_query {
    size_t place;
    const float *q; /* (H·K) */
    const int32_t *path;
    size_t count;
    float *out; /* (H·W) */
    struct attention_record record;
};

/* At most so many queries at once over one cache: its keys and values of a head are read from
 * memory for all of them together. */
enum { ATTENTION_QUERIES = 8 };
void attention_queries(const struct pass *pass, const struct attention *attention,
                       const struct attention_cache *cache, const struct attention_query *queries,
                       size_t count, struct heads heads, void *scratch);

/* Bytes of scratch that either takes for at most `keys_max` keys; it begins at a multiple of 64. */
size_t attention_scratch_bytes(const struct stack_shape *shape, size_t keys_max);

#endif
