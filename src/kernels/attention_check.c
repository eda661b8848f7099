/* The part of the self-check that asks attention's kernels. */
#include <math.h>
#include <stdbool.h>

#include "kernels_internal.h"

enum { WIDTH_MAX = 67, COUNT_MAX = 19, STRIDE = WIDTH_MAX + 2 };

struct sample {
    float q[COUNT_MAX * STRIDE], rows[COUNT_MAX * STRIDE], weights[COUNT_MAX];
    int32_t path[COUNT_MAX];
};

/* Values in [−1, 1), and a path that goes backwards. */
static void fill_sample(struct sample *s, size_t count)
{
    uint32_t state = (uint32_t)count;
    for (size_t i = 0; i < COUNT_MAX * STRIDE; i++) {
        state = state * 1664525u + 1013904223u;
        s->q[i] = (float)(int32_t)(state >> 25) / 64.0f - 1.0f;
        state = state * 1664525u + 1013904223u;
        s->rows[i] = (float)(int32_t)(state >> 25) / 64.0f - 1.0f;
    }
    for (size_t i = 0; i < COUNT_MAX; i++) {
        s->weights[i] = s->q[i];
        s->path[i] = (int32_t)(count - 1 - i % count);
    }
}

static bool near(double expected, float got)
{
    return fabs(expected - (double)got) <= 1e-5 * (1.0 + fabs(expected));
}

static bool query_is_right(const struct kernels *kernels, const struct sample *s,
                           const struct float_rows *rows)
{
    float scores[COUNT_MAX], mixed[WIDTH_MAX];
    bool right = true;
    kernels->scores(rows, s->q, 0.5f, scores);
    kernels->mix(rows, s->weights, mixed);
    for (size_t j = 0; j < rows->count; j++) {
        double sum = 0.0;
        for (size_t i = 0; i < rows->width; i++)
            sum += (double)s->q[i] *
                   s->rows[(size_t)(rows->path ? rows->path[j] : (int32_t)j) * STRIDE + i];
        right = right && near(0.5 * sum, scores[j]);
    }
    for (size_t i = 0; i < rows->width; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < rows->count; j++)
            sum += (double)s->weights[j] *
                   s->rows[(size_t)(rows->path ? rows->path[j] : (int32_t)j) * STRIDE + i];
        right = right && near(sum, mixed[i]);
    }
    return right;
}

/* Both products of `count` queries with as many rows: with the rows as columns, and as they are. */
static bool row_is_right(const struct kernels *kernels, const struct sample *s,
                         const struct float_rows *rows)
{
    enum { COUNT_FILLED = 32, WIDTH_FILLED = 80 };
    _Alignas(64) float strips[COUNT_FILLED * WIDTH_FILLED];
    float y[COUNT_MAX * WIDTH_MAX];
    const size_t n = rows->count, K = rows->width;
    bool right = true;
    kernels->pack_keys(rows, strips);
    kernels->multiply(&(struct strip_product){ s->q, STRIDE, n, strips, K, n, y, n });
    for (size_t m = 0; m < n; m++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (size_t i = 0; i < K; i++)
                sum += (double)s->q[m * STRIDE + i] * s->rows[j * STRIDE + i];
            right = right && near(sum, y[m * n + j]);
        }
    kernels->pack_values(rows, strips);
    kernels->multiply(&(struct strip_product){ s->q, STRIDE, n, strips, n, K, y, K });
    for (size_t m = 0; m < n; m++)
        for (size_t i = 0; i < K; i++) {
            double sum = 0.0;
            for (size_t j = 0; j < n; j++)
                sum += (double)s->q[m * STRIDE + j] * s->rows[j * STRIDE + i];
            right = right && near(sum, y[m * K + i]);
        }
    return right;
}

int attention_check(const struct kernels *kernels, struct error *err)
{
    static const size_t widths[] = { 1, 8, 17, 64, WIDTH_MAX };
    struct sample s;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t count = 1; count <= COUNT_MAX; count++) {
            fill_sample(&s, count);
            struct float_rows rows = { s.rows, STRIDE, s.path, count, widths[i], s.rows };
            bool right = query_is_right(kernels, &s, &rows);
            rows.path = NULL;
            right = right && query_is_right(kernels, &s, &rows) && row_is_right(kernels, &s, &rows);
            if (!right)
                return error_set(err, ERR_INTERNAL,
                                 "self-check: attention of kernel set \"%s\" is wrong for %zu rows "
                                 "of %zu",
                                 kernels->isa, count, widths[i]);
        }
    return 0;
}
