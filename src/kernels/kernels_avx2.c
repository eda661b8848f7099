#if defined(__x86_64__)
#include "kernels_internal.h"

#include <immintrin.h>

#define KERNEL_SET "avx2"
/* 2 × 4 accumulators, 4 weights and one x fit the 16 registers. */
enum { LANES = 8, TILE_ROWS = 2 };

typedef __m256 vec;

static inline vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vec vec_set(float a)
{
    return _mm256_set1_ps(a);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline float vec_sum(vec v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

static inline vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

static inline __m256i first_lanes(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vec vec_load_part(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}

static inline void vec_store_part(float *p, size_t n, vec v)
{
    _mm256_maskstore_ps(p, first_lanes(n), v);
}

static inline vec vec_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vec vec_load_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

#include "dot_products.h"

void kernels_init_avx2(struct kernels *kernels)
{
    fill_table(kernels);
}
#endif
