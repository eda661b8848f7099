/* product_runs.h — one product in every form of weights, and what it must be. */
#ifndef PRODUCT_RUNS_H
#define PRODUCT_RUNS_H

#include "kernel_sets.h"

#include <math.h>
#include <stdlib.h>

#include "../../src/kernels/kernels_internal.h"
#include "kernels/panels.h"

/* Weights of one form: how they lie and in which type. */
static const struct form {
    enum layout layout;
    enum dtype dtype;
} forms[] = {
    { LAYOUT_ROWS, DTYPE_F32 },   { LAYOUT_ROWS, DTYPE_F16 },   { LAYOUT_ROWS, DTYPE_BF16 },
    { LAYOUT_PANELS, DTYPE_F32 }, { LAYOUT_PANELS, DTYPE_F16 }, { LAYOUT_PANELS, DTYPE_BF16 },
    { LAYOUT_PANELS, DTYPE_I8 },
};
enum { FORMS = sizeof forms / sizeof *forms };

/* A multiple of 2⁻⁶ in [−1, 1), which every floating type holds. */
static inline float short_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)(*state >> 25) / 64.0f - 1.0f;
}

/* out = w (count), numbers of short_number(), in `dtype`. */
static inline void store_short(const float *w, size_t count, enum dtype dtype, void *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &w[i], sizeof bits);
        const uint32_t exponent = (bits >> 23 & 0xff) - 112;
        const uint32_t half = bits >> 16 & 0x8000;
        if (dtype == DTYPE_F32)
            ((float *)out)[i] = w[i];
        else if (dtype == DTYPE_BF16)
            ((uint16_t *)out)[i] = (uint16_t)(bits >> 16);
        else
            ((uint16_t *)out)[i] =
                (uint16_t)(w[i] == 0.0f ? half : half | exponent << 10 | (bits >> 13 & 0x3ff));
    }
}

static inline size_t form_bytes(const struct form *form, size_t N, size_t K)
{
    return form->layout == LAYOUT_ROWS ? N * K * dtype_bytes(form->dtype)
                                       : panels_bytes(form->dtype, N, K);
}

/* `data` (form_bytes()) = w (N, K) of short_number() in this form. */
static inline struct matrix form_of(const struct form *form, const float *w, size_t N, size_t K,
                                    void *data)
{
    if (form->layout == LAYOUT_ROWS)
        store_short(w, N * K, form->dtype, data);
    else
        assert_true(
            panels_pack(&(struct matrix){ w, DTYPE_F32, N, K, LAYOUT_ROWS }, form->dtype, data));
    return (struct matrix){ data, form->dtype, N, K, form->layout };
}

static inline void *aligned(size_t bytes)
{
    void *p = aligned_alloc(PANEL_ALIGN, (bytes + PANEL_ALIGN) / PANEL_ALIGN * PANEL_ALIGN);
    assert_non_null(p);
    return p;
}

/* y (M, N) = x (M, K) · wᵀ + bias, columns first … end−1. */
static inline void multiply_columns(const struct kernels *kernels, const float *x, size_t M,
                                    const struct matrix *w, const float *bias, float *y,
                                    size_t first, size_t end)
{
    const struct product *product = kernels_product(kernels, w);
    void *prepared = aligned(prepared_bytes(M, w->columns));
    for (size_t part = 0; part < 3; part++)
        product->prepare(x, M, w->columns, prepared, part, 3);
    product->gemm(&(struct gemm){ .x = prepared,
                                  .M = M,
                                  .w = *w,
                                  .bias = bias,
                                  .y = y,
                                  .y_stride = w->rows,
                                  .first = first,
                                  .end = end });
    free(prepared);
}

static inline void multiply(const struct kernels *kernels, const float *x, size_t M,
                            const struct matrix *w, const float *bias, float *y)
{
    multiply_columns(kernels, x, M, w, bias, y, 0, w->rows);
}

/* The bits of an element: the sum in the order of k, fused unless the set is the portable one.
 * `n` is the row of the unpacked weights w. */
static inline float plain_sum(const struct kernels *kernels, const float *x, const float *w,
                              size_t K)
{
    const bool fused = strcmp(kernels->isa, "portable") != 0;
    float sum = 0.0f;
    for (size_t k = 0; k < K; k++)
        sum = fused ? fmaf(x[k], w[k], sum) : sum + x[k] * w[k];
    return sum;
}

/* Round, ties to even: `largest` becomes 127. */
static inline int plain_integer(float value, float largest)
{
    return largest > 0.0f ? (int)lrintf(value * (127.0f / largest)) : 0;
}

static inline float largest_size(const float *x, size_t n)
{
    float largest = 0.0f;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

static inline float plain_integer_sum(const float *x, const float *w, size_t K)
{
    const float x_largest = largest_size(x, K), w_largest = largest_size(w, K);
    int64_t sum = 0;
    for (size_t k = 0; k < K; k++)
        sum += plain_integer(x[k], x_largest) * plain_integer(w[k], w_largest);
    return (float)sum * (x_largest / 127.0f * (w_largest / 127.0f));
}

/* What element y[m][n] of the product must be, to the bit. */
static inline float plain_element(const struct kernels *kernels, const struct form *form,
                                  const float *x, const float *w, size_t K, const float *bias)
{
    const float sum =
        form->dtype == DTYPE_I8 ? plain_integer_sum(x, w, K) : plain_sum(kernels, x, w, K);
    return bias ? sum + *bias : sum;
}

#endif
