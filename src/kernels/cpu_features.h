/* cpu_features.h — what this CPU has and the system has enabled, as far as kernel sets need it.
 *
 * A register set counts only if the system saves it (XCR0): a hypervisor or a kernel may leave
 * AVX or AVX-512 off although CPUID names it, and then its instructions are illegal. */
#ifndef KERNELS_CPU_FEATURES_H
#define KERNELS_CPU_FEATURES_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_features {
    bool avx2;   /* and FMA and F16C */
    bool avx512; /* F, BW, DQ, VL, and all of avx2 */
    bool avx512_vnni, avx512_bf16;
    bool neon, neon_dot; /* aarch64; the products of 8 bits of ARMv8.2 */
};

/* Where an x86 CPU's answers come from; a test has its own. */
struct cpuid_source {
    /* out = EAX, EBX, ECX, EDX; called with leaves that leaf 0 says are there. */
    void (*cpuid)(uint32_t leaf, uint32_t subleaf, uint32_t out[4]);
    uint64_t (*xcr0)(void); /* called only if OSXSAVE is set: else XGETBV is illegal */
};
struct cpu_features cpu_features_of_x86(const struct cpuid_source *source);

/* Of this machine. */
struct cpu_features cpu_features(void);

#endif
