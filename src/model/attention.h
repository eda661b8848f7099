/* attention.h — softmax(score(q, k)) · v, for a whole row or for one query.  Private to src/model.
 *
 * q and k rows are (H, K), v rows (H, value width), side by side in one row of memory.  Masked
 * tokens are not among the keys at all, so they have exactly no weight. */
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

/* Where attention weights go: query i's row of head h begins at
 * weights + (h · queries_max + i) · keys_max, and key j's place in it is key_places[j], or j if
 * that is NULL. */
struct attention_record {
    float *weights; /* NULL: nowhere */
    size_t queries_max, keys_max;
    const int32_t *key_places;
};

/* Every token of a row attends to every other: q, k, v, out (S, …); `places` (S) of the tokens in
 * the row as sent. */
void attention_row(const struct pass *pass, const struct attention *attention, const float *q,
                   const float *k, const float *v, size_t S, const int32_t *places, float *out,
                   const struct attention_record *record);

/* One query at `place` over `count` keys; key j is at place j, and lies in row path[j] of `keys`
 * and `values`, or in row j if path is NULL.  out (H, value width). */
struct attention_query {
    size_t place;
    const float *q;
    const float *keys, *values;
    const int32_t *path;
    size_t count;
    float *out;
};
void attention_query(const struct pass *pass, const struct attention *attention,
                     const struct attention_query *query, const struct attention_record *record);

/* Bytes of scratch that either takes for at most `keys_max` keys. */
size_t attention_scratch_bytes(size_t keys_max);

#endif
