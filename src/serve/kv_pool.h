/* kv_pool.h — the memory of one lane's key/value caches, given out in whole pieces, first fit.
 * Private to src/serve; one thread.
 *
 * A row reserves all it can ever need when it is admitted, so nothing is preempted and nothing
 * grows. */
#ifndef SERVE_KV_POOL_H
#define SERVE_KV_POOL_H

#include "base/arena.h"

struct kv_extent {
    size_t first, count; /* floats */
};

struct kv_pool {
    struct arena arena;
    float *floats;
    struct kv_extent *free; /* sorted, never adjacent */
    size_t free_count, free_max;
    size_t used; /* floats */
};

/* At most `pieces_max` pieces are out at once.  Errors: ERR_NO_MEMORY. */
int kv_pool_open(struct kv_pool *pool, size_t floats, size_t pieces_max, struct error *err);
void kv_pool_close(struct kv_pool *pool);

/* The largest piece that can be taken now. */
size_t kv_pool_largest(const struct kv_pool *pool);

/* `count` ≤ kv_pool_largest() floats, not zeroed. */
float *kv_pool_take(struct kv_pool *pool, size_t count);
void kv_pool_give(struct kv_pool *pool, float *piece, size_t count);

#endif
