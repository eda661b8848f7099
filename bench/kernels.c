/* kernels.c — the products of a kernel set alone, on weights that fit a cache and on some that do
 * not: JSON lines.  One argument: the set; none: the best of this machine. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kernels/kernels.h"
#include "kernels/panels.h"

enum { REPETITIONS = 41 };
static const double REPETITION_PRODUCTS = 1e8; /* multiplications, at least */

struct shape {
    size_t M, K, N;
};

static const struct shape shapes[] = {
    { 1, 512, 2048 },  { 1, 512, 58101 },  { 8, 512, 2048 },   { 8, 512, 58101 },
    { 32, 512, 512 },  { 32, 512, 2048 },  { 32, 2048, 512 },  { 32, 512, 58101 },
    { 128, 512, 512 }, { 128, 512, 2048 }, { 128, 2048, 512 },
};

static void *room(size_t bytes)
{
    void *p = aligned_alloc(PANEL_ALIGN, (bytes + 2 * PANEL_ALIGN) / PANEL_ALIGN * PANEL_ALIGN);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

/* Nearly normal numbers, as states and weights are: a sum of twelve uniform ones. */
static void fill(float *x, size_t count)
{
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        x[i] = 0.0f;
        for (int j = 0; j < 12; j++) {
            state = state * 1664525u + 1013904223u;
            x[i] += (float)(int32_t)state * 0x1p-31f;
        }
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a call, the repetitions in order. */
static void measure(const struct kernels *kernels, const struct gemm *gemm, const float *x,
                    void *prepared, double seconds[2][REPETITIONS])
{
    const struct product *product = kernels_product(kernels, &gemm->w);
    const size_t M = gemm->M, K = gemm->w.columns, N = gemm->w.rows;
    const int calls = 1 + (int)(REPETITION_PRODUCTS / (double)(M * K * N));
    for (int r = 0; r < REPETITIONS; r++) {
        uint64_t begin = clock_ns();
        for (int i = 0; i < calls; i++)
            product->prepare(x, M, K, prepared, 0, 1);
        seconds[0][r] = (double)(clock_ns() - begin) * 1e-9 / calls;
        begin = clock_ns();
        for (int i = 0; i < calls; i++)
            product->gemm(gemm);
        seconds[1][r] = (double)(clock_ns() - begin) * 1e-9 / calls;
    }
    qsort(seconds[0], REPETITIONS, sizeof **seconds, compare);
    qsort(seconds[1], REPETITIONS, sizeof **seconds, compare);
}

static void run(const struct kernels *kernels, const struct shape *shape, enum dtype dtype)
{
    const size_t M = shape->M, K = shape->K, N = shape->N;
    float *rows = room(N * K * sizeof *rows), *x = room(M * K * sizeof *x);
    float *y = room(M * N * sizeof *y);
    void *packed = room(panels_bytes(dtype, N, K)), *prepared = room(prepared_bytes(M, K));
    double seconds[2][REPETITIONS];
    fill(rows, N * K);
    fill(x, M * K);
    panels_pack(&(struct matrix){ rows, DTYPE_F32, N, K, LAYOUT_ROWS }, dtype, packed);
    free(rows);
    const struct gemm gemm = { .x = prepared,
                               .M = M,
                               .w = { packed, dtype, N, K, LAYOUT_PANELS },
                               .y = y,
                               .y_stride = N,
                               .end = N };
    measure(kernels, &gemm, x, prepared, seconds);
    const double work = 2e-9 * (double)(M * K * N);
    printf("{\"isa\":\"%s\",\"weights\":\"%s\",\"M\":%zu,\"K\":%zu,\"N\":%zu,"
           "\"best_gops\":%.1f,\"median_gops\":%.1f,\"weights_gb_s\":%.1f,"
           "\"prepare_ns_per_number\":%.2f}\n",
           dtype == DTYPE_I8 ? kernels->int8_name : kernels->isa, dtype_name(dtype), M, K, N,
           work / seconds[1][0], work / seconds[1][REPETITIONS / 2],
           (double)panels_bytes(dtype, N, K) * 1e-9 / seconds[1][0],
           seconds[0][0] * 1e9 / (double)(M * K));
    fflush(stdout);
    free(packed);
    free(prepared);
    free(x);
    free(y);
}

int main(int argc, char **argv)
{
    struct kernels kernels;
    struct error err = { 0 };
    if (kernels_init(&kernels, argc > 1 ? argv[1] : NULL, NULL, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_COUNT; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            run(&kernels, &shapes[i], dtype);
    return 0;
}
