#include "base/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum { BOUNDARY_BYTES = 64 };

int arena_open(struct arena *arena, size_t bytes, struct error *err)
{
    *arena = (struct arena){ 0 };
    if (bytes == 0)
        bytes = BOUNDARY_BYTES;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return error_set(err, ERR_NO_MEMORY, "cannot reserve %zu bytes: %s", bytes,
                         strerror(errno));
    arena->base = base;
    arena->size_bytes = bytes;
    return 0;
}

void arena_close(struct arena *arena)
{
    if (arena->base)
        munmap(arena->base, arena->size_bytes);
    *arena = (struct arena){ 0 };
}

size_t arena_need(size_t count, size_t size)
{
    size_t bytes;
    const bool overflow = __builtin_mul_overflow(count, size, &bytes) ||
                          __builtin_add_overflow(bytes, BOUNDARY_BYTES - 1, &bytes);
    assert(!overflow);
    return bytes / BOUNDARY_BYTES * BOUNDARY_BYTES;
}

void *arena_take(struct arena *arena, size_t count, size_t size)
{
    const size_t bytes = arena_need(count, size);
    assert(bytes <= arena->size_bytes - arena->used_bytes);
    void *block = arena->base + arena->used_bytes;
    arena->used_bytes += bytes;
    return block;
}

size_t arena_mark(const struct arena *arena)
{
    return arena->used_bytes;
}

void arena_release(struct arena *arena, size_t mark)
{
    assert(mark <= arena->used_bytes);
    arena->used_bytes = mark;
}
