/* kernels.h — the loops where the time goes, one table of functions for each instruction set.
 *
 * kernels_init() fills the table, portable first, then every set that the machine has overwrites
 * what it improves.  Const afterwards; every function is pure on its arguments and safe from any
 * thread.
 *
 * Order of summation: `gemm` sums each output element in one order that depends on K alone, so a
 * row of x gives the same bits whatever other rows are in the batch and however columns are split
 * among threads.
 * A loop over a row sums in an order that depends on the row's length alone. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_COUNT };

/* Whether no x (n) is an infinity or NaN. */
bool all_finite(const float *x, size_t n);

static inline size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : dtype == DTYPE_I8 ? 1 : 2;
}

const char *dtype_name(enum dtype dtype); /* "float32", "float16", "bfloat16", "int8" */

enum layout {
    LAYOUT_ROWS,  /* (rows, columns), row-major; not int8 */
    LAYOUT_PANELS /* packed, see panels.h */
};

/* A matrix as it lies in the mapping, borrowed. */
struct matrix {
    const void *data;
    enum dtype dtype;
    size_t rows, columns;
    enum layout layout;
};

/* y (M, N) = x (M, K) · wᵀ + bias, for the output columns first … end−1 only: threads share one
 * product by columns.  w is (N, K), K at least 1; y has a row stride in floats.  bias may be NULL.
 * `first` is a multiple of PANEL_COLUMNS, and so is `end` unless it is N. */
struct gemm {
    const void *x; /* as prepare() of the same product left it for M and K */
    size_t M;
    struct matrix w;
    const float *bias;
    float *y;
    size_t y_stride;
    size_t first, end;
};

/* Bytes of prepared rows for any product; they begin at a multiple of 64. */
size_t prepared_bytes(size_t M, size_t K);

/* How x is multiplied by weights of one kind. */
struct product {
    /* out (prepared_bytes) = the rows x (M, K) in the order in which gemm() reads them; for int8
     * weights as integers of 8 bits and a scale for each row, max |x| / 127, which is NaN if the
     * row has an infinity or NaN.  Part 0 … parts−1 of it: threads share the rows. */
    void (*prepare)(const float *x, size_t M, size_t K, void *out, size_t part, size_t parts);
    void (*gemm)(const struct gemm *product);
};

enum activation {
    ACTIVATION_RELU,
    ACTIVATION_GELU,      /* x·Φ(x) */
    ACTIVATION_GELU_TANH, /* its approximation by tanh */
    ACTIVATION_SILU,
    ACTIVATION_GELU_QUICK, /* x·σ(1.702 x) */
    ACTIVATION_TANH,
    ACTIVATION_SIGMOID,
    ACTIVATION_RELU6,
    ACTIVATION_RELU_SQUARED,
    ACTIVATION_COUNT
};

enum norm_kind {
    NORM_LAYER,          /* (x−mean) / √(var + eps), var over N */
    NORM_LAYER_UNBIASED, /* (x−mean) / (std + eps), std over N−1 */
    NORM_RMS             /* x / √(mean of squares + eps), no bias; Zhang and Sennrich 2019 */
};

/* Norm of a row of n; times weight (n), plus bias (n) unless that is NULL. */
struct row_norm {
    enum norm_kind kind;
    double eps;
    const float *weight, *bias;
    size_t n;
};

/* Keys or values of one head: `count` rows of `width` floats; row j is at data + path[j] · stride,
 * or at data + j · stride if path is NULL. */
struct float_rows {
    const float *data;
    size_t stride; /* in floats */
    const int32_t *path;
    size_t count, width;
    const float *ahead; /* rows that are read next, by the same path and stride: fetched; or NULL */
};

/* Strips: a matrix (K, N) as pieces of STRIP_COLUMNS columns, the last one filled up with zeros; a
 * strip holds its K rows one after another.  They begin at a multiple of 64 bytes. */
enum { STRIP_COLUMNS = 16 };

/* y (M, N) = x (M, K) · strips; strides in floats. */
struct strip_product {
    const float *x;
    size_t x_stride, M;
    const float *strips;
    size_t K, N;
    float *y;
    size_t y_stride;
};

enum product_kind { PRODUCT_ROWS, PRODUCT_PANELS, PRODUCT_BF16, PRODUCT_INT8, PRODUCT_COUNT };

struct kernels {
    const char *isa;       /* "portable", "avx2", "avx512", "neon": for logs and /metrics */
    const char *gemm_name; /* "own" or "openblas": who multiplies by weights in rows */
    const char *int8_name; /* the part of the set for int8: `isa`, "avx512vnni" or "neondot" */

    struct product products[PRODUCT_COUNT];

    /* What kernels_narrow_bf16() chooses; NULLs where the CPU has no such instruction. */
    struct product narrow_bf16;

    /* y[i] = x (K) · w[ids[i]] + bias[ids[i]], the bits that gemm() of the same values gives; w is
     * in rows, ids are below w->rows, bias may be NULL. */
    void (*some_columns)(const float *x, const struct matrix *w, const float *bias,
                         const int32_t *ids, size_t count, float *y);

    /* Σ x[i]·y[i] over n floats; n may be 0. */
    float (*dot)(const float *x, const float *y, size_t n);

    /* y[i] += a·x[i] */
    void (*axpy)(float a, const float *x, float *y, size_t n);

    /* n elements of a stored type become floats. */
    void (*widen)(const void *stored, enum dtype dtype, float *out, size_t n);

    /* out[j] = scale · q·key j; q (width), out (count). */
    void (*scores)(const struct float_rows *keys, const float *q, float scale, float *out);

    /* out (width) = Σ weights[j] · value j, in the order of the rows. */
    void (*mix)(const struct float_rows *values, const float *weights, float *out);

    /* Strips of keys as columns, of values as rows; path is NULL. */
    void (*pack_keys)(const struct float_rows *keys, float *strips);
    void (*pack_values)(const struct float_rows *values, float *strips);
    void (*multiply)(const struct strip_product *product);

    /* x[i] = activation(x[i]), times factor[i] unless factor is NULL.  NaN stays NaN; −Inf becomes
     * NaN where the definition is −Inf · 0, as in the reference. */
    void (*activate)(enum activation activation, float *x, const float *factor, size_t n);

    /* y = the row's norm, mean and variance in double: a long row of equal numbers must not get a
     * variance of rounding.  y may be x. */
    void (*normalize)(const struct row_norm *norm, const float *x, float *y);

    /* x = softmax(x); n ≥ 1.  All NaN if one is NaN or +Inf, or all are −Inf. */
    void (*softmax)(float *x, size_t n);

    /* The largest of x, −Inf of none; NaN if one is NaN. */
    float (*max)(const float *x, size_t n);

    /* Σ exp(x[i] − most) in double, for x[i] ≤ most and most > −Inf; each term's relative error is
     * below 2e-7, but what is below exp(−87) counts for nothing. */
    double (*sum_exp)(const float *x, size_t n, float most);

    /* x[i] = x[i] − first − second, in double and in this order. */
    void (*subtract)(float *x, size_t n, double first, double second);

    /* The least i ≥ first with x[i] + added > bound (floats); n if there is none. */
    size_t (*find_above)(const float *x, size_t first, size_t n, float added, float bound);
};

static inline const struct product *kernels_product(const struct kernels *kernels,
                                                    const struct matrix *w)
{
    return &kernels->products[w->layout == LAYOUT_ROWS ? PRODUCT_ROWS
                              : w->dtype == DTYPE_I8   ? PRODUCT_INT8
                              : w->dtype == DTYPE_BF16 ? PRODUCT_BF16
                                                       : PRODUCT_PANELS];
}

/* `isa` NULL or "" chooses the best the machine has; a name forces that set.  `gemm` is "own" or
 * "openblas" (which promises the tolerance only, not equal bits).
 * Errors: ERR_CONFIG: no such name, or the machine lacks the set, or OpenBLAS. */
int kernels_init(struct kernels *kernels, const char *isa, const char *gemm, struct error *err);

/* From here on panels of bfloat16 are multiplied by the CPU's own instruction, twice as fast as
 * float32.  It rounds x to bfloat16 too (nearest, ties to even), takes subnormals for zeros and
 * rounds sums in its own way, so answers differ, within bfloat16's precision, from those of other
 * sets and of the same weights in rows.  An element's bits depend on its row and column alone as
 * ever.  False: there is no such instruction, nothing has changed. */
bool kernels_narrow_bf16(struct kernels *kernels);

/* Compares the chosen table with plain loops over small awkward shapes.  Errors: ERR_INTERNAL names
 * the kernel that is wrong. */
int kernels_check(const struct kernels *kernels, struct error *err);

/* While there is no other thread: should OpenBLAS be loaded, it starts none. */
void blas_prepare(void);
/* Which OpenBLAS is loaded, or "none"; static. */
const char *blas_description(void);

#endif
