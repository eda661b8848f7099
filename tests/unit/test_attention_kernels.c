/* Attention's kernels of every set of this machine against sums in double, in memory that begins
 * and ends with the arrays. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/kernels.h"

static const char *const isas[] = { "portable", "avx2", "avx512", "neon" };
static const size_t widths[] = { 1, 3, 8, 15, 16, 17, 64, 65, 100 };
enum { ISAS = sizeof isas / sizeof *isas, WIDTHS = sizeof widths / sizeof *widths, COUNT = 70 };

static bool has(struct kernels *kernels, const char *isa)
{
    struct error err = { 0 };
    return kernels_init(kernels, isa, "own", &err) == 0;
}

/* Memory between two pages that nobody may touch. */
struct fence {
    char *map;
    size_t inside, page;
};

static struct fence fence_open(size_t bytes_max)
{
    struct fence f = { .page = (size_t)sysconf(_SC_PAGESIZE) };
    f.inside = (bytes_max + f.page - 1) / f.page * f.page;
    f.map = mmap(NULL, f.inside + 2 * f.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    assert_true(f.map != MAP_FAILED);
    assert_int_equal(mprotect(f.map, f.page, PROT_NONE), 0);
    assert_int_equal(mprotect(f.map + f.page + f.inside, f.page, PROT_NONE), 0);
    return f;
}

static void fence_close(struct fence *f)
{
    munmap(f->map, f->inside + 2 * f->page);
}

/* `bytes` that begin where the memory begins, or end where it ends. */
static void *fence_take(const struct fence *f, size_t bytes, bool at_end)
{
    assert_true(bytes <= f->inside);
    return f->map + f->page + (at_end ? f->inside - bytes : 0);
}

static float *fence_floats(const struct fence *f, size_t count, bool at_end)
{
    float *x = fence_take(f, count * sizeof *x, at_end);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    return x;
}

static void assert_near(double expected, float got)
{
    if (!(fabs(expected - (double)got) <= 2e-6 * (1.0 + fabs(expected))))
        fail_msg("%.9g instead of %.9g", (double)got, expected);
}

/* One query's arrays, each in memory of its own. */
struct query {
    struct fence fences[5];
    float *q, *data, *weights, *out;
    int32_t *path;
};

static struct query query_open(void)
{
    struct query x = { 0 };
    for (size_t i = 0; i < 5; i++)
        x.fences[i] = fence_open(COUNT * 102 * sizeof(float));
    return x;
}

static void query_close(struct query *x)
{
    for (size_t i = 0; i < 5; i++)
        fence_close(&x->fences[i]);
}

/* `count` rows; on a path, of which some stand twice, or not. */
static struct float_rows query_fill(struct query *x, size_t count, size_t width, bool path,
                                    bool at_end)
{
    const size_t stride = width + count % 3;
    x->q = fence_floats(&x->fences[0], width, at_end);
    x->data = fence_floats(&x->fences[1], (count - 1) * stride + width, at_end);
    x->weights = fence_floats(&x->fences[2], count, at_end);
    x->path = fence_take(&x->fences[3], count * sizeof *x->path, at_end);
    for (size_t j = 0; j < count; j++)
        x->path[j] = (int32_t)(((count - 1 - j) * 2 + j / 3) % count);
    return (struct float_rows){ x->data, stride, path ? x->path : NULL, count, width, x->data };
}

static const float *row_at(const struct float_rows *rows, size_t j)
{
    return rows->data + (rows->path ? (size_t)rows->path[j] : j) * rows->stride;
}

static void check_scores(const struct kernels *kernels, struct query *x,
                         const struct float_rows *rows, bool at_end)
{
    x->out = fence_floats(&x->fences[4], rows->count, at_end);
    kernels->scores(rows, x->q, 0.25f, x->out);
    for (size_t j = 0; j < rows->count; j++) {
        const struct float_rows alone = {
            row_at(rows, j), rows->stride, NULL, 1, rows->width, NULL
        };
        double sum = 0.0;
        float score;
        for (size_t i = 0; i < rows->width; i++)
            sum += (double)x->q[i] * row_at(rows, j)[i];
        assert_near(0.25 * sum, x->out[j]);
        kernels->scores(&alone, x->q, 0.25f, &score);
        assert_memory_equal(&score, &x->out[j], sizeof score);
    }
}

static void check_mix(const struct kernels *kernels, struct query *x, const struct float_rows *rows,
                      bool at_end)
{
    x->out = fence_floats(&x->fences[4], rows->width, at_end);
    kernels->mix(rows, x->weights, x->out);
    for (size_t i = 0; i < rows->width; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < rows->count; j++)
            sum += (double)x->weights[j] * row_at(rows, j)[i];
        assert_near(sum, x->out[i]);
    }
}

typedef void check_query(const struct kernels *kernels, struct query *x,
                         const struct float_rows *rows, bool at_end);

static void for_every_query(check_query *check)
{
    struct query x = query_open();
    for (size_t isa = 0; isa < ISAS; isa++) {
        struct kernels kernels;
        if (!has(&kernels, isas[isa]))
            continue;
        for (size_t w = 0; w < WIDTHS; w++)
            for (size_t count = 1; count <= COUNT; count++)
                for (unsigned bits = 0; bits < 4; bits++) {
                    const bool at_end = bits & 1;
                    const struct float_rows rows =
                        query_fill(&x, count, widths[w], bits & 2, at_end);
                    check(&kernels, &x, &rows, at_end);
                }
    }
    query_close(&x);
}

static void scores_are_scaled_dot_products_whoever_is_beside(void **state)
{
    (void)state;
    for_every_query(check_scores);
}

static void a_mix_is_the_weighted_sum_of_the_values(void **state)
{
    (void)state;
    for_every_query(check_mix);
}

/* Of rows that lie in any order the bits are those of the same rows side by side. */
static void check_path(const struct kernels *kernels, struct query *x,
                       const struct float_rows *rows, bool at_end)
{
    static float copy[COUNT * 100], out[COUNT], mixed[100];
    (void)at_end;
    for (size_t j = 0; j < rows->count; j++)
        memcpy(copy + j * rows->width, row_at(rows, j), rows->width * sizeof *copy);
    const struct float_rows beside = { copy, rows->width, NULL, rows->count, rows->width, NULL };
    float out_beside[COUNT], mixed_beside[100];
    kernels->scores(rows, x->q, 3.0f, out);
    kernels->scores(&beside, x->q, 3.0f, out_beside);
    assert_memory_equal(out, out_beside, rows->count * sizeof *out);
    kernels->mix(rows, x->weights, mixed);
    kernels->mix(&beside, x->weights, mixed_beside);
    assert_memory_equal(mixed, mixed_beside, rows->width * sizeof *mixed);
}

static void a_path_does_not_change_bits(void **state)
{
    (void)state;
    for_every_query(check_path);
}

static size_t filled(size_t columns)
{
    return (columns + STRIP_COLUMNS - 1) / STRIP_COLUMNS * STRIP_COLUMNS;
}

/* y (M, N) = x (M, K) · w, w (N, K) of keys or (K, N) of values; what lies between the rows of y
 * stays, and a row alone gets the same bits. */
static void check_product(const struct kernels *kernels, const struct fence fences[4], size_t M,
                          size_t N, size_t K, bool keys)
{
    const bool at_end = (M + N + K) % 2;
    const size_t gap = M % 4, x_stride = K + gap, y_stride = N + gap;
    const size_t rows = keys ? N : K, width = keys ? K : N, stride = width + gap;
    const float *x = fence_floats(&fences[0], (M - 1) * x_stride + K, at_end);
    const float *w = fence_floats(&fences[1], (rows - 1) * stride + width, at_end);
    float *strips = fence_take(&fences[2], filled(N) * K * sizeof *strips, at_end);
    float *y = fence_floats(&fences[3], (M - 1) * y_stride + N, at_end);
    const struct float_rows from = { w, stride, NULL, rows, width, NULL };
    for (size_t i = 0; i < M - 1; i++)
        for (size_t j = N; j < y_stride; j++)
            y[i * y_stride + j] = 77.0f;
    memset(strips, 0xff, filled(N) * K * sizeof *strips);
    if (keys)
        kernels->pack_keys(&from, strips);
    else
        kernels->pack_values(&from, strips);
    for (size_t n = N; n < filled(N); n++)
        for (size_t k = 0; k < K; k++)
            assert_true(strips[n / STRIP_COLUMNS * STRIP_COLUMNS * K + k * STRIP_COLUMNS +
                               n % STRIP_COLUMNS] == 0.0f);
    kernels->multiply(&(struct strip_product){ x, x_stride, M, strips, K, N, y, y_stride });
    for (size_t m = 0; m < M; m++) {
        float alone[100];
        kernels->multiply(
            &(struct strip_product){ x + m * x_stride, x_stride, 1, strips, K, N, alone, N });
        assert_memory_equal(alone, y + m * y_stride, N * sizeof *alone);
        for (size_t n = 0; n < N; n++) {
            double sum = 0.0;
            for (size_t k = 0; k < K; k++)
                sum += (double)x[m * x_stride + k] * (keys ? w[n * stride + k] : w[k * stride + n]);
            assert_near(sum, y[m * y_stride + n]);
        }
        for (size_t n = N; m + 1 < M && n < y_stride; n++)
            assert_true(y[m * y_stride + n] == 77.0f);
    }
}

static void products_of_strips_equal_plain_sums(void **state)
{
    (void)state;
    static const size_t sides[] = { 1, 3, 8, 15, 16, 17, 31, 33, 64, 65 };
    enum { SIDES = sizeof sides / sizeof *sides };
    struct fence fences[4];
    for (size_t i = 0; i < 4; i++)
        fences[i] = fence_open(28000);
    for (size_t isa = 0; isa < ISAS; isa++) {
        struct kernels kernels;
        if (!has(&kernels, isas[isa]))
            continue;
        for (size_t M = 1; M <= 26; M++)
            for (size_t n = 0; n < SIDES; n++)
                for (size_t k = 0; k < SIDES; k++) {
                    check_product(&kernels, fences, M, sides[n], sides[k], true);
                    check_product(&kernels, fences, M, sides[n], sides[k], false);
                }
    }
    for (size_t i = 0; i < 4; i++)
        fence_close(&fences[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_scaled_dot_products_whoever_is_beside),
        cmocka_unit_test(a_mix_is_the_weighted_sum_of_the_values),
        cmocka_unit_test(a_path_does_not_change_bits),
        cmocka_unit_test(products_of_strips_equal_plain_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
