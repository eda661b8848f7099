/* int8: exact sums at the extremes, and errors that stay where the outlier is. */
#include "product_runs.h"

static struct matrix packed_int8(const float *w, size_t N, size_t K, void **data)
{
    *data = aligned(panels_bytes(DTYPE_I8, N, K));
    const struct matrix rows = { w, DTYPE_F32, N, K, LAYOUT_ROWS };
    assert_true(panels_pack(&rows, DTYPE_I8, *data));
    return (struct matrix){ *data, DTYPE_I8, N, K, LAYOUT_PANELS };
}

/* Pairs of such products do not fit 16 bits, nor do those of x + 128. */
static void sums_of_the_largest_products_are_exact(void **state)
{
    (void)state;
    enum { M = 9, N = 50, K_MAX = 4096 };
    static const size_t counts[] = { 4, 64, 65, K_MAX };
    static float x[M * K_MAX], w[N * K_MAX];
    float y[M * N];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t K = counts[c];
        void *data;
        for (size_t i = 0; i < M * K; i++) /* rows of 127, of −127, and of both in turn */
            x[i] = i / K % 3 == 0 || (i / K % 3 == 2 && i % K % 2) ? 127.0f : -127.0f;
        for (size_t i = 0; i < N * K; i++)
            w[i] = i / K % 2 ? -127.0f : 127.0f;
        const struct matrix matrix = packed_int8(w, N, K, &data);
        for (size_t t = 0; t < table_count; t++) {
            multiply(&tables[t], x, M, &matrix, NULL, y);
            for (size_t m = 0; m < M; m++) {
                for (size_t n = 0; n < N; n++) {
                    const float sum = (m % 3 == 2) ? (K % 2 ? -127.0f * 127.0f : 0.0f)
                                                   : (m % 3 ? -1.0f : 1.0f) * (float)K * 16129.0f;
                    assert_true(y[m * N + n] == (n % 2 ? -sum : sum));
                }
            }
        }
        free(data);
    }
}

/* Sixteen random numbers summed: nearly normal, as weights are. */
static float bell(uint32_t *state)
{
    float sum = 0.0f;
    for (int i = 0; i < 16; i++)
        sum += number(state);
    return sum;
}

/* The signs of x are those of a column of w, or the opposite: sums of two products are then as
 * large as they can be.  In every third row all x are of one size, in the others few are large. */
static void neighbours_of_one_sign_are_added_exactly(void **state)
{
    (void)state;
    enum { M = 13, N = 53, K_MAX = 331 };
    static const size_t counts[] = { 2, 3, 64, 127, K_MAX };
    static float x[M * K_MAX], w[N * K_MAX];
    uint32_t seed = 1;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t K = counts[c];
        void *data;
        for (size_t i = 0; i < N * K; i++)
            w[i] = bell(&seed);
        for (size_t i = 0; i < M * K; i++)
            x[i] = copysignf(i / K % 3 ? bell(&seed) : 1.0f,
                             w[i / K / 2 * K + i % K] * (i / K % 2 ? -1.0f : 1.0f));
        const struct matrix matrix = packed_int8(w, N, K, &data);
        for (size_t t = 0; t < table_count; t++)
            for (size_t rows = 1; rows <= M; rows++) {
                float y[M * N];
                multiply(&tables[t], x, rows, &matrix, NULL, y);
                for (size_t i = 0; i < rows * N; i++)
                    assert_true(
                        same_bits(y[i], plain_integer_sum(x + i / N * K, w + i % N * K, K)));
            }
        free(data);
    }
}

static double relative_error(const float *y, const float *exact, size_t M, size_t N, size_t n)
{
    double error = 0.0, size = 0.0;
    for (size_t m = 0; m < M; m++) {
        const double difference = (double)y[m * N + n] - (double)exact[m * N + n];
        error += difference * difference;
        size += (double)exact[m * N + n] * (double)exact[m * N + n];
    }
    return sqrt(error / size);
}

/* Scales belong to rows of weights. */
static void an_outlier_among_the_weights_harms_no_other_row(void **state)
{
    (void)state;
    enum { M = 32, N = 64, K = 512, OUTLIER = 17 };
    static float x[M * K], w[N * K], y[M * N], exact[M * N];
    uint32_t seed = 1;
    void *data;
    for (size_t i = 0; i < M * K; i++)
        x[i] = bell(&seed);
    for (size_t i = 0; i < N * K; i++)
        w[i] = bell(&seed) * (i / K == OUTLIER ? 100.0f : 1.0f);
    const struct matrix rows = { w, DTYPE_F32, N, K, LAYOUT_ROWS };
    const struct matrix matrix = packed_int8(w, N, K, &data);
    for (size_t t = 0; t < table_count; t++) {
        multiply(&tables[t], x, M, &rows, NULL, exact);
        multiply(&tables[t], x, M, &matrix, NULL, y);
        for (size_t n = 0; n < N; n++)
            assert_true(relative_error(y, exact, M, N, n) <= 0.02);
    }
    free(data);
}

/* Scales belong to rows of x too. */
static void an_outlier_among_the_rows_of_x_harms_no_other_row(void **state)
{
    (void)state;
    enum { M = 9, N = 50, K = 100, OUTLIER = 5 };
    float x[M * K], w[N * K], before[M * N], after[M * N];
    void *data;
    fill(x, M * K, 2);
    fill(w, N * K, 3);
    const struct matrix matrix = packed_int8(w, N, K, &data);
    for (size_t t = 0; t < table_count; t++) {
        multiply(&tables[t], x, M, &matrix, NULL, before);
        for (size_t k = 0; k < K; k++)
            x[OUTLIER * K + k] *= 1024.0f; /* a power of two: no rounding */
        multiply(&tables[t], x, M, &matrix, NULL, after);
        for (size_t k = 0; k < K; k++)
            x[OUTLIER * K + k] /= 1024.0f;
        for (size_t i = 0; i < M * N; i++)
            assert_true(same_bits(after[i], before[i] * (i / N == OUTLIER ? 1024.0f : 1.0f)));
    }
    free(data);
}

static void rows_of_zeros_and_of_subnormals_give_finite_numbers(void **state)
{
    (void)state;
    enum { M = 3, N = 4, K = 20 };
    float x[M * K] = { 0 }, w[N * K] = { 0 }, y[M * N];
    void *data;
    for (size_t k = 0; k < K; k++) {
        x[K + k] = 0x1p-149f; /* 127 / largest is infinite */
        x[2 * K + k] = 3.0f;
        w[K + k] = 0x1p-149f;
        w[2 * K + k] = -0x1p-130f;
        w[3 * K + k] = 5.0f;
    }
    const struct matrix matrix = packed_int8(w, N, K, &data);
    for (size_t t = 0; t < table_count; t++) {
        multiply(&tables[t], x, M, &matrix, NULL, y);
        for (size_t i = 0; i < M * N; i++)
            assert_true(isfinite(y[i]));
        assert_true(y[0] == 0.0f && y[3] == 0.0f && y[2 * N] == 0.0f);
        assert_true(fabsf(y[2 * N + 3] - 300.0f) < 1e-3f);
    }
    free(data);
}

static void weights_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    enum { N = 20, K = 30 };
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    float w[N * K];
    void *out = aligned(panels_bytes(DTYPE_I8, N, K));
    const struct matrix rows = { w, DTYPE_F32, N, K, LAYOUT_ROWS };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fill(w, N * K, 4);
        w[17 * K + 29] = bad[i];
        assert_false(panels_pack(&rows, DTYPE_I8, out));
        w[17 * K + 29] = 0.0f;
        assert_true(panels_pack(&rows, DTYPE_I8, out));
    }
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_the_largest_products_are_exact),
        cmocka_unit_test(neighbours_of_one_sign_are_added_exactly),
        cmocka_unit_test(an_outlier_among_the_weights_harms_no_other_row),
        cmocka_unit_test(an_outlier_among_the_rows_of_x_harms_no_other_row),
        cmocka_unit_test(rows_of_zeros_and_of_subnormals_give_finite_numbers),
        cmocka_unit_test(weights_that_are_not_finite_are_refused),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
