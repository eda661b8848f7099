/* mem.h — all heap use of the daemon, so that a test can make the Nth allocation fail.
 * Safe from any thread. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* Once, before any thread: what is large goes back to the system when it is freed.  Else the C
 * library would keep tens of MB for every thread that has ever written a large answer. */
void mem_setup(void);

/* count × size zeroed bytes; NULL when there are none or the product overflows.  mem_free() frees.
 */
void *mem_alloc(size_t count, size_t size) __attribute__((warn_unused_result));

/* Like realloc, with a checked product.  On failure `block` is untouched and still the caller's.
 * New bytes are not zeroed. */
void *mem_resize(void *block, size_t count, size_t size) __attribute__((warn_unused_result));

/* A copy of count × size bytes; NULL on failure. */
void *mem_copy(const void *block, size_t count, size_t size) __attribute__((warn_unused_result));

/* A copy of the text; NULL on failure. */
char *mem_text(const char *text) __attribute__((warn_unused_result));

void mem_free(void *block);

/* Gives free memory back to the system, which the C library may keep otherwise.  Takes about a
 * millisecond for each 100 MB. */
void mem_give_back(void);

/* Tests: let `count` more allocations succeed, then fail every one.  Negative: never fail (the
 * default).  Process-wide. */
void mem_fail_after(long count);

#endif
