/* The start-up self-check: a library or a CPU that computes wrongly is found before a client is. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/panels.h"
#include "kernels_internal.h"

/* Bounds of a shape: elements of x, of w, of w in panels, and of y. */
enum { X_MAX = 2304, W_MAX = 2816, PANELS_MAX = 4352, Y_MAX = 1024, N_MAX = 64, WIDEN_MAX = 53 };

/* Values in [−1, 1) that the three stored types hold exactly. */
static float next_value(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)(*state >> 25) / 64.0f - 1.0f;
}

/* `value` as the stored type; exact, since next_value() has 7 significant bits. */
static void store(void *data, enum dtype dtype, size_t index, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == DTYPE_F32)
        ((float *)data)[index] = value;
    else if (dtype == DTYPE_BF16)
        ((uint16_t *)data)[index] = (uint16_t)(bits >> 16);
    else
        ((uint16_t *)data)[index] =
            value == 0.0f ? 0
                          : (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) |
                                       (bits >> 13 & 0x3ff));
}

/* Every type but int8, which rounds both sides, holds the values of next_value() exactly. */
static double tolerance(enum dtype dtype, size_t K)
{
    return dtype == DTYPE_I8 ? (double)K / 100.0 : 1e-5;
}

struct shape {
    size_t M, N, K;
};

static int check_product(const struct kernels *kernels, const struct matrix *w, const float *x,
                         const float *plain, const float *bias, size_t M, struct error *err)
{
    _Alignas(PANEL_ALIGN) char prepared[(X_MAX + 64) * sizeof(float)];
    float y[Y_MAX];
    const struct product *product = kernels_product(kernels, w);
    const size_t N = w->rows, K = w->columns;
    assert(prepared_bytes(M, K) <= sizeof prepared && M * N <= Y_MAX);
    for (size_t i = 0; i < M * N; i++)
        y[i] = NAN;
    product->prepare(x, M, K, prepared, 0, 1);
    product->gemm(&(struct gemm){
        .x = prepared, .M = M, .w = *w, .bias = bias, .y = y, .y_stride = N, .end = N });
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            double sum = bias ? (double)bias[n] : 0.0;
            for (size_t k = 0; k < K; k++)
                sum += (double)x[m * K + k] * plain[n * K + k];
            if (!(fabs(sum - y[m * N + n]) <= tolerance(w->dtype, K) * (1.0 + fabs(sum))))
                return error_set(err, ERR_INTERNAL,
                                 "self-check: gemm \"%s\" of kernel set \"%s\" is wrong for "
                                 "M %zu, N %zu, K %zu, %s %s",
                                 kernels->gemm_name, kernels->isa, M, N, K, dtype_name(w->dtype),
                                 w->layout == LAYOUT_ROWS ? "rows" : "panels");
        }
    }
    return 0;
}

static int check_gemm(const struct kernels *kernels, const struct shape *shape, enum dtype dtype,
                      struct error *err)
{
    _Alignas(PANEL_ALIGN) float packed[PANELS_MAX];
    float x[X_MAX], w[W_MAX], stored[W_MAX], bias[N_MAX];
    const size_t M = shape->M, N = shape->N, K = shape->K;
    uint32_t state = (uint32_t)(M * 10007 + N * 101 + K);
    assert(M * K <= X_MAX && N * K <= W_MAX && N <= N_MAX);
    assert(panels_bytes(dtype, N, K) <= sizeof packed);
    for (size_t i = 0; i < M * K; i++)
        x[i] = next_value(&state);
    for (size_t i = 0; i < N * K; i++) {
        w[i] = next_value(&state);
        store(stored, dtype == DTYPE_I8 ? DTYPE_F32 : dtype, i, w[i]);
    }
    for (size_t i = 0; i < N; i++)
        bias[i] = next_value(&state);
    const float *added = (M + N + K) % 2 ? bias : NULL;
    const struct matrix rows = { stored, dtype == DTYPE_I8 ? DTYPE_F32 : dtype, N, K, LAYOUT_ROWS };
    const struct matrix panels = { packed, dtype, N, K, LAYOUT_PANELS };
    if (dtype != DTYPE_I8 && check_product(kernels, &rows, x, w, added, M, err) < 0)
        return -1;
    panels_pack(&rows, dtype, packed);
    return check_product(kernels, &panels, x, w, added, M, err);
}

static int check_widen(const struct kernels *kernels, size_t n, enum dtype dtype, struct error *err)
{
    float stored[WIDEN_MAX] = { 0 }, expected[WIDEN_MAX], out[WIDEN_MAX];
    uint32_t state = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        expected[i] = next_value(&state);
        store(stored, dtype, i, expected[i]);
    }
    kernels->widen(stored, dtype, out, n);
    if (memcmp(out, expected, n * sizeof *out) == 0)
        return 0;
    return error_set(err, ERR_INTERNAL,
                     "self-check: widen of kernel set \"%s\" is wrong for n %zu, %s", kernels->isa,
                     n, dtype_name(dtype));
}

/* Every tile of every set; N of one panel, of one that is not whole, of both; K of two chunks. */
static const struct shape shapes[] = {
    { 1, 1, 1 },   { 2, 3, 2 },   { 3, 15, 3 },  { 4, 16, 4 },   { 5, 17, 5 },
    { 6, 31, 7 },  { 7, 47, 8 },  { 8, 48, 9 },  { 9, 49, 16 },  { 17, 53, 17 },
    { 1, 48, 53 }, { 2, 53, 53 }, { 3, 48, 31 }, { 4, 48, 33 },  { 5, 48, 3 },
    { 6, 48, 15 }, { 7, 16, 65 }, { 8, 33, 64 }, { 2, 21, 131 }, { 17, 20, 131 },
};

int kernels_check(const struct kernels *kernels, struct error *err)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_COUNT; dtype++)
            if (check_gemm(kernels, &shapes[i], dtype, err) < 0)
                return -1;
    for (size_t n = 0; n <= WIDEN_MAX; n++)
        for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_I8; dtype++)
            if (check_widen(kernels, n, dtype, err) < 0)
                return -1;
    if (vectors_check(kernels, err) < 0)
        return -1;
    return attention_check(kernels, err);
}
