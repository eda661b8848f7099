#include "kv_pool.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

int kv_pool_open(struct kv_pool *pool, size_t floats, size_t pieces_max, struct error *err)
{
    *pool = (struct kv_pool){ .free_max = pieces_max + 1 };
    if (arena_open(&pool->arena, floats * sizeof(float), err) < 0)
        return -1;
    pool->floats = (float *)(void *)pool->arena.base;
    pool->free = mem_alloc(pool->free_max, sizeof *pool->free);
    if (!pool->free) {
        kv_pool_close(pool);
        return error_set(err, ERR_NO_MEMORY, "key/value cache");
    }
    pool->free[0] = (struct kv_extent){ 0, floats };
    pool->free_count = floats > 0;
    return 0;
}

void kv_pool_close(struct kv_pool *pool)
{
    mem_free(pool->free);
    arena_close(&pool->arena);
    *pool = (struct kv_pool){ 0 };
}

size_t kv_pool_largest(const struct kv_pool *pool)
{
    size_t largest = 0;
    for (size_t i = 0; i < pool->free_count; i++)
        if (pool->free[i].count > largest)
            largest = pool->free[i].count;
    return largest;
}

static void remove_free(struct kv_pool *pool, size_t index)
{
    pool->free_count--;
    memmove(&pool->free[index], &pool->free[index + 1],
            (pool->free_count - index) * sizeof *pool->free);
}

float *kv_pool_take(struct kv_pool *pool, size_t count)
{
    size_t i = 0;
    while (i < pool->free_count && pool->free[i].count < count)
        i++;
    assert(i < pool->free_count);
    struct kv_extent *extent = &pool->free[i];
    float *piece = pool->floats + extent->first;
    extent->first += count;
    extent->count -= count;
    if (extent->count == 0)
        remove_free(pool, i);
    pool->used += count;
    return piece;
}

void kv_pool_give(struct kv_pool *pool, float *piece, size_t count)
{
    const size_t first = (size_t)(piece - pool->floats);
    size_t i = 0;
    while (i < pool->free_count && pool->free[i].first < first)
        i++;
    pool->used -= count;
    const bool joins_before = i > 0 && pool->free[i - 1].first + pool->free[i - 1].count == first;
    const bool joins_after = i < pool->free_count && first + count == pool->free[i].first;
    if (joins_before) {
        pool->free[i - 1].count += count;
        if (joins_after) {
            pool->free[i - 1].count += pool->free[i].count;
            remove_free(pool, i);
        }
    } else if (joins_after) {
        pool->free[i].first = first;
        pool->free[i].count += count;
    } else {
        assert(pool->free_count < pool->free_max);
        memmove(&pool->free[i + 1], &pool->free[i], (pool->free_count - i) * sizeof *pool->free);
        pool->free[i] = (struct kv_extent){ first, count };
        pool->free_count++;
    }
}
