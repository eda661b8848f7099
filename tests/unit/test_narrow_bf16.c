/* Products of bfloat16 by bfloat16, where the CPU has them; skipped elsewhere. */
#include "product_runs.h"

static struct kernels narrow;

static const struct form form = { LAYOUT_PANELS, DTYPE_BF16 };

static bool skipped(void)
{
    struct error err = { 0 };
    if (!narrow.isa)
        assert_int_equal(kernels_init(&narrow, "", "own", &err), 0);
    if (!kernels_narrow_bf16(&narrow))
        return true;
    print_message("# by the instruction of %s\n", narrow.isa);
    return false;
}

static void the_self_check_passes_with_narrow_products(void **state)
{
    (void)state;
    struct error err = { 0 };
    if (!skipped())
        assert_int_equal(kernels_check(&narrow, &err), 0);
}

static void only_panels_of_bfloat16_change(void **state)
{
    (void)state;
    struct kernels plain;
    struct error err = { 0 };
    const bool none = skipped();
    assert_int_equal(kernels_init(&plain, "", "own", &err), 0);
    for (size_t f = 0; f < FORMS; f++) {
        const struct matrix w = { NULL, forms[f].dtype, 1, 1, forms[f].layout };
        const bool here = forms[f].layout == form.layout && forms[f].dtype == form.dtype;
        assert_int_equal(kernels_product(&plain, &w)->gemm != kernels_product(&narrow, &w)->gemm,
                         here && !none);
    }
}

/* Sums of products that 24 bits hold are exact in any order. */
static void short_numbers_give_exact_sums(void **state)
{
    (void)state;
    enum { M = 19, N = 101, K = 77 };
    float x[M * K], w[N * K], y[M * N];
    uint32_t seed = 1;
    if (skipped())
        return;
    for (size_t i = 0; i < M * K; i++)
        x[i] = short_number(&seed);
    for (size_t i = 0; i < N * K; i++)
        w[i] = short_number(&seed);
    void *data = aligned(form_bytes(&form, N, K));
    const struct matrix matrix = form_of(&form, w, N, K, data);
    multiply(&narrow, x, M, &matrix, NULL, y);
    for (size_t i = 0; i < M * N; i++)
        assert_true(y[i] == plain_sum(&narrow, x + i / N * K, w + i % N * K, K));
    free(data);
}

static void x_is_rounded_to_the_nearest_and_ties_go_to_even(void **state)
{
    (void)state;
    static const float table[][2] = {
        { 0.26914088f, 0.26953125f }, { 3.14f, 3.140625f },
        { 1.00390625f, 1.0f },        { 1.01171875f, 1.015625f },
        { 3.39617753e38f, INFINITY }, { -1.00390625f, -1.0f },
        { INFINITY, INFINITY },       { 0x1.fefffep127f, 0x1.fep127f },
    };
    static const uint32_t nans[] = { 0x7fc00000, 0x7f800001, 0xff800001, 0x7fffffff };
    const float one = 1.0f;
    float y;
    if (skipped())
        return;
    void *data = aligned(form_bytes(&form, 1, 1));
    const struct matrix matrix = form_of(&form, &one, 1, 1, data);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        multiply(&narrow, table[i], 1, &matrix, NULL, &y);
        assert_true(y == table[i][1]);
    }
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        float nan;
        memcpy(&nan, &nans[i], sizeof nan);
        multiply(&narrow, &nan, 1, &matrix, NULL, &y);
        assert_true(isnan(y));
    }
    free(data);
}

static void a_row_does_not_depend_on_its_batch(void **state)
{
    (void)state;
    enum { M = 300, N = 112, K = 131 };
    static const size_t batches[] = { 2, 3, 5, 8, 17, 33, 127, 128, 129, 300 };
    static float x[M * K], w[N * K], alone[M * N], together[M * N];
    uint32_t seed = 2;
    if (skipped())
        return;
    fill(x, M * K, 3);
    for (size_t i = 0; i < N * K; i++)
        w[i] = short_number(&seed);
    void *data = aligned(form_bytes(&form, N, K));
    const struct matrix matrix = form_of(&form, w, N, K, data);
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n += PANEL_COLUMNS)
            multiply_columns(&narrow, x + m * K, 1, &matrix, NULL, alone + m * N, n,
                             n + PANEL_COLUMNS < N ? n + PANEL_COLUMNS : N);
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        memset(together, 0xff, sizeof together);
        multiply(&narrow, x, batches[b], &matrix, NULL, together);
        assert_memory_equal(together, alone, batches[b] * N * sizeof *alone);
    }
    free(data);
}

static void answers_stay_near_those_of_float32(void **state)
{
    (void)state;
    enum { M = 16, N = 96, K = 1024 };
    static float x[M * K], w[N * K], y[M * N];
    const float *bias = w;
    double error = 0.0, size = 0.0;
    uint32_t seed = 4;
    if (skipped())
        return;
    fill(x, M * K, 5);
    for (size_t i = 0; i < N * K; i++)
        w[i] = short_number(&seed);
    void *data = aligned(form_bytes(&form, N, K));
    const struct matrix matrix = form_of(&form, w, N, K, data);
    multiply(&narrow, x, M, &matrix, bias, y);
    for (size_t i = 0; i < M * N; i++) {
        const double exact =
            (double)plain_sum(&narrow, x + i / N * K, w + i % N * K, K) + (double)bias[i % N];
        error += ((double)y[i] - exact) * ((double)y[i] - exact);
        size += exact * exact;
    }
    assert_true(sqrt(error / size) < 0.004);  /* half of bfloat16's step */
    assert_true(sqrt(error / size) > 0.0001); /* x was rounded indeed */
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_self_check_passes_with_narrow_products),
        cmocka_unit_test(only_panels_of_bfloat16_change),
        cmocka_unit_test(short_numbers_give_exact_sums),
        cmocka_unit_test(x_is_rounded_to_the_nearest_and_ties_go_to_even),
        cmocka_unit_test(a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(answers_stay_near_those_of_float32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
