/* The loops over rows of every kernel set of this machine, against double precision. */
#include "kernel_sets.h"

#include <float.h>
#include <math.h>

static void a_row_has_the_same_bits_at_any_address_and_in_place(void **state)
{
    (void)state;
    enum { N = 75 };
    float x[N], w[N], b[N], first[N], room[N + 16];
    fill(x, N, 5);
    fill(w, N, 6);
    fill(b, N, 7);
    for (size_t t = 0; t < table_count; t++) {
        const struct kernels *k = &tables[t];
        for (size_t n = 1; n <= N; n++) {
            for (size_t offset = 0; offset < 16; offset += 5) {
                const struct row_norm norm = { NORM_LAYER, 1e-5, w, b, n };
                float *row = room + offset;
                memcpy(row, x, n * sizeof *row);
                k->normalize(&norm, x, first);
                k->normalize(&norm, row, row);
                assert_memory_equal(row, first, n * sizeof *row);
                memcpy(row, x, n * sizeof *row);
                memcpy(first, x, n * sizeof *row);
                assert_true(k->sum_exp(row, n, 8) == k->sum_exp(x, n, 8));
                k->softmax(first, n);
                k->softmax(row, n);
                assert_memory_equal(row, first, n * sizeof *row);
            }
        }
    }
}

static void softmax_is_exact_to_float(void **state)
{
    (void)state;
    static float x[5000], y[5000];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 1; n < 5000; n = n < 70 ? n + 1 : n * 3) {
            double largest = -INFINITY, sum = 0.0;
            fill(x, n, (uint32_t)n);
            for (size_t i = 0; i < n; i++) {
                x[i] = i % 13 == 5 ? -INFINITY : x[i] * (n % 2 ? 1.0f : 20.0f);
                largest = fmax(largest, (double)x[i]);
            }
            for (size_t i = 0; i < n; i++)
                sum += exp((double)x[i] - largest);
            memcpy(y, x, n * sizeof *y);
            tables[t].softmax(y, n);
            for (size_t i = 0; i < n; i++) {
                const double distance = largest - (double)x[i], exact = exp(-distance) / sum;
                assert_true(isinf(x[i]) ? same_bits(y[i], 0.0f)
                                        : fabs((double)y[i] - exact) <=
                                              0x1p-24 * (8 + 2 * distance) * exact + 1e-37);
            }
        }
    }
}

static void softmax_of_what_is_no_number_is_no_number(void **state)
{
    (void)state;
    float x[40];
    for (size_t t = 0; t < table_count; t++) {
        static const float odd[] = { NAN, INFINITY };
        for (size_t n = 1; n <= 40; n++) {
            for (size_t i = 0; i < 2 * n; i++) {
                fill(x, n, 9);
                x[i / 2] = odd[i % 2];
                tables[t].softmax(x, n);
                for (size_t j = 0; j < n; j++)
                    assert_true(isnan(x[j]));
            }
            for (size_t j = 0; j < n; j++)
                x[j] = -INFINITY;
            tables[t].softmax(x, n);
            assert_true(isnan(x[0]) && isnan(x[n - 1]));
        }
    }
}

/* Of x that is a mean and something small around it. */
static void assert_normed(const struct kernels *kernels, enum norm_kind kind, size_t n, float mean,
                          float size)
{
    static float x[2100], w[2100], b[2100], y[2100];
    const double eps = 1e-5;
    double sum = 0.0, squares = 0.0;
    fill(x, n, (uint32_t)n);
    fill(w, n, 2);
    fill(b, n, 3);
    for (size_t i = 0; i < n; i++)
        x[i] = mean + size * x[i];
    for (size_t i = 0; i < n && kind != NORM_RMS; i++)
        sum += (double)x[i];
    const double center = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - center) * ((double)x[i] - center);
    const double spread = kind == NORM_LAYER_UNBIASED ? sqrt(squares / (double)(n - 1)) + eps
                                                      : sqrt(squares / (double)n + eps);
    kernels->normalize(&(struct row_norm){ kind, eps, w, kind == NORM_RMS ? NULL : b, n }, x, y);
    for (size_t i = 0; i < n; i++) {
        const double exact = ((double)x[i] - center) / spread * (double)w[i] +
                             (kind == NORM_RMS ? 0.0 : (double)b[i]);
        /* the mean is a float where it is subtracted */
        const double allowed = 0x1p-24 * (64 + 8 * fabs(center) / spread);
        if (!(fabs((double)y[i] - exact) <= allowed))
            fail_msg("%s: kind %d, n %zu, mean %g: %a, not %a", kernels->isa, (int)kind, n,
                     (double)mean, (double)y[i], exact);
    }
}

static void norms_are_exact_to_float(void **state)
{
    (void)state;
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 1; n <= 2100; n = n < 70 ? n + 1 : n * 3) {
            for (int i = 0; i < 3; i++) {
                const float mean = (float[]){ 0, -3, 1000 }[i];
                assert_normed(&tables[t], NORM_LAYER, n, mean, 1);
                assert_normed(&tables[t], NORM_RMS, n, mean, 1);
                if (n > 1)
                    assert_normed(&tables[t], NORM_LAYER_UNBIASED, n, mean, 1);
            }
            assert_normed(&tables[t], NORM_LAYER, n, 0, 1e30f); /* squares beyond floats */
        }
    }
}

static void a_row_of_equal_numbers_has_no_variance(void **state)
{
    (void)state;
    static float x[3000], ones[3000], y[3000];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 1; n <= 3000; n = n < 70 ? n + 1 : n * 2) {
            for (size_t i = 0; i < n; i++) {
                x[i] = 1234.5677f;
                ones[i] = 1;
            }
            tables[t].normalize(&(struct row_norm){ NORM_LAYER, 1e-12, ones, NULL, n }, x, y);
            for (size_t i = 0; i < n; i++)
                assert_true(y[i] == 0);
        }
    }
}

static void a_norm_of_what_is_no_number_is_no_number(void **state)
{
    (void)state;
    float x[40], w[40], y[40];
    fill(w, 40, 1);
    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < 40; i++) {
            fill(x, 40, 2);
            x[i] = i % 2 ? NAN : INFINITY;
            tables[t].normalize(&(struct row_norm){ NORM_LAYER, 1e-5, w, w, 40 }, x, y);
            assert_true(isnan(y[0]) || i % 2 == 0);
            assert_true(isnan(y[i]));
        }
    }
}

static void max_is_the_largest_and_no_number_if_one_is_none(void **state)
{
    (void)state;
    float x[70];
    for (size_t t = 0; t < table_count; t++) {
        assert_true(tables[t].max(x, 0) == -INFINITY);
        for (size_t n = 1; n <= 70; n++) {
            for (size_t i = 0; i < n; i++) {
                fill(x, n, (uint32_t)n);
                x[i] = 9;
                assert_true(tables[t].max(x, n) == 9);
                x[(i + 1) % n] = -INFINITY;
                assert_true(tables[t].max(x, n) == (n > 1 ? 9 : -INFINITY));
                x[i] = NAN;
                assert_true(isnan(tables[t].max(x, n)));
                x[i] = INFINITY;
                assert_true(tables[t].max(x, n) == INFINITY);
            }
            for (size_t i = 0; i < n; i++)
                x[i] = -INFINITY;
            assert_true(tables[t].max(x, n) == -INFINITY);
        }
    }
}

static void a_sum_of_exponentials_is_exact_to_float(void **state)
{
    (void)state;
    static float x[60000];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 1; n <= 60000; n = n < 70 ? n + 1 : n * 3) {
            double sum = 0.0;
            fill(x, n, (uint32_t)n);
            for (size_t i = 0; i < n; i++) {
                x[i] = i % 11 == 7 ? -INFINITY : x[i];
                sum += exp((double)x[i] - 8.0);
            }
            assert_true(fabs(tables[t].sum_exp(x, n, 8) - sum) <= 6e-7 * sum);
        }
        for (int i = 0; i <= 8700; i++) { /* one term: its own error */
            const float below = (float)-i / 100.0f;
            const double exact = exp((double)below);
            assert_true(fabs(tables[t].sum_exp(&below, 1, 0) - exact) <= 2e-7 * exact);
        }
        const float far[3] = { 0, -88, -INFINITY };
        assert_true(tables[t].sum_exp(far, 3, 0) == 1.0);
    }
}

static void subtraction_is_rounded_once(void **state)
{
    (void)state;
    float x[70], y[70];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 1; n <= 70; n++) {
            fill(x, n, (uint32_t)n);
            x[n / 2] = n % 3 ? -INFINITY : FLT_MAX;
            memcpy(y, x, sizeof y);
            const double first = n % 3 ? 7.25 : (double)FLT_MAX, second = 1.0 / 3.0;
            tables[t].subtract(y, n, first, second);
            for (size_t i = 0; i < n; i++)
                assert_true(same_bits(y[i], (float)((double)x[i] - first - second)));
        }
    }
}

static void the_first_above_is_found(void **state)
{
    (void)state;
    float x[100];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 0; n <= 100; n += 1 + n / 9) {
            for (size_t first = 0; first <= n; first++) {
                for (int bound = -8; bound <= 8; bound += 4) {
                    fill(x, n, (uint32_t)n);
                    if (n > 3)
                        x[n / 2] = NAN;
                    size_t expected = first;
                    while (expected < n && !(x[expected] + 0.75f > (float)bound))
                        expected++;
                    assert_int_equal(tables[t].find_above(x, first, n, 0.75f, (float)bound),
                                     expected);
                }
            }
        }
        for (size_t i = 0; i < 100; i++)
            x[i] = i == 90 ? 3.0f : 2.0f; /* an equal one is not above */
        assert_int_equal(tables[t].find_above(x, 0, 100, 1, 3), 90);
        const float ends[2] = { -INFINITY, 1 };
        assert_int_equal(tables[t].find_above(ends, 0, 2, 0, -INFINITY), 1);
        assert_int_equal(tables[t].find_above(ends, 0, 2, 0, 1), 2);
        assert_int_equal(tables[t].find_above(ends, 0, 2, 0, NAN), 2);
    }
}

static void no_activate(enum activation activation, float *x, const float *factor, size_t n)
{
    (void)activation, (void)x, (void)factor, (void)n;
}

static void no_normalize(const struct row_norm *norm, const float *x, float *y)
{
    memcpy(y, x, norm->n * sizeof *y);
}

static void no_softmax(float *x, size_t n)
{
    (void)x, (void)n;
}

static float no_max(const float *x, size_t n)
{
    return x[n - 1];
}

static double no_sum_exp(const float *x, size_t n, float most)
{
    return n == 1 ? 1.0 : (double)(x[0] + most);
}

static void no_subtract(float *x, size_t n, double first, double second)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - (float)first) - (float)second;
}

static size_t no_find_above(const float *x, size_t first, size_t n, float added, float bound)
{
    (void)x, (void)first, (void)added, (void)bound;
    return n;
}

static void the_self_check_names_the_loop_that_is_wrong(void **state)
{
    (void)state;
    static const char *const names[] = { "activate", "normalize", "softmax",   "max",
                                         "sum_exp",  "subtract",  "find_above" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kernels k = tables[0];
        struct error err = { 0 };
        k.activate = i == 0 ? no_activate : k.activate;
        k.normalize = i == 1 ? no_normalize : k.normalize;
        k.softmax = i == 2 ? no_softmax : k.softmax;
        k.max = i == 3 ? no_max : k.max;
        k.sum_exp = i == 4 ? no_sum_exp : k.sum_exp;
        k.subtract = i == 5 ? no_subtract : k.subtract;
        k.find_above = i == 6 ? no_find_above : k.find_above;
        assert_int_equal(kernels_check(&k, &err), -1);
        assert_int_equal(err.code, ERR_INTERNAL);
        assert_non_null(strstr(err.message, names[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_same_bits_at_any_address_and_in_place),
        cmocka_unit_test(softmax_is_exact_to_float),
        cmocka_unit_test(softmax_of_what_is_no_number_is_no_number),
        cmocka_unit_test(norms_are_exact_to_float),
        cmocka_unit_test(a_row_of_equal_numbers_has_no_variance),
        cmocka_unit_test(a_norm_of_what_is_no_number_is_no_number),
        cmocka_unit_test(max_is_the_largest_and_no_number_if_one_is_none),
        cmocka_unit_test(a_sum_of_exponentials_is_exact_to_float),
        cmocka_unit_test(subtraction_is_rounded_once),
        cmocka_unit_test(the_first_above_is_found),
        cmocka_unit_test(the_self_check_names_the_loop_that_is_wrong),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
