/* panel_products.h — the body of every kernel set's gemm over floating weights.
 *
 * A file that includes it defines before, beside a vec_*.h:
 *   WIDE_ROWS             rows of x in a tile of a whole panel
 *   TILE_ROWS, TILE_VECS  rows of x and vectors of columns in the tile of larger batches;
 *                         PANEL_COLUMNS is a multiple of TILE_VECS · LANES
 *   TURN_GROUPS           groups of places of k in a turn of a tile's loop.  A core that runs
 *                         another thread beside begins fewer instructions, so a loop should have
 *                         few but the products; 1: no turns
 *   tile_fma(a, b, sum)   vec_fma() as the tile wants it written
 *   scalar_fma(a, b, sum) one lane of it
 *
 * Order of summation: y[m][n] = fma(x[k], w[n][k], …) for k = 0, 1, … K−1 from 0, then the bias.
 * Every tile, chunk and layout keeps it, so an element's bits do not depend on who computes it.
 *
 * Few rows: one pass over the weights as they lie, memory read ahead of it.  Many rows: chunks of k
 * that stay in the L1 cache while all rows pass by; unfinished sums wait.  Weights in rows are
 * packed chunk by chunk first. */

#include "tile_columns.h"

enum {
    CHUNK = 128, /* places of k */
    PANEL_VECS = PANEL_COLUMNS / LANES,
    STEP_VECS = PANEL_STEP / LANES,
    TURN_LINES = 4 /* to read ahead in a turn, if there are not few rows */
};

/* A tile's place: `rows` of x by vectors of columns, places first … end of k. */
struct tile {
    const float *x;    /* the tile's rows, as arranged */
    const char *w;     /* the weights at k = 0 */
    size_t w_stride;   /* bytes from group to group */
    size_t first, end; /* of k; `first` is a multiple of the group */
    const float *sums; /* of the places before, (…, PANEL_COLUMNS); NULL: there are none */
    float *y;
    size_t y_stride;
    const float *bias; /* NULL: none, or not yet */
    const char *ahead; /* what to read ahead, and how many bytes of it at each group of k */
    size_t ahead_step;
};

/* The columns' weights at place k; of a group of two, `w` holds both. */
static inline __attribute__((always_inline)) vec weights_at(const char *w, size_t j,
                                                            enum dtype dtype, bool odd)
{
    if (dtype == DTYPE_F32)
        return vec_load((const float *)(const void *)w + j * LANES);
    if (dtype == DTYPE_F16)
        return vec_load_f16((const uint16_t *)(const void *)w + j * LANES);
    const uint32_t *pairs = (const uint32_t *)(const void *)w + j * LANES;
    return odd ? vec_load_high(pairs) : vec_load_low(pairs);
}

typedef vec float_sums[TILE_ROWS][PANEL_VECS];

/* One place of k for MR rows and NV vectors of columns. */
static inline __attribute__((always_inline)) void add_place(const float *x, const char *w,
                                                            enum dtype dtype, bool odd,
                                                            const size_t MR, const size_t NV,
                                                            float_sums sums)
{
    vec weights[PANEL_VECS];
    UNROLLED (j, NV)
        weights[j] = weights_at(w, j, dtype, odd);
    UNROLLED (i, MR) {
        const vec value = vec_set(x[i]);
        UNROLLED (j, NV)
            sums[i][j] = tile_fma(value, weights[j], sums[i][j]);
    }
}

/* Where a tile stands. */
struct place {
    const float *x;
    const char *w, *ahead;
    size_t left; /* groups of k */
};

/* `groups` groups at once as long as there are so many left; `lines` lines are read ahead. */
static inline __attribute__((always_inline)) void
take_turns(const struct tile *t, enum dtype dtype, const size_t MR, const size_t NV,
           const size_t groups, const size_t lines, struct place *at, float_sums sums)
{
    const size_t group = panel_group(dtype);
    /* Only narrower panels have tiles of STEP_VECS; else a constant, so that a turn adds up no
     * addresses. */
    const size_t w_stride =
        NV == STEP_VECS ? t->w_stride : PANEL_COLUMNS * group * dtype_bytes(dtype);
    for (; at->left >= groups; at->left -= groups) {
        UNROLLED (i, groups) {
            for (size_t line = i * lines / groups; line < (i + 1) * lines / groups; line++)
                __builtin_prefetch(at->ahead + line * LINE_BYTES);
            const float *x = at->x + i * group * MR;
            add_place(x, at->w + i * w_stride, dtype, false, MR, NV, sums);
            if (group == 2)
                add_place(x + MR, at->w + i * w_stride, dtype, true, MR, NV, sums);
        }
        at->x += groups * group * MR;
        at->w += groups * w_stride;
        at->ahead += groups * t->ahead_step;
    }
}

static inline __attribute__((always_inline)) void add_places(const struct tile *t, enum dtype dtype,
                                                             const size_t MR, const size_t NV,
                                                             float_sums sums)
{
    const size_t group = panel_group(dtype), bytes = NV * LANES * group * dtype_bytes(dtype);
    const size_t lines = (bytes + LINE_BYTES - 1) / LINE_BYTES;
    struct place at = { .x = t->x + t->first * MR,
                        .w = t->w + t->first / group * t->w_stride,
                        .ahead = t->ahead,
                        .left = (t->end - t->first) / group };
    if (TURN_GROUPS > 1 && NV <= TILE_VECS) {
        if (t->ahead_step * TURN_GROUPS <= TURN_LINES * LINE_BYTES)
            take_turns(t, dtype, MR, NV, TURN_GROUPS, TURN_LINES, &at, sums);
        take_turns(t, dtype, MR, NV, TURN_GROUPS, TURN_GROUPS * lines, &at, sums);
    }
    take_turns(t, dtype, MR, NV, 1, lines, &at, sums);
    if ((t->end - t->first) % group) /* half a group */
        add_place(at.x, at.w, dtype, false, MR, NV, sums);
}

static inline __attribute__((always_inline)) void tile(const struct tile *t, enum dtype dtype,
                                                       const size_t MR, const size_t NV)
{
    float_sums sums;
    UNROLLED (i, MR)
        UNROLLED (j, NV)
            sums[i][j] = t->sums ? vec_load(t->sums + i * PANEL_COLUMNS + j * LANES) : vec_zero();
    fetch_outputs(t->y, t->y_stride, MR, NV * LANES);
    add_places(t, dtype, MR, NV, sums);
    if (t->bias)
        UNROLLED (i, MR)
            UNROLLED (j, NV)
                sums[i][j] = vec_add(sums[i][j], vec_load(t->bias + j * LANES));
    UNROLLED (i, MR)
        UNROLLED (j, NV)
            vec_store(t->y + i * t->y_stride + j * LANES, sums[i][j]);
}

/* Functions of their own: inlined together they would push each other's sums out of the registers.
 */
#define TILE(dtype, MR, NV)                                                                        \
    static __attribute__((noinline)) void tile_##dtype##_##MR##_##NV(const struct tile *t)         \
    {                                                                                              \
        tile(t, DTYPE_##dtype, MR, NV);                                                            \
    }
#define TILES(MR, NV) TILE(F32, MR, NV) TILE(F16, MR, NV) TILE(BF16, MR, NV)
TILE_SHAPES(TILES)

/* By dtype, rows and vectors; NULL: no such tile. */
static void (*const tiles[DTYPE_I8][TILE_ROWS + 1][PANEL_VECS + 1])(const struct tile *t) = {
#define TILE_ENTRIES(MR, NV)                                                                       \
    [DTYPE_F32][MR][NV] = tile_F32_##MR##_##NV, [DTYPE_F16][MR][NV] = tile_F16_##MR##_##NV,        \
    [DTYPE_BF16][MR][NV] = tile_BF16_##MR##_##NV,
    TILE_SHAPES(TILE_ENTRIES)
};

/* All M rows through one panel of `width` columns, places t->first … end of k.  The `ahead_bytes`
 * at t->ahead are read meanwhile, each tile its share, so that memory is never idle. */
static void panel_product(const struct tile *t, size_t M, size_t K, size_t width, enum dtype dtype,
                          size_t ahead_bytes)
{
    const bool whole = width == PANEL_COLUMNS;
    const size_t column_bytes = t->w_stride / width;
    const size_t vecs = !whole ? STEP_VECS : M <= WIDE_ROWS ? PANEL_VECS : TILE_VECS;
    const size_t tile_count = (M + TILE_ROWS - 1) / TILE_ROWS * (width / (vecs * LANES));
    const size_t share = ahead_bytes / tile_count;
    struct tile part = *t;
    part.ahead_step = share / (t->end - t->first + 1) * panel_group(dtype) + 1;
    for (size_t column = 0; column < width; column += vecs * LANES) {
        part.x = t->x;
        part.w = t->w + column * column_bytes;
        part.sums = t->sums ? t->sums + column : NULL;
        part.y = t->y + column;
        part.bias = t->bias ? t->bias + column : NULL;
        for (size_t m = 0; m < M;) {
            const size_t rows = tile_rows(M - m, TILE_ROWS);
            tiles[dtype][rows][vecs](&part);
            part.ahead += share;
            part.x += rows * K;
            if (part.sums)
                part.sums += rows * PANEL_COLUMNS;
            part.y += rows * part.y_stride;
            m += rows;
        }
    }
}

/* Columns `n` … of one panel for a block of rows.  Unfinished sums wait by themselves: rows of y
 * are so far apart that they would push each other out of the caches. */
static void gemm_panel(const struct gemm *g, size_t m, size_t M, size_t n)
{
    const struct matrix *w = &g->w;
    const size_t K = w->columns, width = panel_width(w->rows, n);
    const size_t columns = w->rows - n < width ? w->rows - n : width;
    const bool packed = w->layout == LAYOUT_PANELS;
    const bool whole = packed && M <= WIDE_ROWS;
    const size_t chunk = whole ? K : CHUNK;
    _Alignas(64) float scratch[PANEL_COLUMNS * CHUNK], sums[X_BLOCK_ROWS * PANEL_COLUMNS];
    float *const y = g->y + m * g->y_stride + n, bias[PANEL_COLUMNS] = { 0 };
    struct tile t = { .x = (const float *)g->x + m * K, .y = sums, .y_stride = PANEL_COLUMNS };
    if (g->bias)
        memcpy(bias, g->bias + n, columns * sizeof *bias);
    for (size_t k = 0; k < K; k += chunk) {
        t.first = k;
        t.end = K - k < chunk ? K : k + chunk;
        t.sums = k == 0 ? NULL : sums;
        t.bias = g->bias && t.end == K ? bias : NULL;
        if (t.end == K && columns == width) {
            t.y = y;
            t.y_stride = g->y_stride;
        }
        if (packed) {
            const size_t bytes = panel_offset(w->dtype, t.end - k, width);
            t.w_stride = width * panel_group(w->dtype) * dtype_bytes(w->dtype);
            t.w = (const char *)w->data + panel_offset(w->dtype, K, n);
            t.ahead = t.w + panel_offset(w->dtype, k, width) + (whole ? AHEAD_BYTES : bytes);
            panel_product(&t, M, K, width, w->dtype, bytes);
        } else {
            pack_chunk(w, n, width, k, t.end - k, scratch);
            t.w_stride = width * sizeof(float);
            t.w = (const char *)scratch - k * t.w_stride;
            t.ahead = (const char *)scratch;
            panel_product(&t, M, K, width, DTYPE_F32, 0);
        }
    }
    for (size_t i = 0; columns < width && i < M; i++)
        memcpy(y + i * g->y_stride, sums + i * PANEL_COLUMNS, columns * sizeof *y);
}

static void gemm_floats(const struct gemm *g)
{
    for (size_t m = 0; m < g->M; m += X_BLOCK_ROWS) {
        const size_t rows = g->M - m < X_BLOCK_ROWS ? g->M - m : X_BLOCK_ROWS;
        for (size_t n = g->first; n < g->end; n += PANEL_COLUMNS)
            gemm_panel(g, m, rows, n);
    }
}

/* Tile after tile; within a tile k after k, of each the rows. */
static void prepare_floats(const float *x, size_t M, size_t K, void *prepared, size_t part,
                           size_t parts)
{
    for (size_t m = 0, rows, tile = 0; m < M; m += rows, tile++) {
        const float *from = x + m * K;
        float *out = (float *)prepared + m * K;
        rows = tile_rows(block_left(m, M), TILE_ROWS);
        if (tile % parts != part)
            continue;
        if (rows == TILE_ROWS)
            for (size_t k = 0; k < K; k++)
                for (size_t i = 0; i < TILE_ROWS; i++)
                    out[k * TILE_ROWS + i] = from[i * K + k];
        else
            for (size_t k = 0; k < K; k++)
                for (size_t i = 0; i < rows; i++)
                    out[k * rows + i] = from[i * K + k];
    }
}

/* Several sums at once, since each waits for its last product. */
static void some_columns(const float *x, const struct matrix *w, const float *bias,
                         const int32_t *ids, size_t count, float *y)
{
    enum { SUMS = 8 };
    const size_t K = w->columns, row_bytes = K * dtype_bytes(w->dtype);
    for (size_t i = 0; i < count; i += SUMS) {
        const size_t n = count - i < SUMS ? count - i : SUMS;
        const char *rows[SUMS];
        float sums[SUMS] = { 0 };
        for (size_t j = 0; j < SUMS; j++)
            rows[j] = (const char *)w->data + (size_t)ids[j < n ? i + j : i] * row_bytes;
        for (size_t k = 0; k < K; k++)
            for (size_t j = 0; j < SUMS; j++)
                sums[j] = scalar_fma(x[k], stored_to_float(rows[j], w->dtype, k), sums[j]);
        for (size_t j = 0; j < n; j++)
            y[i + j] = bias ? sums[j] + bias[ids[i + j]] : sums[j];
    }
}

static void fill_floats(struct kernels *kernels)
{
    kernels->some_columns = some_columns;
    kernels->products[PRODUCT_ROWS] = (struct product){ prepare_floats, gemm_floats };
    kernels->products[PRODUCT_PANELS] = (struct product){ prepare_floats, gemm_floats };
}
