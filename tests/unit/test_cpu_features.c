/* Which kernel sets a CPU is said to have, from what CPUID and XCR0 would answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/kernels/cpu_features.h"

/* A CPU with everything, of which a test takes something away. */
static struct {
    uint32_t last_leaf, last_subleaf;
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_1_eax;
    uint64_t xcr0;
} cpu;

enum {
    OSXSAVE = 1 << 27,
    AVX = 1 << 28,
    FMA = 1 << 12,
    F16C = 1 << 29,
    AVX2 = 1 << 5,
    AVX512F = 1 << 16,
    AVX512DQ = 1 << 17,
    AVX512BW = 1 << 30,
    AVX512_VNNI = 1 << 11,
    AVX512_BF16 = 1 << 5
};
#define AVX512VL (1u << 31)

static int everything(void **state)
{
    (void)state;
    cpu.last_leaf = 7;
    cpu.last_subleaf = 1;
    cpu.leaf1_ecx = cpu.leaf7_ebx = cpu.leaf7_ecx = cpu.leaf7_1_eax = UINT32_MAX;
    cpu.xcr0 = 0xe7;
    return 0;
}

static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4])
{
    out[0] = out[1] = out[2] = out[3] = 0;
    assert_true(leaf <= cpu.last_leaf);
    if (leaf == 0)
        out[0] = cpu.last_leaf;
    if (leaf == 1)
        out[2] = cpu.leaf1_ecx;
    if (leaf != 7)
        return;
    assert_true(subleaf <= cpu.last_subleaf);
    if (subleaf == 1) {
        out[0] = cpu.leaf7_1_eax;
        return;
    }
    out[0] = cpu.last_subleaf;
    out[1] = cpu.leaf7_ebx;
    out[2] = cpu.leaf7_ecx;
}

static uint64_t xcr0(void)
{
    assert_true(cpu.leaf1_ecx & OSXSAVE); /* XGETBV would be illegal */
    return cpu.xcr0;
}

static struct cpu_features found(void)
{
    return cpu_features_of_x86(&(struct cpuid_source){ cpuid, xcr0 });
}

static void a_cpu_with_everything_has_every_set(void **state)
{
    (void)state;
    const struct cpu_features features = found();
    assert_true(features.avx2 && features.avx512);
    assert_true(features.avx512_vnni && features.avx512_bf16);
    assert_false(features.neon || features.neon_dot);
}

static void registers_that_the_system_does_not_save_are_no_registers(void **state)
{
    (void)state;
    static const uint64_t no_avx[] = { 0x00, 0x01, 0x03, 0x05, 0xe1, 0xe3, 0xe5 };
    static const uint64_t no_avx512[] = { 0x07, 0x27, 0x47, 0x87, 0x67, 0xa7, 0xc7, 0x207 };
    for (size_t i = 0; i < sizeof no_avx / sizeof *no_avx; i++) {
        cpu.xcr0 = no_avx[i];
        assert_false(found().avx2 || found().avx512);
        assert_false(found().avx512_vnni || found().avx512_bf16);
    }
    for (size_t i = 0; i < sizeof no_avx512 / sizeof *no_avx512; i++) {
        cpu.xcr0 = no_avx512[i];
        assert_true(found().avx2);
        assert_false(found().avx512 || found().avx512_vnni || found().avx512_bf16);
    }
    cpu.xcr0 = UINT64_MAX;
    assert_true(found().avx512);
}

static void without_osxsave_nothing_is_there_and_xcr0_is_not_read(void **state)
{
    (void)state;
    cpu.leaf1_ecx &= ~(uint32_t)OSXSAVE;
    assert_false(found().avx2 || found().avx512); /* xcr0() asserts */
}

static void one_missing_bit_takes_its_set_and_those_above(void **state)
{
    (void)state;
    static const uint32_t leaf1[] = { AVX, FMA, F16C };
    static const uint32_t leaf7[] = { AVX512F, AVX512DQ, AVX512BW, AVX512VL };
    for (size_t i = 0; i < sizeof leaf1 / sizeof *leaf1; i++) {
        everything(NULL);
        cpu.leaf1_ecx &= ~leaf1[i];
        assert_false(found().avx2 || found().avx512 || found().avx512_vnni);
    }
    everything(NULL);
    cpu.leaf7_ebx &= ~(uint32_t)AVX2;
    assert_false(found().avx2 || found().avx512 || found().avx512_bf16);
    for (size_t i = 0; i < sizeof leaf7 / sizeof *leaf7; i++) {
        everything(NULL);
        cpu.leaf7_ebx &= ~leaf7[i];
        assert_true(found().avx2);
        assert_false(found().avx512 || found().avx512_vnni || found().avx512_bf16);
    }
}

static void vnni_and_bfloat16_are_asked_for_one_by_one(void **state)
{
    (void)state;
    cpu.leaf7_ecx &= ~(uint32_t)AVX512_VNNI;
    assert_true(found().avx512 && found().avx512_bf16 && !found().avx512_vnni);
    everything(NULL);
    cpu.leaf7_1_eax &= ~(uint32_t)AVX512_BF16;
    assert_true(found().avx512 && found().avx512_vnni && !found().avx512_bf16);
}

static void leaves_that_an_older_cpu_lacks_are_not_asked_for(void **state)
{
    (void)state;
    cpu.last_subleaf = 0;
    assert_true(found().avx512_vnni && !found().avx512_bf16);
    cpu.last_leaf = 5;
    assert_false(found().avx2 || found().avx512);
    cpu.last_leaf = 0;
    assert_false(found().avx2 || found().avx512);
}

static void this_machine_is_consistent(void **state)
{
    (void)state;
    const struct cpu_features features = cpu_features();
    assert_true(features.avx2 || !features.avx512);
    assert_true(features.avx512 || !(features.avx512_vnni || features.avx512_bf16));
    assert_true(features.neon || !features.neon_dot);
    assert_false(features.neon && features.avx2);
#if defined(__x86_64__)
    assert_int_equal(features.avx2, __builtin_cpu_supports("avx2") != 0);
    assert_int_equal(features.avx512_vnni, __builtin_cpu_supports("avx512vnni") != 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_cpu_with_everything_has_every_set, everything),
        cmocka_unit_test_setup(registers_that_the_system_does_not_save_are_no_registers,
                               everything),
        cmocka_unit_test_setup(without_osxsave_nothing_is_there_and_xcr0_is_not_read, everything),
        cmocka_unit_test_setup(one_missing_bit_takes_its_set_and_those_above, everything),
        cmocka_unit_test_setup(vnni_and_bfloat16_are_asked_for_one_by_one, everything),
        cmocka_unit_test_setup(leaves_that_an_older_cpu_lacks_are_not_asked_for, everything),
        cmocka_unit_test(this_machine_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
