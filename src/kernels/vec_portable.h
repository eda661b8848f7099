/* vec_portable.h — vectors of floats in plain C, for the loops of the kernel set "portable". */
#ifndef KERNELS_VEC_PORTABLE_H
#define KERNELS_VEC_PORTABLE_H

#include <math.h>

#include "kernels_internal.h"

enum { LANES = 8 };

typedef struct {
    float lane[LANES];
} vec;

static inline vec vec_set(float a)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = a;
    return v;
}

static inline vec vec_zero(void)
{
    return vec_set(0.0f);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    for (size_t i = 0; i < LANES; i++)
        c.lane[i] += a.lane[i] * b.lane[i];
    return c;
}

static inline float vec_sum(vec v)
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            v.lane[i] += v.lane[i + half];
    return v.lane[0];
}

/* out[i] = vec_sum(v[i]), to the bit. */
static inline void vec_sums(const vec v[8], float out[8])
{
    for (size_t i = 0; i < 8; i++)
        out[i] = vec_sum(v[i]);
}

static inline vec vec_load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vec_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec vec_load_part(const float *p, size_t n)
{
    vec v = vec_zero();
    memcpy(&v, p, n * sizeof *p);
    return v;
}

static inline void vec_store_part(float *p, size_t n, vec v)
{
    memcpy(p, &v, n * sizeof *p);
}

static inline vec vec_load_f16(const uint16_t *p)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = f16_to_float(p[i]);
    return v;
}

static inline vec vec_load_bf16(const uint16_t *p)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = bf16_to_float(p[i]);
    return v;
}

static inline vec vec_add(vec a, vec b)
{
    for (size_t i = 0; i < LANES; i++)
        a.lane[i] += b.lane[i];
    return a;
}

static inline vec vec_mul(vec a, vec b)
{
    for (size_t i = 0; i < LANES; i++)
        a.lane[i] *= b.lane[i];
    return a;
}

static inline vec vec_from_ints(const int32_t *p)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = (float)p[i];
    return v;
}

/* Of LANES pairs of bfloat16: the first of each, the second. */
static inline vec vec_load_low(const uint32_t *p)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = bf16_to_float((uint16_t)p[i]);
    return v;
}

static inline vec vec_load_high(const uint32_t *p)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = bf16_to_float((uint16_t)(p[i] >> 16));
    return v;
}

static inline vec vec_sub(vec a, vec b)
{
    for (size_t i = 0; i < LANES; i++)
        a.lane[i] -= b.lane[i];
    return a;
}

static inline vec vec_div(vec a, vec b)
{
    for (size_t i = 0; i < LANES; i++)
        a.lane[i] /= b.lane[i];
    return a;
}

/* a where it is larger, else b: of a NaN, b. */
static inline vec vec_max(vec a, vec b)
{
    for (size_t i = 0; i < LANES; i++)
        a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

/* The size of the one with the sign of the other. */
static inline vec vec_copysign(vec size, vec sign)
{
    for (size_t i = 0; i < LANES; i++)
        size.lane[i] = copysignf(size.lane[i], sign.lane[i]);
    return size;
}

/* Lane by lane: a < b ? yes : no. */
static inline vec vec_where_below(vec a, vec b, vec yes, vec no)
{
    for (size_t i = 0; i < LANES; i++)
        no.lane[i] = a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i];
    return no;
}

/* 2ⁿ of n + 1.5 · 2²³, −126 ≤ n ≤ 127. */
static inline vec vec_power(vec shifted)
{
    uint32_t bits[LANES];
    memcpy(bits, &shifted, sizeof bits);
    for (size_t i = 0; i < LANES; i++)
        bits[i] = (bits[i] << 23) + 0x3f800000;
    memcpy(&shifted, bits, sizeof bits);
    return shifted;
}

/* The first n < LANES of p, then `fill`. */
static inline vec vec_load_filled(const float *p, size_t n, float fill)
{
    vec v = vec_set(fill);
    memcpy(&v, p, n * sizeof *p);
    return v;
}

/* A bit for each lane: where a > b; where v is NaN. */
static inline unsigned vec_above(vec a, vec b)
{
    unsigned bits = 0;
    for (size_t i = 0; i < LANES; i++)
        bits |= (unsigned)(a.lane[i] > b.lane[i]) << i;
    return bits;
}

static inline unsigned vec_nans(vec v)
{
    unsigned bits = 0;
    for (size_t i = 0; i < LANES; i++)
        bits |= (unsigned)isnan(v.lane[i]) << i;
    return bits;
}

/* Of numbers without NaN. */
static inline float vec_largest(vec v)
{
    for (size_t i = 1; i < LANES; i++)
        v.lane[0] = v.lane[i] > v.lane[0] ? v.lane[i] : v.lane[0];
    return v.lane[0];
}

/* LANES numbers in double precision. */
typedef struct {
    double lane[LANES];
} doubles;

static inline doubles doubles_set(double a)
{
    doubles d;
    for (size_t i = 0; i < LANES; i++)
        d.lane[i] = a;
    return d;
}

static inline doubles doubles_of(vec v)
{
    doubles d;
    for (size_t i = 0; i < LANES; i++)
        d.lane[i] = (double)v.lane[i];
    return d;
}

static inline vec vec_of_doubles(doubles d)
{
    vec v;
    for (size_t i = 0; i < LANES; i++)
        v.lane[i] = (float)d.lane[i];
    return v;
}

static inline doubles doubles_add(doubles a, doubles b)
{
    for (size_t i = 0; i < LANES; i++)
        a.lane[i] += b.lane[i];
    return a;
}

static inline doubles doubles_sub(doubles a, doubles b)
{
    for (size_t i = 0; i < LANES; i++)
        a.lane[i] -= b.lane[i];
    return a;
}

static inline doubles doubles_fma(doubles a, doubles b, doubles c)
{
    for (size_t i = 0; i < LANES; i++)
        c.lane[i] += a.lane[i] * b.lane[i];
    return c;
}

static inline double doubles_sum(doubles d)
{
    double sum = 0.0;
    for (size_t i = 0; i < LANES; i++)
        sum += d.lane[i];
    return sum;
}

#endif
