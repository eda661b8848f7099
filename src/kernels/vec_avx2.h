/* vec_avx2.h — vectors of floats, for the loops of the kernel set "avx2". */
#ifndef KERNELS_VEC_AVX2_H
#define KERNELS_VEC_AVX2_H

#include <immintrin.h>

#include "kernels_internal.h"
#include "lane_sums_avx2.h"

enum { LANES = 8 };

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

/* out[i] = vec_sum(v[i]), to the bit. */
static inline void vec_sums(const vec v[8], float out[8])
{
    lane_sums(v, out);
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

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_from_ints(const int32_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* Of LANES pairs of bfloat16: the first of each, the second. */
static inline vec vec_load_low(const uint32_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)p), 16));
}

static inline vec vec_load_high(const uint32_t *p)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000);
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)p), high));
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

/* a where it is larger, else b: of a NaN, b. */
static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

/* The size of the one with the sign of the other. */
static inline vec vec_copysign(vec size, vec sign)
{
    const vec mask = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(mask, size), _mm256_and_ps(mask, sign));
}

/* Lane by lane: a < b ? yes : no. */
static inline vec vec_where_below(vec a, vec b, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

/* 2ⁿ of n + 1.5 · 2²³, −126 ≤ n ≤ 127. */
static inline vec vec_power(vec shifted)
{
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)));
}

/* The first n < LANES of p, then `fill`. */
static inline vec vec_load_filled(const float *p, size_t n, float fill)
{
    return _mm256_blendv_ps(_mm256_set1_ps(fill), vec_load_part(p, n),
                            _mm256_castsi256_ps(first_lanes(n)));
}

/* A bit for each lane: where a > b; where v is NaN. */
static inline unsigned vec_above(vec a, vec b)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

static inline unsigned vec_nans(vec v)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

/* Of numbers without NaN. */
static inline float vec_largest(vec v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

/* LANES numbers in double precision. */
typedef struct {
    __m256d low, high;
} doubles;

static inline doubles doubles_set(double a)
{
    return (doubles){ _mm256_set1_pd(a), _mm256_set1_pd(a) };
}

static inline doubles doubles_of(vec v)
{
    return (doubles){ _mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                      _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)) };
}

static inline vec vec_of_doubles(doubles d)
{
    return _mm256_set_m128(_mm256_cvtpd_ps(d.high), _mm256_cvtpd_ps(d.low));
}

static inline doubles doubles_add(doubles a, doubles b)
{
    return (doubles){ _mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high) };
}

static inline doubles doubles_sub(doubles a, doubles b)
{
    return (doubles){ _mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high) };
}

static inline doubles doubles_fma(doubles a, doubles b, doubles c)
{
    return (doubles){ _mm256_fmadd_pd(a.low, b.low, c.low),
                      _mm256_fmadd_pd(a.high, b.high, c.high) };
}

static inline double doubles_sum(doubles d)
{
    const __m256d four = _mm256_add_pd(d.low, d.high);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif
