/* vec_neon.h — vectors of floats, for the loops of the kernel set "neon" (aarch64). */
#ifndef KERNELS_VEC_NEON_H
#define KERNELS_VEC_NEON_H

#include <arm_neon.h>

#include "kernels_internal.h"

enum { LANES = 4 };

typedef float32x4_t vec;

static inline vec vec_set(float a)
{
    return vdupq_n_f32(a);
}

static inline vec vec_zero(void)
{
    return vec_set(0.0f);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

static inline float vec_sum(vec v)
{
    const float32x2_t two = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(two, two), 0);
}

static inline vec four_sums(const vec v[4])
{
    vec two[2]; /* of v[2 * i], then of v[2 * i + 1]: lanes 0 + 2, 1 + 3 */
    for (int i = 0; i < 2; i++) {
        const float64x2_t a = vreinterpretq_f64_f32(v[2 * i]);
        const float64x2_t b = vreinterpretq_f64_f32(v[2 * i + 1]);
        two[i] = vaddq_f32(vreinterpretq_f32_f64(vtrn1q_f64(a, b)),
                           vreinterpretq_f32_f64(vtrn2q_f64(a, b)));
    }
    return vpaddq_f32(two[0], two[1]);
}

/* out[i] = vec_sum(v[i]), to the bit. */
static inline void vec_sums(const vec v[8], float out[8])
{
    vst1q_f32(out, four_sums(v));
    vst1q_f32(out + 4, four_sums(v + 4));
}

static inline vec vec_load(const float *p)
{
    return vld1q_f32(p);
}

static inline void vec_store(float *p, vec v)
{
    vst1q_f32(p, v);
}

static inline vec vec_load_part(const float *p, size_t n)
{
    float lanes[LANES] = { 0 };
    memcpy(lanes, p, n * sizeof *p);
    return vec_load(lanes);
}

static inline void vec_store_part(float *p, size_t n, vec v)
{
    float lanes[LANES];
    vec_store(lanes, v);
    memcpy(p, lanes, n * sizeof *p);
}

/* Written out: GCC 12 takes the intrinsic for a function that may read all memory, and stores the
 * sums of the loop around it in every turn. */
static inline vec vec_load_f16(const uint16_t *p)
{
    vec v;
    __asm__("fcvtl %0.4s, %1.4h" : "=w"(v) : "w"(vld1_u16(p)));
    return v;
}

static inline vec vec_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

static inline vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

static inline vec vec_from_ints(const int32_t *p)
{
    return vcvtq_f32_s32(vld1q_s32(p));
}

/* Of LANES pairs of bfloat16: the first of each, the second. */
static inline vec vec_load_low(const uint32_t *p)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(p), 16));
}

static inline vec vec_load_high(const uint32_t *p)
{
    return vreinterpretq_f32_u32(vandq_u32(vld1q_u32(p), vdupq_n_u32(0xffff0000)));
}

static inline vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}

/* a where it is larger, else b: of a NaN, b. */
static inline vec vec_max(vec a, vec b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* The size of the one with the sign of the other. */
static inline vec vec_copysign(vec size, vec sign)
{
    return vbslq_f32(vdupq_n_u32(0x80000000), sign, size);
}

/* Lane by lane: a < b ? yes : no. */
static inline vec vec_where_below(vec a, vec b, vec yes, vec no)
{
    return vbslq_f32(vcltq_f32(a, b), yes, no);
}

/* 2ⁿ of n + 1.5 · 2²³, −126 ≤ n ≤ 127. */
static inline vec vec_power(vec shifted)
{
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23);
    return vreinterpretq_f32_u32(vaddq_u32(exponent, vdupq_n_u32(0x3f800000)));
}

/* The first n < LANES of p, then `fill`. */
static inline vec vec_load_filled(const float *p, size_t n, float fill)
{
    float lanes[LANES] = { fill, fill, fill, fill };
    memcpy(lanes, p, n * sizeof *p);
    return vec_load(lanes);
}

/* A bit for each lane that is all ones. */
static inline unsigned lane_bits(uint32x4_t lanes)
{
    static const uint32_t bits[LANES] = { 1, 2, 4, 8 };
    return vaddvq_u32(vandq_u32(lanes, vld1q_u32(bits)));
}

/* A bit for each lane: where a > b; where v is NaN. */
static inline unsigned vec_above(vec a, vec b)
{
    return lane_bits(vcgtq_f32(a, b));
}

static inline unsigned vec_nans(vec v)
{
    return lane_bits(vmvnq_u32(vceqq_f32(v, v)));
}

/* Of numbers without NaN. */
static inline float vec_largest(vec v)
{
    return vmaxvq_f32(v);
}

/* LANES numbers in double precision. */
typedef struct {
    float64x2_t low, high;
} doubles;

static inline doubles doubles_set(double a)
{
    return (doubles){ vdupq_n_f64(a), vdupq_n_f64(a) };
}

static inline doubles doubles_of(vec v)
{
    return (doubles){ vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v) };
}

static inline vec vec_of_doubles(doubles d)
{
    return vcvt_high_f32_f64(vcvt_f32_f64(d.low), d.high);
}

static inline doubles doubles_add(doubles a, doubles b)
{
    return (doubles){ vaddq_f64(a.low, b.low), vaddq_f64(a.high, b.high) };
}

static inline doubles doubles_sub(doubles a, doubles b)
{
    return (doubles){ vsubq_f64(a.low, b.low), vsubq_f64(a.high, b.high) };
}

static inline doubles doubles_fma(doubles a, doubles b, doubles c)
{
    return (doubles){ vfmaq_f64(c.low, a.low, b.low), vfmaq_f64(c.high, a.high, b.high) };
}

static inline double doubles_sum(doubles d)
{
    return vaddvq_f64(vaddq_f64(d.low, d.high));
}

#endif
