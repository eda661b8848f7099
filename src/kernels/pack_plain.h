/* pack_plain.h — the loop that pack_chunk() of every kernel set falls back to at the edges. */
#ifndef KERNELS_PACK_PLAIN_H
#define KERNELS_PACK_PLAIN_H

#include "kernels_internal.h"

/* out[j * stride + i] = row first+i of w (in rows) at place k+j, for `rows` and `places` of them;
 * zeros for rows that w does not have. */
static inline void pack_plain(const struct matrix *w, size_t first, size_t rows, size_t k,
                              size_t places, float *out, size_t stride)
{
    for (size_t j = 0; j < places; j++)
        for (size_t i = 0; i < rows; i++)
            out[j * stride + i] =
                first + i < w->rows
                    ? stored_to_float(w->data, w->dtype, (first + i) * w->columns + k + j)
                    : 0.0f;
}

#endif
