/* No product touches what is outside its arrays, and positions in wide matrices do not overflow. */
#include "product_runs.h"

#include <sys/mman.h>
#include <unistd.h>

static const size_t sides[] = { 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 160, 224 };
enum { SIDES = sizeof sides / sizeof *sides, SIDE_MAX = 224, ROWS_MAX = 9 };

/* Memory between two pages that nobody may touch. */
struct region {
    char *begin, *end;
};
enum { X, PREPARED, WEIGHTS, BIAS, Y, REGIONS };

static struct region regions[REGIONS];

static int open_regions(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < REGIONS; i++) {
        const size_t most = SIDE_MAX * (SIDE_MAX + 2) * sizeof(float);
        const size_t bytes = (most + page - 1) / page * page;
        char *pages = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED || mprotect(pages + page, bytes, PROT_READ | PROT_WRITE) < 0)
            return -1;
        regions[i] = (struct region){ pages + page, pages + page + bytes };
    }
    if (open_tables(state) != 0)
        return -1;
    /* one more table, where the CPU multiplies bfloat16 by bfloat16 */
    tables[table_count] = tables[table_count - 1];
    table_count += kernels_narrow_bf16(&tables[table_count]);
    return 0;
}

/* At the front of the region, or at its end: `bytes` before it, and `align` at most before that. */
static void *place(int region, size_t bytes, size_t align, bool front)
{
    const struct region *r = &regions[region];
    assert_true(bytes <= (size_t)(r->end - r->begin));
    return front ? r->begin : r->end - (bytes + align - 1) / align * align;
}

struct run {
    const struct form *form;
    const float *x, *w, *bias;
    size_t M, N, K;
};

static const float *run_at(const struct kernels *kernels, const struct run *run, bool front)
{
    const size_t M = run->M, N = run->N, K = run->K;
    const bool rows = run->form->layout == LAYOUT_ROWS;
    const size_t prepared = prepared_bytes(M, K), bytes = form_bytes(run->form, N, K);
    float *x = place(X, M * K * sizeof *x, sizeof *x, front);
    float *bias = place(BIAS, N * sizeof *bias, sizeof *bias, front);
    memcpy(x, run->x, M * K * sizeof *x);
    memcpy(bias, run->bias, N * sizeof *bias);
    struct gemm gemm = {
        .x = place(PREPARED, prepared, PANEL_ALIGN, front),
        .M = M,
        .w = form_of(
            run->form, run->w, N, K,
            place(WEIGHTS, bytes, rows ? dtype_bytes(run->form->dtype) : PANEL_ALIGN, front)),
        .bias = (M + N + K) % 2 ? bias : NULL,
        .y = place(Y, M * N * sizeof(float), sizeof(float), front),
        .y_stride = N,
        .end = N,
    };
    const struct product *product = kernels_product(kernels, &gemm.w);
    product->prepare(x, M, K, (void *)(uintptr_t)gemm.x, 0, 1);
    product->gemm(&gemm);
    if (rows && N > 1) /* instead of the last two */
        kernels->some_columns(x, &gemm.w, gemm.bias, (const int32_t[]){ 0, (int32_t)N - 1 }, 2,
                              gemm.y + M * N - 2);
    return gemm.y;
}

static void nothing_outside_the_arrays_is_touched(void **state)
{
    (void)state;
    static float x[ROWS_MAX * SIDE_MAX], w[SIDE_MAX * SIDE_MAX], bias[SIDE_MAX];
    static float kept[ROWS_MAX * SIDE_MAX];
    static const size_t row_counts[] = { 1, 4, ROWS_MAX };
    uint32_t seed = 1;
    fill(x, sizeof x / sizeof *x, 2);
    fill(bias, SIDE_MAX, 3);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = short_number(&seed);
    for (size_t i = 0; i < SIDES * SIDES; i++) {
        for (size_t f = 0; f < FORMS; f++) {
            for (size_t t = 0; t < table_count; t++) {
                const struct run run = {
                    &forms[f],       x, w, bias, row_counts[(i + f) % 3], sides[i / SIDES],
                    sides[i % SIDES]
                };
                const size_t bytes = run.M * run.N * sizeof(float);
                memcpy(kept, run_at(&tables[t], &run, true), bytes);
                assert_memory_equal(run_at(&tables[t], &run, false), kept, bytes);
            }
        }
    }
}

/* The elements of y beyond a share of columns, or between rows, are another thread's. */
static void only_the_columns_asked_for_are_written(void **state)
{
    (void)state;
    enum { M = 5, N = 100, K = 40, STRIDE = 117 };
    static float x[M * K], w[N * K], y[M * STRIDE];
    uint32_t seed = 4;
    fill(x, M * K, 5);
    for (size_t i = 0; i < N * K; i++)
        w[i] = short_number(&seed);
    for (size_t t = 0; t < table_count; t++) {
        for (size_t f = 0; f < FORMS; f++) {
            void *data = aligned(form_bytes(&forms[f], N, K));
            void *prepared = aligned(prepared_bytes(M, K));
            struct gemm gemm = { .x = prepared,
                                 .M = M,
                                 .w = form_of(&forms[f], w, N, K, data),
                                 .y = y,
                                 .y_stride = STRIDE };
            kernels_product(&tables[t], &gemm.w)->prepare(x, M, K, prepared, 0, 1);
            for (gemm.first = 0; gemm.first < N; gemm.first += PANEL_COLUMNS) {
                gemm.end = gemm.first + PANEL_COLUMNS < N ? gemm.first + PANEL_COLUMNS : N;
                for (size_t i = 0; i < M * STRIDE; i++)
                    y[i] = 12345.0f;
                kernels_product(&tables[t], &gemm.w)->gemm(&gemm);
                for (size_t i = 0; i < M * STRIDE; i++) {
                    const size_t n = i % STRIDE;
                    assert_int_equal(y[i] != 12345.0f, n >= gemm.first && n < gemm.end);
                }
            }
            free(prepared);
            free(data);
        }
    }
}

static void positions_in_a_wide_matrix_do_not_overflow(void **state)
{
    (void)state;
    const size_t K = 2560, N = 262144, last = N / PANEL_COLUMNS * PANEL_COLUMNS;
    const size_t width = panel_width(N, last);
    /* the last element of the last panel */
    const size_t place_in_panel = (K - 1) * width + width - 1;
    assert_int_equal(panel_offset(DTYPE_F32, K, last) / sizeof(float) + place_in_panel, 671088639);
    assert_int_equal(panels_bytes(DTYPE_F32, N, K), (size_t)671088640 * 4);
    assert_int_equal(panels_bytes(DTYPE_BF16, N, K), (size_t)671088640 * 2);
    assert_int_equal(panels_bytes(DTYPE_I8, N, K), (size_t)671088640 + N * 8);
    const uintptr_t begin = 1 << 20; /* nothing is read there */
    const struct matrix packed = { (const void *)begin, DTYPE_I8, N, K, LAYOUT_PANELS };
    assert_int_equal((uintptr_t)panel_scales(&packed, last) - begin, last * (K + 8) + width * K);
    assert_int_equal((uintptr_t)panel_sums(&packed, last) - begin,
                     last * (K + 8) + width * (K + 4));
}

static void what_cannot_be_counted_is_said_to_be_too_much(void **state)
{
    (void)state;
    for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_COUNT; dtype++) {
        assert_true(panels_bytes(dtype, SIZE_MAX, 1) == SIZE_MAX);
        assert_true(panels_bytes(dtype, 1, SIZE_MAX) == SIZE_MAX);
        assert_true(panels_bytes(dtype, SIZE_MAX, SIZE_MAX) == SIZE_MAX);
        assert_true(panels_bytes(dtype, SIZE_MAX / 4, 64) == SIZE_MAX);
        assert_true(panels_bytes(dtype, (size_t)1 << 32, (size_t)1 << 32) == SIZE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_outside_the_arrays_is_touched),
        cmocka_unit_test(only_the_columns_asked_for_are_written),
        cmocka_unit_test(positions_in_a_wide_matrix_do_not_overflow),
        cmocka_unit_test(what_cannot_be_counted_is_said_to_be_too_much),
    };
    return cmocka_run_group_tests(tests, open_regions, NULL);
}
