/* arena.h — a reserved piece of address space that is handed out from the front.
 *
 * The whole size is reserved at start and touched as needed, so that a forward pass allocates
 * nothing. One thread at a time. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/error.h"

struct arena {
    char *base;
    size_t used_bytes;
    size_t size_bytes;
};

/* Reserves `bytes`.  Errors: ERR_NO_MEMORY. */
int arena_open(struct arena *arena, size_t bytes, struct error *err);
void arena_close(struct arena *arena);

/* count × size bytes at a 64-byte boundary, not zeroed.  Whoever sized the arena sized it for this:
 * a take that does not fit is a bug and aborts. */
void *arena_take(struct arena *arena, size_t count, size_t size);

/* The mark to return to with arena_release(): what was taken since is given back. */
size_t arena_mark(const struct arena *arena);
void arena_release(struct arena *arena, size_t mark);

/* How many bytes of an arena count × size elements use, the boundary included. */
size_t arena_need(size_t count, size_t size);

#endif
