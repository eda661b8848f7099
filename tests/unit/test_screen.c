/* Screened logits against all logits: what is there has the same bits, and the best are there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/model/linear.h"
#include "../../src/model/screen.h"
#include "kernels/panels.h"

enum { V = 2500, D = 96, M = 5, RUNS = 40 };

static struct fixture {
    struct kernels kernels;
    struct model model;
    struct arena arena;
    float rows[V * D], bias[V], bounds[2 * V];
    void *panels;
} f;

static float uniform(void)
{
    return (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
}

/* Of the rounded row; what pack_write() stores. */
static void set_bounds(size_t v)
{
    const struct matrix packed = { f.panels, DTYPE_I8, V, D, LAYOUT_PANELS };
    const size_t first = v / PANEL_COLUMNS * PANEL_COLUMNS, width = panel_width(V, first);
    const int8_t *elements = (const int8_t *)f.panels + panel_offset(DTYPE_I8, D, first);
    const double scale = (double)panel_scales(&packed, first)[v - first];
    double error = 0.0, length = 0.0;
    for (size_t k = 0; k < D; k++) {
        const double rounded = scale * elements[(k / 4 * width + v - first) * 4 + k % 4];
        error += pow((double)f.rows[v * D + k] - rounded, 2);
        length += rounded * rounded;
    }
    f.bounds[v] = (float)sqrt(error) * 1.000001f;
    f.bounds[V + v] = (float)sqrt(length) * 1.000001f;
}

/* Rows of very different lengths, zeros, an outlier, and some that are equal. */
static void fill(void)
{
    for (size_t v = 0; v < V; v++) {
        const float size = v % 97 == 0 ? 0.0f : v % 31 == 0 ? 3.0f : 1.0f;
        for (size_t k = 0; k < D; k++)
            f.rows[v * D + k] = size * uniform();
        f.rows[v * D + v % D] *= v % 50 == 0 ? 20.0f : 1.0f;
        f.bias[v] = 0.1f * uniform();
    }
    for (size_t v = 7; v < V; v += 500) {
        memcpy(f.rows + v * D, f.rows, D * sizeof *f.rows);
        f.bias[v] = f.bias[0];
    }
}

static int set_up(void **state)
{
    (void)state;
    struct error err = { 0 };
    srand(11);
    fill();
    const struct matrix rows = { f.rows, DTYPE_F32, V, D, LAYOUT_ROWS };
    f.panels = aligned_alloc(PANEL_ALIGN, panels_bytes(DTYPE_I8, V, D));
    if (kernels_init(&f.kernels, "", "own", &err) < 0 || !panels_pack(&rows, DTYPE_I8, f.panels))
        return -1;
    for (size_t v = 0; v < V; v++)
        set_bounds(v);
    f.model.config.width = D;
    f.model.config.target_vocabulary = V;
    f.model.config.output_scale = 1.0f;
    f.model.output = (struct linear){ rows, f.bias };
    f.model.output_rows = rows;
    f.model.screen = (struct matrix){ f.panels, DTYPE_I8, V, D, LAYOUT_PANELS };
    f.model.screen_bounds = f.bounds;
    return arena_open(&f.arena, screen_scratch_bytes(&f.model.config, M), &err);
}

static int tear_down(void **state)
{
    (void)state;
    arena_close(&f.arena);
    free(f.panels);
    return 0;
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static size_t check_row(const float *all, const float *screened, size_t needed)
{
    static float sorted[V];
    size_t count = 0;
    memcpy(sorted, all, sizeof sorted);
    qsort(sorted, V, sizeof *sorted, descending);
    for (size_t v = 0; v < V; v++) {
        if (screened[v] > -INFINITY) {
            assert_memory_equal(&screened[v], &all[v], sizeof(float));
            count++;
        } else {
            assert_true(all[v] < sorted[needed - 1]);
        }
    }
    return count;
}

static void the_best_are_there_with_the_same_bits(void **state)
{
    (void)state;
    static float x[M * D], all[M * V], screened[M * V];
    const struct pass pass = { &f.model, &f.kernels, &f.arena, NULL, true };
    const size_t needed[M] = { 1, 2, 5, 20, 50 };
    size_t candidates = 0;
    for (size_t run = 0; run < RUNS; run++) {
        for (size_t i = 0; i < M * D; i++)
            x[i] = uniform() * (run % 4 == 0 ? 1e3f : 1.0f);
        for (size_t m = 0; m < M; m++)
            assert_true(screen_possible(&pass, x + m * D, needed[m]));
        linear(&pass, &f.model.output, x, M, all);
        screen_logits(&pass, x, M, needed, screened);
        for (size_t m = 0; m < M; m++)
            candidates += check_row(all + m * V, screened + m * V, needed[m]);
    }
    assert_true(candidates < RUNS * M * V / 5);
}

static void equal_rows_are_all_there(void **state)
{
    (void)state;
    static float screened[V];
    const struct pass pass = { &f.model, &f.kernels, &f.arena, NULL, true };
    const size_t needed = 1;
    screen_logits(&pass, f.rows, 1, &needed, screened); /* row 0 times its equals is the best */
    for (size_t v = 7; v < V; v += 500)
        assert_memory_equal(&screened[v], &screened[7], sizeof(float));
}

/* So small that int8 makes zeros of it: every row is a candidate then. */
static void a_state_below_int8_is_screened_too(void **state)
{
    (void)state;
    static float x[D], all[V], screened[V];
    const struct pass pass = { &f.model, &f.kernels, &f.arena, NULL, true };
    const size_t needed = 3;
    for (size_t i = 0; i < D; i++)
        x[i] = uniform() * 1e-38f;
    assert_true(screen_possible(&pass, x, needed));
    linear(&pass, &f.model.output, x, 1, all);
    screen_logits(&pass, x, 1, &needed, screened);
    check_row(all, screened, needed);
}

static void what_cannot_be_bounded_is_not_screened(void **state)
{
    (void)state;
    float x[D] = { 1.0f };
    struct pass pass = { &f.model, &f.kernels, &f.arena, NULL, true };
    assert_true(screen_possible(&pass, x, 1));
    assert_false(screen_possible(&pass, x, 0));
    assert_false(screen_possible(&pass, x, V / PANEL_COLUMNS + 2));
    x[3] = NAN;
    assert_false(screen_possible(&pass, x, 1));
    x[3] = INFINITY;
    assert_false(screen_possible(&pass, x, 1));
    pass.screening = false;
    x[3] = 0.0f;
    assert_false(screen_possible(&pass, x, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_are_there_with_the_same_bits),
        cmocka_unit_test(equal_rows_are_all_there),
        cmocka_unit_test(a_state_below_int8_is_screened_too),
        cmocka_unit_test(what_cannot_be_bounded_is_not_screened),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
