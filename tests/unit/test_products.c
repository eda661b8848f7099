/* Products of every kernel set, in every form of weights, against plain loops: bit by bit, since
 * the order of summation is part of the contract. */
#include "product_runs.h"

struct shape {
    size_t M, N, K;
};

/* Every tile of every set, its edges, and more than one chunk of k and block of rows. */
static const struct shape shapes[] = {
    { 1, 1, 1 },    { 2, 3, 5 },    { 3, 16, 31 },  { 4, 17, 64 },    { 5, 47, 33 },
    { 6, 48, 2 },   { 7, 49, 127 }, { 8, 63, 128 }, { 9, 64, 129 },   { 1, 97, 260 },
    { 2, 96, 257 }, { 13, 80, 65 }, { 130, 50, 7 }, { 16, 144, 384 }, { 4, 48, 40 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static float *numbers(size_t count, float (*next)(uint32_t *state), uint32_t seed)
{
    float *x = aligned(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = next(&seed);
    return x;
}

static void check_shape(const struct kernels *kernels, const struct form *form, struct shape shape,
                        bool with_bias)
{
    const size_t M = shape.M, N = shape.N, K = shape.K;
    float *x = numbers(M * K, number, 1), *w = numbers(N * K, short_number, 2);
    float *bias = numbers(N, number, 3), *y = aligned(M * N * sizeof *y);
    void *data = aligned(form_bytes(form, N, K));
    const struct matrix matrix = form_of(form, w, N, K, data);
    multiply(kernels, x, M, &matrix, with_bias ? bias : NULL, y);
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            const float expected =
                plain_element(kernels, form, x + m * K, w + n * K, K, with_bias ? &bias[n] : NULL);
            if (!same_bits(y[m * N + n], expected))
                fail_msg("%s, %s %s, M %zu N %zu K %zu: y[%zu][%zu] = %a, not %a", kernels->isa,
                         dtype_name(form->dtype), form->layout == LAYOUT_ROWS ? "rows" : "panels",
                         M, N, K, m, n, (double)y[m * N + n], (double)expected);
        }
    }
    free(data);
    free(y);
    free(bias);
    free(w);
    free(x);
}

static void every_product_has_the_bits_of_plain_loops(void **state)
{
    (void)state;
    for (size_t t = 0; t < table_count; t++)
        for (size_t f = 0; f < FORMS; f++)
            for (size_t s = 0; s < SHAPES; s++)
                check_shape(&tables[t], &forms[f], shapes[s], (s + f) % 2);
}

/* A row alone gives the bits it has in a batch, of whatever size, and with its columns shared
 * out. */
static void a_row_does_not_depend_on_its_batch(void **state)
{
    (void)state;
    enum { M = 300, N = 112, K = 131 };
    static const size_t batches[] = { 2, 3, 5, 8, 17, 33, 127, 128, 129, 300 };
    float *x = numbers(M * K, number, 4), *w = numbers(N * K, short_number, 5);
    float *alone = aligned(M * N * sizeof *alone), *together = aligned(M * N * sizeof *together);
    for (size_t t = 0; t < table_count; t++) {
        for (size_t f = 0; f < FORMS; f++) {
            void *data = aligned(form_bytes(&forms[f], N, K));
            const struct matrix matrix = form_of(&forms[f], w, N, K, data);
            for (size_t m = 0; m < M; m++)
                for (size_t n = 0; n < N; n += PANEL_COLUMNS)
                    multiply_columns(&tables[t], x + m * K, 1, &matrix, NULL, alone + m * N, n,
                                     n + PANEL_COLUMNS < N ? n + PANEL_COLUMNS : N);
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
                memset(together, 0xff, M * N * sizeof *together);
                multiply(&tables[t], x, batches[b], &matrix, NULL, together);
                assert_memory_equal(together, alone, batches[b] * N * sizeof *alone);
            }
            free(data);
        }
    }
    free(together);
    free(alone);
    free(w);
    free(x);
}

/* Products of x (M, K), and of the first set of its kind. */
struct results {
    float *of[FORMS];
};

static void all_forms(const struct kernels *kernels, const float *x, const float *w,
                      struct shape shape, struct results *out)
{
    for (size_t f = 0; f < FORMS; f++) {
        void *data = aligned(form_bytes(&forms[f], shape.N, shape.K));
        const struct matrix matrix = form_of(&forms[f], w, shape.N, shape.K, data);
        out->of[f] = aligned(shape.M * shape.N * sizeof(float));
        multiply(kernels, x, shape.M, &matrix, NULL, out->of[f]);
        free(data);
    }
}

static void layouts_types_and_sets_agree_to_the_bit(void **state)
{
    (void)state;
    const struct shape shape = { 11, 90, 197 };
    const size_t bytes = shape.M * shape.N * sizeof(float);
    float *x = numbers(shape.M * shape.K, number, 6);
    float *w = numbers(shape.N * shape.K, short_number, 7);
    struct results results[SETS];
    for (size_t t = 0; t < table_count; t++) {
        all_forms(&tables[t], x, w, shape, &results[t]);
        for (size_t f = 1; f < FORMS; f++) /* the values are the same in all but int8 */
            if (forms[f].dtype != DTYPE_I8)
                assert_memory_equal(results[t].of[f], results[t].of[0], bytes);
        assert_memory_equal(results[t].of[FORMS - 1], results[0].of[FORMS - 1], bytes);
        if (t > 1) /* sets but the portable one fuse */
            assert_memory_equal(results[t].of[0], results[1].of[0], bytes);
    }
    for (size_t t = 0; t < table_count; t++)
        for (size_t f = 0; f < FORMS; f++)
            free(results[t].of[f]);
    free(w);
    free(x);
}

static void a_row_that_is_not_finite_stays_so_and_harms_no_other(void **state)
{
    (void)state;
    enum { M = 9, N = 50, K = 70, BAD = 4 };
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    float *x = numbers(M * K, number, 8), *w = numbers(N * K, short_number, 9);
    float clean[M * N], y[M * N];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t f = 0; f < FORMS; f++) {
            void *data = aligned(form_bytes(&forms[f], N, K));
            const struct matrix matrix = form_of(&forms[f], w, N, K, data);
            multiply(&tables[t], x, M, &matrix, NULL, clean);
            for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
                const float kept = x[BAD * K + 33];
                x[BAD * K + 33] = bad[b];
                multiply(&tables[t], x, M, &matrix, NULL, y);
                x[BAD * K + 33] = kept;
                for (size_t m = 0; m < M; m++)
                    for (size_t n = 0; n < N; n++)
                        assert_true(m == BAD ? !isfinite(y[m * N + n])
                                             : same_bits(y[m * N + n], clean[m * N + n]));
                for (size_t n = 0; n < N && (forms[f].dtype == DTYPE_I8 || isnan(bad[b])); n++)
                    assert_true(isnan(y[BAD * N + n]));
            }
            free(data);
        }
    }
    free(w);
    free(x);
}

static void single_columns_have_the_bits_of_the_product(void **state)
{
    (void)state;
    enum { N = 60, K = 77 };
    static const int32_t ids[] = { 59, 0, 7, 7, 31, 48, 47, 1, 2, 3, 16 };
    enum { COUNT = sizeof ids / sizeof *ids };
    float *x = numbers(K, number, 10), *w = numbers(N * K, short_number, 11);
    float *bias = numbers(N, number, 12), y[N], some[COUNT];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t f = 0; forms[f].layout == LAYOUT_ROWS; f++) {
            void *data = aligned(form_bytes(&forms[f], N, K));
            const struct matrix matrix = form_of(&forms[f], w, N, K, data);
            multiply(&tables[t], x, 1, &matrix, bias, y);
            tables[t].some_columns(x, &matrix, bias, ids, COUNT, some);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(same_bits(some[i], y[ids[i]]));
            free(data);
        }
    }
    free(bias);
    free(w);
    free(x);
}

static void openblas_takes_a_narrow_matrix_of_any_width(void **state)
{
    (void)state;
    enum { K = 40000 };
    static float x[K];
    static uint16_t w[2 * K];
    float y[2] = { 7, 7 };
    struct kernels kernels;
    struct error err = { 0 };
    assert_int_equal(kernels_init(&kernels, "", "openblas", &err), 0);
    for (size_t k = 0; k < K; k++) {
        x[k] = k % 2 ? 1.0f : -1.0f;
        w[k] = k % 2 ? 0x3c00 : 0; /* 1 and 0: the product is K / 2 */
        w[K + k] = 0x3c00;
    }
    const struct matrix matrix = { w, DTYPE_F16, 2, K, LAYOUT_ROWS };
    multiply(&kernels, x, 1, &matrix, NULL, y);
    assert_true(y[0] == K / 2 && y[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_product_has_the_bits_of_plain_loops),
        cmocka_unit_test(a_row_does_not_depend_on_its_batch),
        cmocka_unit_test(layouts_types_and_sets_agree_to_the_bit),
        cmocka_unit_test(a_row_that_is_not_finite_stays_so_and_harms_no_other),
        cmocka_unit_test(single_columns_have_the_bits_of_the_product),
        cmocka_unit_test(openblas_takes_a_narrow_matrix_of_any_width),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
