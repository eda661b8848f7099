#include "kernels/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cpu_features.h"
#include "kernels_internal.h"

bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[DTYPE_COUNT] = { "float32", "float16", "bfloat16", "int8" };
    return names[dtype];
}

/* Parts of kernel sets, slowest set first; a later part of a set overwrites what it improves. */
#define ALWAYS         SIZE_MAX
#define NEEDS(feature) offsetof(struct cpu_features, feature)
static const struct part {
    const char *isa;
    size_t needs; /* a bool of struct cpu_features, or ALWAYS */
    void (*init)(struct kernels *kernels);
    const char *int8_name; /* NULL: no products of int8 in this part */
} parts[] = {
    { "portable", ALWAYS, products_init_portable, "portable" },
    { "portable", ALWAYS, vectors_init_portable, NULL },
    { "portable", ALWAYS, attention_init_portable, NULL },
#if defined(__x86_64__)
    { "avx2", NEEDS(avx2), products_init_avx2, "avx2" },
    { "avx2", NEEDS(avx2), vectors_init_avx2, NULL },
    { "avx2", NEEDS(avx2), attention_init_avx2, NULL },
    { "avx512", NEEDS(avx512), products_init_avx512, "avx512" },
    { "avx512", NEEDS(avx512), vectors_init_avx512, NULL },
    { "avx512", NEEDS(avx512), attention_init_avx512, NULL },
    { "avx512", NEEDS(avx512_vnni), products_init_avx512vnni, "avx512vnni" },
    { "avx512", NEEDS(avx512_bf16), products_init_avx512bf16, NULL },
#elif defined(__aarch64__)
    { "neon", NEEDS(neon), products_init_neon, "neon" },
    { "neon", NEEDS(neon), vectors_init_neon, NULL },
    { "neon", NEEDS(neon), attention_init_neon, NULL },
    { "neon", NEEDS(neon_dot), products_init_neondot, "neondot" },
#endif
};

static bool machine_has(const struct cpu_features *features, size_t feature)
{
    return feature == ALWAYS || *(const bool *)((const char *)features + feature);
}

/* The widest thing that any product makes of a row: four bytes an element, and tables. */
size_t prepared_bytes(size_t M, size_t K)
{
    return PREPARED_TABLES * ((M + 15) / 16 * 16) * sizeof(float) +
           M * ((K + 3) / 4 * 4) * sizeof(float);
}

int kernels_init_for(struct kernels *kernels, const struct cpu_features *features, const char *isa,
                     const char *gemm, struct error *err)
{
    const bool any = !isa || !*isa;
    bool found = false;
    *kernels = (struct kernels){ 0 };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!any && strcmp(isa, parts[i].isa) != 0)
            continue;
        found = true;
        if (machine_has(features, parts[i].needs)) {
            kernels->isa = parts[i].isa;
            parts[i].init(kernels);
            if (parts[i].int8_name)
                kernels->int8_name = parts[i].int8_name;
        }
    }
    if (!found)
        return error_set(err, ERR_CONFIG, "there is no kernel set \"%s\" in this build", isa);
    if (!kernels->isa)
        return error_set(err, ERR_CONFIG, "this machine lacks the instruction set \"%s\"", isa);
    kernels->products[PRODUCT_BF16] = kernels->products[PRODUCT_PANELS];
    kernels->gemm_name = "own";
    if (gemm && strcmp(gemm, "openblas") == 0) {
        if (blas_load(err) < 0)
            return -1;
        kernels->products[PRODUCT_ROWS] = product_openblas;
        kernels->gemm_name = "openblas";
    } else if (gemm && strcmp(gemm, "own") != 0) {
        return error_set(err, ERR_CONFIG, "gemm is \"%s\"; it is \"own\" or \"openblas\"", gemm);
    }
    return 0;
}

int kernels_init(struct kernels *kernels, const char *isa, const char *gemm, struct error *err)
{
    const struct cpu_features features = cpu_features();
    return kernels_init_for(kernels, &features, isa, gemm, err);
}

bool kernels_narrow_bf16(struct kernels *kernels)
{
    if (!kernels->narrow_bf16.gemm)
        return false;
    kernels->products[PRODUCT_BF16] = kernels->narrow_bf16;
    return true;
}
