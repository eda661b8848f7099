/* Every kernel set of this machine against plain loops, and the order of summation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

static const char *const isas[] = { "portable", "avx2", "avx512" };

static bool has(struct kernels *kernels, const char *isa, const char *gemm)
{
    struct error err = { 0 };
    return kernels_init(kernels, isa, gemm, &err) == 0;
}

static void every_set_equals_plain_loops(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        static const char *const gemms[] = { "own", "openblas" };
        for (size_t j = 0; j < 2; j++) {
            struct kernels kernels;
            struct error err = { 0 };
            if (!has(&kernels, isas[i], gemms[j]))
                continue;
            assert_string_equal(kernels.isa, isas[i]);
            assert_int_equal(kernels_check(&kernels, &err), 0);
        }
    }
}

static void wrong_gemm(const struct gemm *product)
{
    for (size_t i = 0; i < product->M * product->end; i++)
        product->y[i] = 0.0f;
}

static void the_self_check_finds_a_wrong_kernel(void **state)
{
    (void)state;
    struct kernels kernels;
    struct error err = { 0 };
    assert_true(has(&kernels, "", "own"));
    kernels.gemm = wrong_gemm;
    assert_int_equal(kernels_check(&kernels, &err), -1);
    assert_int_equal(err.code, ERR_INTERNAL);
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

/* A row alone, in a batch, and with its columns split gives the same bits. */
static void a_row_does_not_depend_on_its_batch(void **state)
{
    (void)state;
    enum { M = 71, N = 37, K = 53 };
    static float x[M * K], together[M * N], alone[N];
    static uint16_t w[N * K];
    srand(7);
    for (size_t i = 0; i < M * K; i++)
        x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (size_t i = 0; i < N * K; i++)
        w[i] = (uint16_t)(0x3c00 + rand() % 0x400); /* binary16 in [1, 2), bfloat16 near 0.01 */
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        struct kernels kernels;
        if (!has(&kernels, isas[i], "own"))
            continue;
        for (enum dtype dtype = DTYPE_F16; dtype < DTYPE_COUNT; dtype++) {
            struct gemm g = { .x = x,
                              .x_stride = K,
                              .M = M,
                              .w = { w, dtype, N, K },
                              .y = together,
                              .y_stride = N,
                              .end = N };
            kernels.gemm(&g);
            for (size_t m = 0; m < M; m++) {
                g = (struct gemm){ .x = x + m * K,
                                   .x_stride = K,
                                   .M = 1,
                                   .w = { w, dtype, N, K },
                                   .y = alone,
                                   .y_stride = N,
                                   .end = m % N };
                kernels.gemm(&g);
                g.first = m % N;
                g.end = N;
                kernels.gemm(&g);
                assert_memory_equal(alone, together + m * N, sizeof alone);
            }
        }
    }
}

static void stored_halves_become_the_right_floats(void **state)
{
    (void)state;
    static const uint16_t halves[] = { 0x0000, 0x8000, 0x3c00, 0xc000, 0x0001, 0x03ff,
                                       0x7bff, 0x3555, 0x7c00, 0x3c00, 0x3c00, 0x3c00,
                                       0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x0400 };
    static const float expected[] = { 0.0f,     -0.0f,       1.0f,
                                      -2.0f,    0x1p-24f,    0x1.ff8p-15f,
                                      65504.0f, 0x1.554p-2f, __builtin_inff(),
                                      1,        1,           1,
                                      1,        1,           1,
                                      1,        0x1p-14f };
    enum { COUNT = sizeof halves / sizeof *halves };
    float out[COUNT];
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        struct kernels kernels;
        if (!has(&kernels, isas[i], "own"))
            continue;
        kernels.widen(halves, DTYPE_F16, out, COUNT);
        assert_memory_equal(out, expected, sizeof out);
    }
}

static void openblas_takes_a_narrow_matrix_of_any_width(void **state)
{
    (void)state;
    enum { K = 40000 };
    static float x[K];
    static uint16_t w[2 * K];
    float y[2] = { 7, 7 };
    struct kernels kernels;
    assert_true(has(&kernels, "", "openblas"));
    for (size_t k = 0; k < K; k++) {
        x[k] = k % 2 ? 1.0f : -1.0f;
        w[k] = k % 2 ? 0x3c00 : 0; /* 1 and 0: the product is K / 2 */
        w[K + k] = 0x3c00;
    }
    kernels.gemm(&(struct gemm){ .x = x,
                                 .x_stride = K,
                                 .M = 1,
                                 .w = { w, DTYPE_F16, 2, K },
                                 .y = y,
                                 .y_stride = 2,
                                 .end = 2 });
    assert_true(y[0] == K / 2 && y[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_equals_plain_loops),
        cmocka_unit_test(the_self_check_finds_a_wrong_kernel),
        cmocka_unit_test(an_unknown_set_or_gemm_is_refused),
        cmocka_unit_test(a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(stored_halves_become_the_right_floats),
        cmocka_unit_test(openblas_takes_a_narrow_matrix_of_any_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
