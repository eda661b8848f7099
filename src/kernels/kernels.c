#include "kernels/kernels.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "kernels_internal.h"

size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : 2;
}

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[DTYPE_COUNT] = { "float32", "float16", "bfloat16" };
    return names[dtype];
}

/* The compiler's run-time check asks CPUID and XCR0, so a set that the system does not save is no
 * set. F16C has no name there; every CPU with AVX2 has it. */
static bool machine_has(const char *isa)
{
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(isa, "avx2") == 0)
        return avx2;
    if (strcmp(isa, "avx512") == 0)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#endif
    return strcmp(isa, "portable") == 0;
}

/* Slowest first. */
static const struct kernel_set {
    const char *isa;
    void (*init)(struct kernels *kernels);
} sets[] = {
    { "portable", kernels_init_portable },
#if defined(__x86_64__)
    { "avx2", kernels_init_avx2 },
    { "avx512", kernels_init_avx512 },
#endif
};

int kernels_init(struct kernels *kernels, const char *isa, const char *gemm, struct error *err)
{
    const bool any = !isa || !*isa;
    bool found = false;
    *kernels = (struct kernels){ 0 };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (!any && strcmp(isa, sets[i].isa) != 0)
            continue;
        found = true;
        if (machine_has(sets[i].isa))
            sets[i].init(kernels);
    }
    if (!found)
        return error_set(err, ERR_CONFIG, "there is no kernel set \"%s\" in this build", isa);
    if (!kernels->gemm)
        return error_set(err, ERR_CONFIG, "this machine lacks the instruction set \"%s\"", isa);
    kernels->gemm_name = "own";
    if (gemm && strcmp(gemm, "openblas") == 0) {
        kernels->gemm = gemm_openblas;
        kernels->gemm_name = "openblas";
    } else if (gemm && strcmp(gemm, "own") != 0) {
        return error_set(err, ERR_CONFIG, "gemm is \"%s\"; it is \"own\" or \"openblas\"", gemm);
    }
    return 0;
}
