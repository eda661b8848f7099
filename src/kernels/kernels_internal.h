/* kernels_internal.h — what the kernel files share; nothing outside src/kernels includes it. */
#ifndef KERNELS_INTERNAL_H
#define KERNELS_INTERNAL_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

struct cpu_features;

/* kernels_init() for a machine of these features. */
int kernels_init_for(struct kernels *kernels, const struct cpu_features *features, const char *isa,
                     const char *gemm, struct error *err);

/* Each overwrites the entries of the table that its instruction set improves: products of
 * matrices, loops over vectors, and what attention computes. */
void products_init_portable(struct kernels *kernels);
void vectors_init_portable(struct kernels *kernels);
void attention_init_portable(struct kernels *kernels);
#if defined(__x86_64__)
void products_init_avx2(struct kernels *kernels);
void vectors_init_avx2(struct kernels *kernels);
void attention_init_avx2(struct kernels *kernels);
void products_init_avx512(struct kernels *kernels);
void vectors_init_avx512(struct kernels *kernels);
void attention_init_avx512(struct kernels *kernels);
void products_init_avx512vnni(struct kernels *kernels);
void products_init_avx512bf16(struct kernels *kernels);
#elif defined(__aarch64__)
void products_init_neon(struct kernels *kernels);
void vectors_init_neon(struct kernels *kernels);
void attention_init_neon(struct kernels *kernels);
void products_init_neondot(struct kernels *kernels);
#endif

/* As kernels_check(), of the loops over vectors, and of what attention computes. */
int vectors_check(const struct kernels *kernels, struct error *err);
int attention_check(const struct kernels *kernels, struct error *err);

/* sgemm over float32 panels of weights in rows. */
extern const struct product product_openblas; /* after blas_load() */
int blas_load(struct error *err);             /* Errors: ERR_CONFIG.  One thread at a time. */

/* A loop over sums in an array: unrolled early, what is indexed by constants alone lives in
 * registers.  Sanitizers take minutes over that. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLLED(i, count) for (size_t i = 0; i < (count); i++)
#else
#define UNROLLED(i, count) _Pragma("GCC unroll 32") for (size_t i = 0; i < (count); i++)
#endif

enum { LINE_BYTES = 64 }; /* of a cache: what one prefetch brings */

/* Rows of x that stay in the L2 cache while the panels pass by. */
enum { X_BLOCK_ROWS = 128 };

/* Tables that prepared rows begin with, 4 bytes for each row: int8's scales, sums, counts of what
 * exceeds (integer_products.h). */
enum { PREPARED_TABLES = 3 };

/* Rows of the next tile when so many are left of a block: tiles of at most `most` rows as even as
 * can be, since a tile of few rows is slow. */
static inline size_t tile_rows(size_t left, size_t most)
{
    const size_t tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

/* What is left of the block that row m of M lies in. */
static inline size_t block_left(size_t m, size_t M)
{
    const size_t end = (m / X_BLOCK_ROWS + 1) * X_BLOCK_ROWS;
    return (end < M ? end : M) - m;
}

/* What a row of x is multiplied by to become integers of 8 bits.  0: there is nothing to multiply,
 * or its numbers are so small that the inverse would be infinite; they become zeros. */
static inline float integer_inverse(float largest)
{
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    return inverse <= FLT_MAX ? inverse : 0.0f;
}

/* One stored element as a float. */
static inline float bf16_to_float(uint16_t stored)
{
    const uint32_t bits = (uint32_t)stored << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Nearest, ties to even; the sum of a NaN's bits would run over into another number. */
static inline uint16_t float_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* IEEE 754 binary16, subnormals, infinities and NaN included. */
static inline float f16_to_float(uint16_t stored)
{
    const uint32_t sign = (uint32_t)(stored & 0x8000) << 16;
    const uint32_t exponent = (stored >> 10) & 0x1f;
    const uint32_t mantissa = stored & 0x3ff;
    uint32_t bits;
    float value;
    if (exponent == 0) { /* mantissa · 2⁻²⁴, exact in a float */
        value = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    } else if (exponent == 0x1f) {
        bits = sign | 0x7f800000u | (mantissa << 13);
    } else {
        bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float stored_to_float(const void *data, enum dtype dtype, size_t index)
{
    if (dtype == DTYPE_F32)
        return ((const float *)data)[index];
    const uint16_t stored = ((const uint16_t *)data)[index];
    return dtype == DTYPE_F16 ? f16_to_float(stored) : bf16_to_float(stored);
}

#endif
