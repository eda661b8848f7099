/* vector_loops.h — the body of every kernel set: loops over vectors.  A vec_*.h comes before.
 *
 * Remainders go through padded vectors too: the same element gets the same bits in any place. */

#include <math.h>

#include "vector_math.h"

static inline __attribute__((always_inline)) vec load_stored(const void *p, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return vec_load(p);
    return dtype == DTYPE_F16 ? vec_load_f16(p) : vec_load_bf16(p);
}

static float dot(const float *x, const float *y, size_t n)
{
    const size_t whole = n / LANES * LANES;
    vec sum = vec_zero();
    for (size_t i = 0; i < whole; i += LANES)
        sum = vec_fma(vec_load(x + i), vec_load(y + i), sum);
    if (whole < n)
        sum =
            vec_fma(vec_load_part(x + whole, n - whole), vec_load_part(y + whole, n - whole), sum);
    return vec_sum(sum);
}

static void axpy(float a, const float *x, float *y, size_t n)
{
    const size_t whole = n / LANES * LANES;
    const vec factor = vec_set(a);
    for (size_t i = 0; i < whole; i += LANES)
        vec_store(y + i, vec_fma(factor, vec_load(x + i), vec_load(y + i)));
    if (whole < n)
        vec_store_part(y + whole, n - whole,
                       vec_fma(factor, vec_load_part(x + whole, n - whole),
                               vec_load_part(y + whole, n - whole)));
}

static void widen(const void *stored, enum dtype dtype, float *out, size_t n)
{
    const size_t whole = n / LANES * LANES;
    if (dtype == DTYPE_F32) {
        memcpy(out, stored, n * sizeof *out);
        return;
    }
    const uint16_t *from = stored;
    for (size_t i = 0; i < whole; i += LANES)
        vec_store(out + i, load_stored(from + i, dtype));
    for (size_t i = whole; i < n; i++)
        out[i] = stored_to_float(stored, dtype, i);
}

/* x = f(x), or f(x) · factor if that is not NULL. */
static inline __attribute__((always_inline)) void each(vec (*f)(vec), float *x, const float *factor,
                                                       size_t n)
{
    const size_t whole = n / LANES * LANES, rest = n - whole;
    for (size_t i = 0; i < whole; i += LANES) {
        const vec value = f(vec_load(x + i));
        vec_store(x + i, factor ? vec_mul(value, vec_load(factor + i)) : value);
    }
    if (rest > 0) {
        const vec value = f(vec_load_part(x + whole, rest));
        vec_store_part(x + whole, rest,
                       factor ? vec_mul(value, vec_load_part(factor + whole, rest)) : value);
    }
}

static void activate(enum activation activation, float *x, const float *factor, size_t n)
{
    switch (activation) {
    case ACTIVATION_RELU:
        each(vec_relu, x, factor, n);
        break;
    case ACTIVATION_GELU:
        each(vec_gelu, x, factor, n);
        break;
    case ACTIVATION_GELU_TANH:
        each(vec_gelu_tanh, x, factor, n);
        break;
    case ACTIVATION_SILU:
        each(vec_silu, x, factor, n);
        break;
    case ACTIVATION_GELU_QUICK:
        each(vec_gelu_quick, x, factor, n);
        break;
    case ACTIVATION_TANH:
        each(vec_tanh, x, factor, n);
        break;
    case ACTIVATION_SIGMOID:
        each(vec_sigmoid, x, factor, n);
        break;
    case ACTIVATION_RELU6:
        each(vec_relu6, x, factor, n);
        break;
    case ACTIVATION_RELU_SQUARED:
        each(vec_relu_squared, x, factor, n);
        break;
    case ACTIVATION_COUNT:
        break;
    }
}

/* A NaN is passed over; *nans is not 0 if there is one. */
static inline float largest_of(const float *x, size_t n, unsigned *nans)
{
    const size_t whole = n / LANES * LANES;
    vec largest = vec_set(-INFINITY);
    *nans = 0;
    for (size_t i = 0; i < whole; i += LANES) {
        const vec value = vec_load(x + i);
        largest = vec_max(value, largest);
        *nans |= vec_nans(value);
    }
    if (whole < n) {
        const vec value = vec_load_filled(x + whole, n - whole, -INFINITY);
        largest = vec_max(value, largest);
        *nans |= vec_nans(value);
    }
    return vec_largest(largest);
}

static float max(const float *x, size_t n)
{
    unsigned nans;
    const float largest = largest_of(x, n, &nans);
    return nans ? NAN : largest;
}

/* What is not a number comes through exp, and makes a sum that is none. */
static void softmax(float *x, size_t n)
{
    const size_t whole = n / LANES * LANES, rest = n - whole;
    unsigned nans;
    const vec largest = vec_set(largest_of(x, n, &nans));
    vec sum = vec_zero(), last = vec_zero();
    for (size_t i = 0; i < whole; i += LANES) {
        const vec power = exp_nonpositive(vec_sub(vec_load(x + i), largest));
        sum = vec_add(sum, power);
        vec_store(x + i, power);
    }
    if (rest > 0) {
        last = exp_nonpositive(vec_sub(vec_load_filled(x + whole, rest, -INFINITY), largest));
        sum = vec_add(sum, last);
    }
    const vec inverse = vec_set(1.0f / vec_sum(sum));
    for (size_t i = 0; i < whole; i += LANES)
        vec_store(x + i, vec_mul(vec_load(x + i), inverse));
    if (rest > 0)
        vec_store_part(x + whole, rest, vec_mul(last, inverse));
}

static double sum_exp(const float *x, size_t n, float most)
{
    const size_t whole = n / LANES * LANES;
    const vec largest = vec_set(most);
    doubles sum = doubles_set(0.0);
    for (size_t i = 0; i < whole; i += LANES)
        sum = doubles_add(sum, doubles_of(exp_nonpositive(vec_sub(vec_load(x + i), largest))));
    if (whole < n) {
        const vec rest = vec_load_filled(x + whole, n - whole, -INFINITY);
        sum = doubles_add(sum, doubles_of(exp_nonpositive(vec_sub(rest, largest))));
    }
    return doubles_sum(sum);
}

static void subtract(float *x, size_t n, double first, double second)
{
    const size_t whole = n / LANES * LANES, rest = n - whole;
    const doubles a = doubles_set(first), b = doubles_set(second);
    for (size_t i = 0; i < whole; i += LANES)
        vec_store(x + i,
                  vec_of_doubles(doubles_sub(doubles_sub(doubles_of(vec_load(x + i)), a), b)));
    if (rest > 0) {
        const doubles value = doubles_of(vec_load_part(x + whole, rest));
        vec_store_part(x + whole, rest, vec_of_doubles(doubles_sub(doubles_sub(value, a), b)));
    }
}

static size_t find_above(const float *x, size_t first, size_t n, float added, float bound)
{
    const vec addend = vec_set(added), limit = vec_set(bound);
    size_t i = first;
    for (; i + LANES <= n; i += LANES) {
        const unsigned hits = vec_above(vec_add(vec_load(x + i), addend), limit);
        if (hits)
            return i + (size_t)__builtin_ctz(hits);
    }
    for (; i < n; i++)
        if (x[i] + added > bound)
            break;
    return i;
}

/* Σ (x − center)², or Σ x; two sums, since one would wait for its own additions. */
static inline __attribute__((always_inline)) double row_sum(const float *x, size_t n, bool squares,
                                                            double center)
{
    const doubles middle = doubles_set(center);
    doubles sums[2] = { doubles_set(0.0), doubles_set(0.0) };
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        for (size_t j = 0; j < 2; j++) {
            const doubles value = doubles_of(vec_load(x + i + j * LANES));
            const doubles distance = doubles_sub(value, middle);
            sums[j] =
                squares ? doubles_fma(distance, distance, sums[j]) : doubles_add(sums[j], value);
        }
    }
    double sum = doubles_sum(doubles_add(sums[0], sums[1]));
    for (; i < n; i++) {
        const double value = (double)x[i] - center;
        sum += squares ? value * value : value;
    }
    return sum;
}

static void normalize(const struct row_norm *norm, const float *x, float *y)
{
    const size_t n = norm->n, whole = n / LANES * LANES, rest = n - whole;
    const bool centered = norm->kind != NORM_RMS;
    const double mean = centered ? row_sum(x, n, false, 0.0) / (double)n : 0.0;
    const double squares = row_sum(x, n, true, mean);
    const double spread = norm->kind == NORM_LAYER_UNBIASED
                              ? sqrt(squares / (double)(n - 1)) + norm->eps
                              : sqrt(squares / (double)n + norm->eps);
    const vec center = vec_set((float)mean), scale = vec_set((float)(1.0 / spread));
    const float *weight = norm->weight, *bias = norm->bias;
    for (size_t i = 0; i < whole; i += LANES) {
        const vec value = vec_mul(vec_sub(vec_load(x + i), center), scale);
        vec_store(y + i,
                  vec_fma(value, vec_load(weight + i), bias ? vec_load(bias + i) : vec_zero()));
    }
    if (rest > 0) {
        const vec value = vec_mul(vec_sub(vec_load_part(x + whole, rest), center), scale);
        vec_store_part(y + whole, rest,
                       vec_fma(value, vec_load_part(weight + whole, rest),
                               bias ? vec_load_part(bias + whole, rest) : vec_zero()));
    }
}

static void fill_vectors(struct kernels *kernels)
{
    kernels->dot = dot;
    kernels->axpy = axpy;
    kernels->widen = widen;
    kernels->activate = activate;
    kernels->normalize = normalize;
    kernels->softmax = softmax;
    kernels->max = max;
    kernels->sum_exp = sum_exp;
    kernels->subtract = subtract;
    kernels->find_above = find_above;
}
