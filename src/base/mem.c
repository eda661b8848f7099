#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static atomic_long allocations_left = -1;

static bool may_allocate(void)
{
    if (atomic_load_explicit(&allocations_left, memory_order_relaxed) < 0)
        return true;
    if (atomic_fetch_sub(&allocations_left, 1) > 0)
        return true;
    atomic_store(&allocations_left, 0);
    return false;
}

void mem_setup(void)
{
#ifdef __GLIBC__
    enum { LARGE_BYTES = 1 << 18, ARENAS = 2 };
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES); /* set, it no longer grows */
    mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
    mallopt(M_ARENA_MAX, ARENAS); /* each keeps some of what is free */
#endif
}

void mem_fail_after(long count)
{
    atomic_store(&allocations_left, count);
}

void *mem_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !may_allocate())
        return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

void *mem_resize(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !may_allocate())
        return NULL;
    return realloc(block, bytes ? bytes : 1);
}

void *mem_copy(const void *block, size_t count, size_t size)
{
    void *copy = mem_alloc(count, size);
    if (copy && count && size)
        memcpy(copy, block, count * size);
    return copy;
}

char *mem_text(const char *text)
{
    return mem_copy(text, strlen(text) + 1, 1);
}

void mem_free(void *block)
{
    free(block);
}

void mem_give_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
