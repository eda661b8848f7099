/* kernels.h — the loops where the time goes, one table of functions for each instruction set.
 *
 * kernels_init() fills the table, portable first, then every set that the machine has overwrites
 * what it improves.  Const afterwards; every function is pure on its arguments and safe from any
 * thread.
 *
 * Order of summation: `gemm` sums each output element in one order that depends on K alone, so a
 * row of x gives the same bits whatever other rows are in the batch and however columns are split
 * among threads. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_COUNT };

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* "float32", "float16", "bfloat16" */

/* A matrix as it lies in the mapping: rows × columns, row-major, borrowed. */
struct matrix {
    const void *data;
    enum dtype dtype;
    size_t rows, columns;
};

/* y (M, N) = x (M, K) · wᵀ + bias, for the output columns first … end−1 only: threads share one
 * product by columns.  w is (N, K); x and y have row strides in floats.  bias may be NULL. */
struct gemm {
    const float *x;
    size_t x_stride;
    size_t M;
    struct matrix w;
    const float *bias;
    float *y;
    size_t y_stride;
    size_t first, end;
};

struct kernels {
    const char *isa;       /* "portable", "avx2", "avx512": for logs and /metrics */
    const char *gemm_name; /* "own" or "openblas" */

    void (*gemm)(const struct gemm *product);

    /* Σ x[i]·y[i] over n floats; n may be 0. */
    float (*dot)(const float *x, const float *y, size_t n);

    /* y[i] += a·x[i] */
    void (*axpy)(float a, const float *x, float *y, size_t n);

    /* n elements of a stored type become floats. */
    void (*widen)(const void *stored, enum dtype dtype, float *out, size_t n);
};

/* `isa` NULL or "" chooses the best the machine has; a name forces that set.  `gemm` is "own" or
 * "openblas" (which promises the tolerance only, not equal bits).
 * Errors: ERR_CONFIG: no such name, or the machine lacks the set. */
int kernels_init(struct kernels *kernels, const char *isa, const char *gemm, struct error *err);

/* Compares the chosen table with plain loops over small awkward shapes.  Errors: ERR_INTERNAL names
 * the kernel that is wrong. */
int kernels_check(const struct kernels *kernels, struct error *err);

/* Products whose shape belongs to one row (a row's encoder attention); OpenBLAS, one thread.
 *   blas_nt:  C (m, n) = alpha · A (m, k) · Bᵀ + beta · C, B is (n, k)
 *   blas_nn:  C (m, n) = alpha · A (m, k) · B + beta · C, B is (k, n)
 * Strides in floats. */
struct blas {
    size_t m, n, k;
    float alpha, beta;
    const float *a;
    size_t a_stride;
    const float *b;
    size_t b_stride;
    float *c;
    size_t c_stride;
};
void blas_nt(const struct blas *product);
void blas_nn(const struct blas *product);

/* Once, before the first product: OpenBLAS with one thread.  Returns its description, static. */
const char *blas_start(void);

#endif
