/* kernel_sets.h — every kernel set of this machine, and numbers to give it. */
#ifndef KERNEL_SETS_H
#define KERNEL_SETS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "kernels/kernels.h"

static const char *const isas[] = { "portable", "avx2", "avx512", "neon" };
enum { SETS = sizeof isas / sizeof *isas };

static struct kernels tables[SETS];
static size_t table_count;

static inline int open_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETS; i++) {
        struct error err = { 0 };
        if (kernels_init(&tables[table_count], isas[i], "own", &err) == 0)
            table_count++;
    }
    return table_count == 0;
}

static inline float number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-28f; /* in [−8, 8) */
}

static inline void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = number(&seed);
}

static inline bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

#endif
