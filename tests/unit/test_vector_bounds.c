/* No kernel touches what is outside its arrays. */
#include "kernel_sets.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

/* `count` floats that end where nothing may be read or written, behind the same at the front. */
struct guarded {
    char *pages;
    float *data;
};

static struct guarded guard(size_t count, uint32_t seed, bool front)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded g = { mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                         NULL };
    assert_true(g.pages != MAP_FAILED && count * sizeof(float) <= page);
    assert_int_equal(mprotect(g.pages + page, page, PROT_READ | PROT_WRITE), 0);
    g.data = (float *)(void *)(g.pages + (front ? page : 2 * page - count * sizeof(float)));
    fill(g.data, count, seed);
    return g;
}

static void unguard(struct guarded *g)
{
    munmap(g->pages, 3 * (size_t)sysconf(_SC_PAGESIZE));
}

static void call_all(const struct kernels *k, const struct guarded g[3], size_t n)
{
    float *x = g[0].data, *y = g[1].data, *z = g[2].data;
    k->dot(x, y, n);
    k->axpy(0.5f, x, y, n);
    for (enum activation a = 0; a < ACTIVATION_COUNT; a++)
        k->activate(a, x, a % 2 ? y : NULL, n);
    k->activate(ACTIVATION_TANH, x, y, n);
    k->normalize(&(struct row_norm){ NORM_LAYER, 1e-5, x, y, n }, z, z);
    k->normalize(&(struct row_norm){ NORM_RMS, 1e-5, x, NULL, n }, y, z);
    fill(x, n, 3);
    assert_true(isfinite(k->max(x, n)));
    assert_true(k->sum_exp(x, n, 8) > 0.0);
    assert_int_equal(k->find_above(x, 0, n, 0, 100), n);
    assert_int_equal(k->find_above(x, n, n, 0, -100), n);
    k->subtract(x, n, 1, 2);
    k->softmax(x, n);
}

static void nothing_outside_the_arrays_is_touched(void **state)
{
    (void)state;
    static const size_t counts[] = { 1,  2,  3,  7,  8,  9,  15, 16,  17,
                                     31, 32, 33, 63, 64, 65, 96, 160, 224 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const size_t n = counts[i];
        for (int front = 0; front < 2; front++) {
            struct guarded g[3] = { guard(n, 1, front), guard(n, 2, front), guard(n, 3, front) };
            struct guarded halves = guard((n + 1) / 2, 4, front);
            /* an odd count of halves leaves a half before the end */
            const uint16_t *stored = (const uint16_t *)(const void *)halves.data;
            for (size_t t = 0; t < table_count; t++) {
                call_all(&tables[t], g, n);
                tables[t].widen(stored + (front ? 0 : n % 2), DTYPE_BF16, g[0].data, n);
                tables[t].widen(stored + (front ? 0 : n % 2), DTYPE_F16, g[0].data, n);
            }
            for (size_t j = 0; j < 3; j++)
                unguard(&g[j]);
            unguard(&halves);
        }
    }
}

static void nothing_behind_the_end_is_written(void **state)
{
    (void)state;
    float x[80], y[80], kept[80];
    for (size_t t = 0; t < table_count; t++) {
        for (size_t n = 1; n <= 64; n++) {
            const struct kernels *k = &tables[t];
            const size_t rest = (80 - n) * sizeof *x;
            fill(x, 80, (uint32_t)n);
            fill(y, 80, (uint32_t)n + 1);
            memcpy(kept, x, sizeof x);
            k->activate(ACTIVATION_GELU, x, y, n);
            k->subtract(x, n, 1, 2);
            k->softmax(x, n);
            k->axpy(2, y, x, n);
            k->normalize(&(struct row_norm){ NORM_LAYER, 1e-5, y, y, n }, y, x);
            assert_memory_equal(x + n, kept + n, rest);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_outside_the_arrays_is_touched),
        cmocka_unit_test(nothing_behind_the_end_is_written),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
