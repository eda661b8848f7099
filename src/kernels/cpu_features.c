#include "cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

/* The index of a word is the register's place in cpuid()'s answer. */
enum { EAX, EBX, ECX, EDX };

struct bit {
    int word, place;
};

static bool has_all(const uint32_t *answer, const struct bit *bits, int count)
{
    for (int i = 0; i < count; i++)
        if (!(answer[bits[i].word] >> bits[i].place & 1))
            return false;
    return true;
}
#define HAS_ALL(answer, ...)                                                                       \
    has_all(answer, (const struct bit[]){ __VA_ARGS__ },                                           \
            sizeof((const struct bit[]){ __VA_ARGS__ }) / sizeof(struct bit))

struct cpu_features cpu_features_of_x86(const struct cpuid_source *source)
{
    /* XMM and YMM; beside them masks, upper halves of ZMM, ZMM 16 … 31. */
    const uint64_t saves_avx = 0x06, saves_avx512 = 0xe6;
    struct cpu_features features = { 0 };
    uint32_t leaf0[4], leaf1[4], leaf7[4], leaf7_1[4] = { 0 };
    source->cpuid(0, 0, leaf0);
    if (leaf0[EAX] < 7) /* an older CPU answers leaf 7 with its last leaf */
        return features;
    source->cpuid(1, 0, leaf1);
    source->cpuid(7, 0, leaf7);
    if (leaf7[EAX] >= 1)
        source->cpuid(7, 1, leaf7_1);
    const bool osxsave = HAS_ALL(leaf1, { ECX, 27 });
    const uint64_t xcr0 = osxsave ? source->xcr0() : 0;
    features.avx2 = (xcr0 & saves_avx) == saves_avx &&
                    HAS_ALL(leaf1, { ECX, 12 }, { ECX, 28 }, { ECX, 29 }) && /* FMA, AVX, F16C */
                    HAS_ALL(leaf7, { EBX, 5 });                              /* AVX2 */
    features.avx512 = features.avx2 && (xcr0 & saves_avx512) == saves_avx512 &&
                      HAS_ALL(leaf7, { EBX, 16 }, { EBX, 17 }, { EBX, 30 }, { EBX, 31 });
    features.avx512_vnni = features.avx512 && HAS_ALL(leaf7, { ECX, 11 });
    features.avx512_bf16 = features.avx512 && HAS_ALL(leaf7_1, { EAX, 5 });
    return features;
}

#if defined(__x86_64__)
static void machine_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4])
{
    __cpuid_count(leaf, subleaf, out[EAX], out[EBX], out[ECX], out[EDX]);
}

/* Written out: the intrinsic would need the whole file to be compiled for XSAVE. */
static uint64_t machine_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
#endif

struct cpu_features cpu_features(void)
{
#if defined(__x86_64__)
    return cpu_features_of_x86(&(struct cpuid_source){ machine_cpuid, machine_xcr0 });
#elif defined(__aarch64__)
    return (struct cpu_features){ .neon = true,
                                  .neon_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 };
#else
    return (struct cpu_features){ 0 };
#endif
}
