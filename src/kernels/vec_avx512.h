/* vec_avx512.h — vectors of floats, for the loops of the kernel set "avx512". */
#ifndef KERNELS_VEC_AVX512_H
#define KERNELS_VEC_AVX512_H

#include <immintrin.h>

#include "kernels_internal.h"
#include "lane_sums_avx2.h"

enum { LANES = 16 };

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

/* out[i] = vec_sum(v[i]), to the bit. */
static inline void vec_sums(const vec v[8], float out[8])
{
    __m256 halves[8];
    for (int i = 0; i < 8; i++)
        halves[i] = _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
    lane_sums(halves, out);
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

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_from_ints(const int32_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_loadu_si512(p));
}

/* Of LANES pairs of bfloat16: the first of each, the second. */
static inline vec vec_load_low(const uint32_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}

static inline vec vec_load_high(const uint32_t *p)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high));
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

/* a where it is larger, else b: of a NaN, b. */
static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

/* The size of the one with the sign of the other. */
static inline vec vec_copysign(vec size, vec sign)
{
    const vec mask = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(mask, size), _mm512_and_ps(mask, sign));
}

/* Lane by lane: a < b ? yes : no. */
static inline vec vec_where_below(vec a, vec b, vec yes, vec no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

/* 2ⁿ of n + 1.5 · 2²³, −126 ≤ n ≤ 127. */
static inline vec vec_power(vec shifted)
{
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)));
}

/* The first n < LANES of p, then `fill`. */
static inline vec vec_load_filled(const float *p, size_t n, float fill)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), (__mmask16)((1u << n) - 1), p);
}

/* A bit for each lane: where a > b; where v is NaN. */
static inline unsigned vec_above(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

static inline unsigned vec_nans(vec v)
{
    return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
}

/* Of numbers without NaN. */
static inline float vec_largest(vec v)
{
    return _mm512_reduce_max_ps(v);
}

/* LANES numbers in double precision. */
typedef struct {
    __m512d low, high;
} doubles;

static inline doubles doubles_set(double a)
{
    return (doubles){ _mm512_set1_pd(a), _mm512_set1_pd(a) };
}

static inline doubles doubles_of(vec v)
{
    return (doubles){ _mm512_cvtps_pd(_mm512_castps512_ps256(v)),
                      _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)) };
}

static inline vec vec_of_doubles(doubles d)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(d.low)),
                              _mm512_cvtpd_ps(d.high), 1);
}

static inline doubles doubles_add(doubles a, doubles b)
{
    return (doubles){ _mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high) };
}

static inline doubles doubles_sub(doubles a, doubles b)
{
    return (doubles){ _mm512_sub_pd(a.low, b.low), _mm512_sub_pd(a.high, b.high) };
}

static inline doubles doubles_fma(doubles a, doubles b, doubles c)
{
    return (doubles){ _mm512_fmadd_pd(a.low, b.low, c.low),
                      _mm512_fmadd_pd(a.high, b.high, c.high) };
}

static inline double doubles_sum(doubles d)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(d.low, d.high));
}

#endif
