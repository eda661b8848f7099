/* attention_loops.h — the body of every kernel set: what attention computes between projections.
 *
 * A file that includes it defines before, beside a vec_*.h:
 *   STRIP_ROWS, STRIP_VECS  rows of x and vectors of columns in a tile, at most; STRIP_VECS vectors
 *                           are one strip or some
 *   STRIP_TILES(T)          T(rows, vectors) for every tile: all numbers of rows, STRIP_VECS
 *                           vectors, and those of one strip if that is less
 *   pack_chunk()            as in pack_chunk_avx2.h
 *
 * Order of summation: a score is the sum of vectors along the width, then of their lanes, as in
 * vec_sum(); what is summed over keys, and an element of a product, is fma(a, b, …) one after
 * another from 0.  So bits depend on neither neighbours nor blocks, and a path gives the bits of
 * contiguous rows. */

static inline const float *row_at(const struct float_rows *rows, size_t j)
{
    return rows->data + (rows->path ? (size_t)rows->path[j] : j) * rows->stride;
}

/* Row j of what is read next. */
static inline void read_ahead(const struct float_rows *rows, size_t j)
{
    if (!rows->ahead)
        return;
    const float *row = rows->ahead + (rows->path ? (size_t)rows->path[j] : j) * rows->stride;
    for (size_t i = 0; i < rows->width; i += LINE_BYTES / sizeof *row)
        __builtin_prefetch(row + i);
}

/* Eight keys at a time: a single one would wait for its own sums.  What the last eight lack is
 * computed twice and dropped. */
static void scores(const struct float_rows *keys, const float *q, float scale, float *out)
{
    const size_t n = keys->width, whole = n / LANES * LANES;
    for (size_t j = 0; j < keys->count; j += 8) {
        const size_t count = keys->count - j < 8 ? keys->count - j : 8;
        const float *k[8];
        vec sums[8];
        float eight[8];
        for (size_t i = 0; i < 8; i++) {
            k[i] = row_at(keys, j + (i < count ? i : count - 1));
            sums[i] = vec_zero();
        }
        for (size_t i = 0; i < count; i++)
            read_ahead(keys, j + i);
        for (size_t c = 0; c < whole; c += LANES) {
            const vec x = vec_load(q + c);
            for (size_t i = 0; i < 8; i++)
                sums[i] = vec_fma(x, vec_load(k[i] + c), sums[i]);
        }
        if (whole < n) {
            const vec x = vec_load_part(q + whole, n - whole);
            UNROLLED (i, 8)
                sums[i] = vec_fma(x, vec_load_part(k[i] + whole, n - whole), sums[i]);
        }
        vec_sums(sums, eight);
        for (size_t i = 0; i < count; i++)
            out[j + i] = scale * eight[i];
    }
}

/* NV vectors of columns stay in registers while all rows pass by. */
static inline __attribute__((always_inline)) void mix_columns(const struct float_rows *values,
                                                              const float *weights, size_t first,
                                                              const size_t NV, float *out)
{
    vec sums[8];
    for (size_t i = 0; i < NV; i++)
        sums[i] = vec_zero();
    for (size_t j = 0; j < values->count; j++) {
        const float *v = row_at(values, j) + first;
        const vec weight = vec_set(weights[j]);
        if (first == 0)
            read_ahead(values, j);
        for (size_t i = 0; i < NV; i++)
            sums[i] = vec_fma(weight, vec_load(v + i * LANES), sums[i]);
    }
    for (size_t i = 0; i < NV; i++)
        vec_store(out + first + i * LANES, sums[i]);
}

/* The columns that are left, less than a vector. */
static void mix_part(const struct float_rows *values, const float *weights, size_t first,
                     float *out)
{
    const size_t n = values->width - first;
    vec sum = vec_zero();
    for (size_t j = 0; j < values->count; j++)
        sum = vec_fma(vec_set(weights[j]), vec_load_part(row_at(values, j) + first, n), sum);
    vec_store_part(out + first, n, sum);
}

static void mix(const struct float_rows *values, const float *weights, float *out)
{
    const size_t n = values->width;
    size_t first = 0;
    for (; first + 8 * LANES <= n; first += 8 * LANES)
        mix_columns(values, weights, first, 8, out);
    for (; first + 4 * LANES <= n; first += 4 * LANES)
        mix_columns(values, weights, first, 4, out);
    for (; first + LANES <= n; first += LANES)
        mix_columns(values, weights, first, 1, out);
    if (first < n)
        mix_part(values, weights, first, out);
}

static void pack_keys(const struct float_rows *keys, float *strips)
{
    const struct matrix w = { keys->data, DTYPE_F32, keys->count, keys->stride, LAYOUT_ROWS };
    for (size_t n = 0; n < keys->count; n += STRIP_COLUMNS)
        pack_chunk(&w, n, STRIP_COLUMNS, 0, keys->width, strips + n * keys->width);
}

static void pack_values(const struct float_rows *values, float *strips)
{
    for (size_t n = 0; n < values->width; n += STRIP_COLUMNS) {
        const size_t left = values->width - n;
        const size_t width = left < STRIP_COLUMNS ? left : STRIP_COLUMNS;
        for (size_t j = 0; j < values->count; j++, strips += STRIP_COLUMNS) {
            const float *from = values->data + j * values->stride + n;
            if (width == STRIP_COLUMNS) {
                memcpy(strips, from, STRIP_COLUMNS * sizeof *strips);
                continue;
            }
            memset(strips, 0, STRIP_COLUMNS * sizeof *strips);
            memcpy(strips, from, width * sizeof *strips);
        }
    }
}

/* A tile's place: its rows of x, its strips, its elements of y, of which `columns` are there. */
struct strip_tile {
    const float *x, *strips;
    float *y;
    size_t columns;
};

static inline __attribute__((always_inline)) void
strip_tile(const struct strip_product *p, struct strip_tile t, const size_t MR, const size_t NV)
{
    vec sums[STRIP_ROWS][STRIP_VECS];
    const size_t x_stride = p->x_stride, K = p->K;
    for (size_t i = 0; i < MR; i++)
        for (size_t j = 0; j < NV; j++)
            sums[i][j] = vec_zero();
    for (size_t k = 0; k < K; k++, t.x++, t.strips += STRIP_COLUMNS) {
        vec columns[STRIP_VECS];
        for (size_t j = 0; j < NV; j++)
            columns[j] = vec_load(t.strips + j * LANES / STRIP_COLUMNS * STRIP_COLUMNS * K +
                                  j * LANES % STRIP_COLUMNS);
        for (size_t i = 0; i < MR; i++) {
            const vec value = vec_set(t.x[i * x_stride]);
            for (size_t j = 0; j < NV; j++)
                sums[i][j] = vec_fma(value, columns[j], sums[i][j]);
        }
    }
    float rest[STRIP_ROWS * STRIP_VECS * LANES], *y = t.y;
    const bool whole = t.columns >= NV * LANES;
    const size_t y_stride = whole ? p->y_stride : NV * LANES;
    if (!whole)
        y = rest;
    UNROLLED (i, MR)
        for (size_t j = 0; j < NV; j++)
            vec_store(y + i * y_stride + j * LANES, sums[i][j]);
    for (size_t i = 0; i < MR && !whole; i++)
        memcpy(t.y + i * p->y_stride, rest + i * NV * LANES, t.columns * sizeof *y);
}

#define STRIP_TILE(MR, NV)                                                                         \
    static __attribute__((noinline)) void strip_tile_##MR##_##NV(const struct strip_product *p,    \
                                                                 const struct strip_tile *t)       \
    {                                                                                              \
        strip_tile(p, *t, MR, NV);                                                                 \
    }
STRIP_TILES(STRIP_TILE)

/* By rows and vectors; NULL: no such tile. */
static void (*const strip_tiles[STRIP_ROWS + 1][STRIP_VECS + 1])(const struct strip_product *p,
                                                                 const struct strip_tile *t) = {
#define STRIP_TILE_ENTRY(MR, NV) [MR][NV] = strip_tile_##MR##_##NV,
    STRIP_TILES(STRIP_TILE_ENTRY)
};

/* A tile's strips stay in the L1 cache while the rows of x pass by. */
static void multiply(const struct strip_product *p)
{
    const size_t wide = STRIP_VECS * LANES;
    for (size_t n = 0; n < p->N; n += wide) {
        const size_t left = p->N - n;
        const size_t vecs =
            left <= STRIP_COLUMNS && wide > STRIP_COLUMNS ? STRIP_COLUMNS / LANES : STRIP_VECS;
        for (size_t m = 0; m < p->M; m += STRIP_ROWS) {
            const size_t rows = p->M - m < STRIP_ROWS ? p->M - m : STRIP_ROWS;
            const struct strip_tile t = { .x = p->x + m * p->x_stride,
                                          .strips = p->strips + n * p->K,
                                          .y = p->y + m * p->y_stride + n,
                                          .columns = left };
            strip_tiles[rows][vecs](p, &t);
        }
    }
}

static void fill_attention(struct kernels *kernels)
{
    kernels->scores = scores;
    kernels->mix = mix;
    kernels->pack_keys = pack_keys;
    kernels->pack_values = pack_values;
    kernels->multiply = multiply;
}
