#if defined(__x86_64__)
#include "kernels_internal.h"

#include <immintrin.h>

#define KERNEL_SET "avx512"
/* 4 × 4 accumulators, 4 weights and one x of 32 registers. */
enum { LANES = 16, TILE_ROWS = 4 };

typedef __m512 vec;

static inline vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vec vec_set(float a)
{
    return _mm512_set1_ps(a);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline float vec_sum(vec v)
{
    return _mm512_reduce_add_ps(v);
}

static inline vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

static inline vec vec_load_part(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

static inline void vec_store_part(float *p, size_t n, vec v)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}

static inline vec vec_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline vec vec_load_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

#include "dot_products.h"

void kernels_init_avx512(struct kernels *kernels)
{
    fill_table(kernels);
}
#endif
