/* Which kernel sets there are, how one is chosen, and the start-up self-check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "../../src/kernels/cpu_features.h"
#include "../../src/kernels/kernels_internal.h"

static const char *const isas[] = { "portable", "avx2", "avx512", "neon" };

static bool has(struct kernels *kernels, const char *isa, const char *gemm)
{
    struct error err = { 0 };
    return kernels_init(kernels, isa, gemm, &err) == 0;
}

static void every_set_of_this_machine_passes_the_self_check(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        static const char *const gemms[] = { "own", "openblas" };
        for (size_t j = 0; j < 2; j++) {
            struct kernels kernels;
            struct error err = { 0 };
            if (!has(&kernels, isas[i], gemms[j]))
                continue;
            print_message("# %s, int8 by %s, %s\n", kernels.isa, kernels.int8_name, gemms[j]);
            assert_string_equal(kernels.isa, isas[i]);
            assert_string_equal(kernels.gemm_name, gemms[j]);
            assert_int_equal(kernels_check(&kernels, &err), 0);
        }
    }
}

static void wrong_gemm(const struct gemm *product)
{
    for (size_t i = 0; i < product->M * product->end; i++)
        product->y[i] = 0.0f;
}

static void the_self_check_finds_a_wrong_product(void **state)
{
    (void)state;
    for (enum product_kind kind = 0; kind < PRODUCT_COUNT; kind++) {
        struct kernels kernels;
        struct error err = { 0 };
        assert_true(has(&kernels, "", "own"));
        kernels.products[kind].gemm = wrong_gemm;
        assert_int_equal(kernels_check(&kernels, &err), -1);
        assert_int_equal(err.code, ERR_INTERNAL);
        assert_non_null(strstr(err.message, kernels.isa));
    }
}

static void an_unknown_set_or_gemm_is_refused(void **state)
{
    (void)state;
    struct kernels kernels;
    struct error err = { 0 };
    assert_int_equal(kernels_init(&kernels, "mmx", "own", &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.message, "mmx"));
    err = (struct error){ 0 };
    assert_int_equal(kernels_init(&kernels, "", "mkl", &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
}

/* A set is filled by its own instructions, so one that this machine lacks can only be refused. */
static bool present(const struct cpu_features *features)
{
    const struct cpu_features here = cpu_features();
    return features->avx2 <= here.avx2 && features->avx512 <= here.avx512 &&
           features->avx512_vnni <= here.avx512_vnni && features->neon_dot <= here.neon_dot;
}

static void choose(const struct cpu_features *features, const char *asked, const char *isa,
                   const char *int8_name)
{
    struct kernels kernels;
    struct error err = { 0 };
    if (!present(features))
        return;
    assert_int_equal(kernels_init_for(&kernels, features, asked, "own", &err), isa ? 0 : -1);
    if (!isa) {
        assert_int_equal(err.code, ERR_CONFIG);
        assert_non_null(strstr(err.message, asked));
        return;
    }
    assert_string_equal(kernels.isa, isa);
    assert_string_equal(kernels.int8_name, int8_name);
    for (size_t i = 0; i < PRODUCT_COUNT; i++)
        assert_true(kernels.products[i].prepare && kernels.products[i].gemm);
    assert_true(kernels.dot && kernels.axpy && kernels.widen && kernels.some_columns);
}

static void the_best_set_of_the_machine_is_chosen(void **state)
{
    (void)state;
    const struct cpu_features none = { 0 };
    choose(&none, "", "portable", "portable");
    choose(&none, NULL, "portable", "portable");
#if defined(__x86_64__)
    const struct cpu_features avx2 = { .avx2 = true };
    const struct cpu_features avx512 = { .avx2 = true, .avx512 = true };
    const struct cpu_features vnni = { .avx2 = true, .avx512 = true, .avx512_vnni = true };
    choose(&none, "avx2", NULL, NULL);
    choose(&avx2, "", "avx2", "avx2");
    choose(&avx2, "portable", "portable", "portable");
    choose(&avx2, "avx512", NULL, NULL);
    choose(&avx512, "", "avx512", "avx512");
    choose(&vnni, "", "avx512", "avx512vnni");
    choose(&vnni, "avx512", "avx512", "avx512vnni");
    choose(&vnni, "avx2", "avx2", "avx2");
    choose(&vnni, "neon", NULL, "neon");
#elif defined(__aarch64__)
    const struct cpu_features neon = { .neon = true };
    const struct cpu_features dot = { .neon = true, .neon_dot = true };
    choose(&neon, "", "neon", "neon");
    choose(&dot, "", "neon", "neondot");
    choose(&dot, "portable", "portable", "portable");
    choose(&dot, "avx2", NULL, NULL);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_this_machine_passes_the_self_check),
        cmocka_unit_test(the_self_check_finds_a_wrong_product),
        cmocka_unit_test(an_unknown_set_or_gemm_is_refused),
        cmocka_unit_test(the_best_set_of_the_machine_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
