/* pack_chunk_neon.h — a piece of a matrix in rows becomes a piece of a float32 panel, by blocks of
 * 4 × 4 turned in registers.  A file includes vec_neon.h before. */
#ifndef KERNELS_PACK_CHUNK_NEON_H
#define KERNELS_PACK_CHUNK_NEON_H

#include "pack_plain.h"

static inline void transpose_4x4(vec r[4])
{
    const vec a = vzip1q_f32(r[0], r[2]), b = vzip2q_f32(r[0], r[2]);
    const vec c = vzip1q_f32(r[1], r[3]), d = vzip2q_f32(r[1], r[3]);
    r[0] = vzip1q_f32(a, c);
    r[1] = vzip2q_f32(a, c);
    r[2] = vzip1q_f32(b, d);
    r[3] = vzip2q_f32(b, d);
}

static inline vec load_stored_at(const struct matrix *w, size_t index)
{
    if (w->dtype == DTYPE_F32)
        return vec_load((const float *)w->data + index);
    const uint16_t *halves = (const uint16_t *)w->data + index;
    return w->dtype == DTYPE_F16 ? vec_load_f16(halves) : vec_load_bf16(halves);
}

/* out (count, width) = rows first … first+width−1 of w at places k … k+count−1; zeros for rows that
 * w does not have. */
static void pack_chunk(const struct matrix *w, size_t first, size_t width, size_t k, size_t count,
                       float *out)
{
    for (size_t i = 0; i < width; i += LANES) {
        size_t j = 0;
        for (; first + i + LANES <= w->rows && j + LANES <= count; j += LANES) {
            vec block[LANES];
            for (size_t row = 0; row < LANES; row++)
                block[row] = load_stored_at(w, (first + i + row) * w->columns + k + j);
            transpose_4x4(block);
            for (size_t row = 0; row < LANES; row++)
                vec_store(out + (j + row) * width + i, block[row]);
        }
        pack_plain(w, first + i, LANES, k + j, count - j, out + j * width + i, width);
    }
}

#endif
