/* pack_chunk_avx2.h — a piece of a matrix in rows becomes a piece of a float32 panel, by blocks of
 * 8 × 8 turned in registers.  For every x86 kernel set. */
#ifndef KERNELS_PACK_CHUNK_AVX2_H
#define KERNELS_PACK_CHUNK_AVX2_H

#include <immintrin.h>

#include "kernels/panels.h"
#include "pack_plain.h"

static inline void transpose_8x8(__m256 r[8])
{
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

static inline __attribute__((always_inline)) __m256 load_8_stored(const void *p, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return _mm256_loadu_ps(p);
    const __m128i halves = _mm_loadu_si128(p);
    if (dtype == DTYPE_F16)
        return _mm256_cvtph_ps(halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

static inline __attribute__((always_inline)) void pack_chunk_of(const struct matrix *w,
                                                                enum dtype dtype, size_t first,
                                                                size_t width, size_t k,
                                                                size_t count, float *out)
{
    const size_t K = w->columns, element = dtype == DTYPE_F32 ? 4 : 2;
    /* Where the same place of the next chunk lies. */
    const size_t next = (k + 2 * count <= K ? count : PANEL_COLUMNS * K - k) * element;
    for (size_t i = 0; i < width; i += 8) {
        size_t j = 0;
        for (; first + i + 8 <= w->rows && j + 8 <= count; j += 8) {
            const char *from = (const char *)w->data + ((first + i) * K + k + j) * element;
            __m256 block[8];
            for (size_t row = 0; row < 8; row++) {
                block[row] = load_8_stored(from + row * K * element, dtype);
                if (j % (64 / element) == 0)
                    _mm_prefetch(from + row * K * element + next, _MM_HINT_T0);
            }
            transpose_8x8(block);
            for (size_t row = 0; row < 8; row++)
                _mm256_store_ps(out + (j + row) * width + i, block[row]);
        }
        if (j < count)
            pack_plain(w, first + i, 8, k + j, count - j, out + j * width + i, width);
    }
}

/* out (count, width) = rows first … first+width−1 of w at places k … k+count−1; zeros for rows that
 * w does not have. */
static void pack_chunk(const struct matrix *w, size_t first, size_t width, size_t k, size_t count,
                       float *out)
{
    if (w->dtype == DTYPE_F32)
        pack_chunk_of(w, DTYPE_F32, first, width, k, count, out);
    else if (w->dtype == DTYPE_F16)
        pack_chunk_of(w, DTYPE_F16, first, width, k, count, out);
    else
        pack_chunk_of(w, DTYPE_BF16, first, width, k, count, out);
}

#endif
