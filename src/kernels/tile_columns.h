/* tile_columns.h — what tiles of all types share.  A file includes a vec_*.h before. */
#ifndef KERNELS_TILE_COLUMNS_H
#define KERNELS_TILE_COLUMNS_H

#include "kernels/panels.h"

enum { AHEAD_BYTES = 8192 }; /* of the weights, read ahead of the tile */

/* Vector j of p; `columns` of p are there, the others become zeros. */
static inline vec load_columns(const float *p, size_t j, size_t columns)
{
    return (j + 1) * LANES <= columns ? vec_load(p + j * LANES)
           : j * LANES < columns      ? vec_load_part(p + j * LANES, columns - j * LANES)
                                      : vec_zero();
}

static inline void store_columns(float *p, size_t j, size_t columns, vec v)
{
    if ((j + 1) * LANES <= columns)
        vec_store(p + j * LANES, v);
    else if (j * LANES < columns)
        vec_store_part(p + j * LANES, columns - j * LANES, v);
}

/* Reads the lines of y that a tile will write, but the first of each row, which the tile before may
 * have written: rows lie far apart, and stores wait for their lines one after the other. */
static inline __attribute__((always_inline)) void
fetch_outputs(const float *y, size_t stride, const size_t rows, const size_t columns)
{
    enum { LINE = LINE_BYTES / sizeof(float) };
    for (size_t i = 0; i < rows; i++) {
        for (size_t column = LINE - 1; column < columns; column += LINE)
            __builtin_prefetch(y + i * stride + column, 1);
        if (columns % LINE)
            __builtin_prefetch(y + i * stride + columns - 1, 1);
    }
}

#endif
