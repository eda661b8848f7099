/* The start-up self-check: a library or a CPU that computes wrongly is found before a client is. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels_internal.h"

enum { SIDE_MAX = 33 };

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

static int check_gemm(const struct kernels *kernels, size_t M, size_t N, size_t K, enum dtype dtype,
                      struct error *err)
{
    static const float not_a_number = NAN;
    float x[SIDE_MAX * SIDE_MAX], w[SIDE_MAX * SIDE_MAX], stored[SIDE_MAX * SIDE_MAX];
    float bias[SIDE_MAX], y[SIDE_MAX * SIDE_MAX];
    uint32_t state = (uint32_t)(M * 10007 + N * 101 + K);
    for (size_t i = 0; i < M * K; i++)
        x[i] = next_value(&state);
    for (size_t i = 0; i < N * K; i++) {
        w[i] = next_value(&state);
        store(stored, dtype, i, w[i]);
    }
    for (size_t i = 0; i < N; i++)
        bias[i] = next_value(&state);
    const bool biased = (M + N + K) % 2;
    for (size_t i = 0; i < N && !biased; i++)
        bias[i] = 0.0f;
    for (size_t i = 0; i < M * N; i++)
        y[i] = not_a_number;
    kernels->gemm(&(struct gemm){ .x = x,
                                  .x_stride = K,
                                  .M = M,
                                  .w = { stored, dtype, N, K },
                                  .bias = biased ? bias : NULL,
                                  .y = y,
                                  .y_stride = N,
                                  .end = N });
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            double sum = bias[n];
            for (size_t k = 0; k < K; k++)
                sum += (double)x[m * K + k] * w[n * K + k];
            if (!(fabs(sum - y[m * N + n]) <= 1e-5 * (1.0 + fabs(sum))))
                return error_set(err, ERR_INTERNAL,
                                 "self-check: gemm \"%s\" of kernel set \"%s\" is wrong for "
                                 "M %zu, N %zu, K %zu, %s",
                                 kernels->gemm_name, kernels->isa, M, N, K, dtype_name(dtype));
        }
    }
    return 0;
}

static int check_vectors(const struct kernels *kernels, size_t n, struct error *err)
{
    float x[SIDE_MAX] = { 0 }, y[SIDE_MAX] = { 0 }, sum[SIDE_MAX];
    uint32_t state = (uint32_t)n;
    double expected = 0.0;
    for (size_t i = 0; i < n; i++) {
        x[i] = next_value(&state);
        sum[i] = y[i] = next_value(&state);
        expected += (double)x[i] * y[i];
    }
    bool right = fabs(kernels->dot(x, y, n) - expected) <= 1e-5 * (1.0 + fabs(expected));
    kernels->axpy(0.5f, x, sum, n);
    for (size_t i = 0; i < n; i++)
        right = right && fabsf(sum[i] - (y[i] + 0.5f * x[i])) <= 1e-6f;
    return right ? 0
                 : error_set(err, ERR_INTERNAL,
                             "self-check: dot or axpy of kernel set \"%s\" is wrong for n %zu",
                             kernels->isa, n);
}

static int check_widen(const struct kernels *kernels, size_t n, enum dtype dtype, struct error *err)
{
    float stored[SIDE_MAX] = { 0 }, expected[SIDE_MAX], out[SIDE_MAX];
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

int kernels_check(const struct kernels *kernels, struct error *err)
{
    static const size_t sides[] = { 1, 2, 3, 7, 8, 9, 17, SIDE_MAX };
    enum { COUNT = sizeof sides / sizeof *sides };
    for (size_t m = 0; m < COUNT; m++)
        for (size_t n = 0; n < COUNT; n++)
            for (size_t k = 0; k < COUNT; k++)
                for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_COUNT; dtype++)
                    if (check_gemm(kernels, sides[m], sides[n], sides[k], dtype, err) < 0)
                        return -1;
    for (size_t n = 0; n <= SIDE_MAX; n++) {
        if (check_vectors(kernels, n, err) < 0)
            return -1;
        for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_COUNT; dtype++)
            if (check_widen(kernels, n, dtype, err) < 0)
                return -1;
    }
    return 0;
}
