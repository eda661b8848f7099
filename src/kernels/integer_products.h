/* integer_products.h — the body of every kernel set's gemm over int8 panels.
 *
 * A file that includes it defines before, beside a vec_*.h:
 *   INT_ROWS            rows of x in a tile, at most
 *   INT_COLUMNS         columns of a vector of sums
 *   INT_STEP_VECS       vectors of a tile of the panel that is narrower; divides PANEL_STEP
 *   INT_OFFSET          added to quantized elements of x
 *   INTEGER_TILES(T)    T(rows, vectors) for every tile
 *   integer_vecs(M)     vectors of the tiles that M rows of a whole panel go through
 *   int_element         an element of quantized x
 *   ints, int_weights, int_places
 *                       vectors of sums, of weights of INT_COLUMNS columns at four places of k, and
 *                       of one row of x at the same places
 *   ints_zero(), ints_weights(p), ints_broadcast(x)
 *   ints_add(sums, weights, x)
 *   ints_columns(sums, NV, out)  (NV · INT_COLUMNS) sums in the order of the columns
 * and if ints_add() is right only while neighbours in x, places 2i and 2i+1, add up to no more:
 *   INT_PAIR_MOST       no more than this, up or down; at least 127
 *   INT_W_OFFSET        added to elements of w by ints_weights()
 *   groups_exceeding(places)  of 32 places: a bit of 4g … 4g+3 is set if a pair of group g adds up
 *                       to more
 *
 * y = (float)sum · (scale of x · scale of w) + bias; the sum is exact in 32 bits, so every kernel
 * set gives the same bits. */

#include <float.h>
#include <math.h>

#include "tile_columns.h"

#ifndef INT_PAIR_MOST
#define INT_PAIR_MOST 254
enum { INT_W_OFFSET = 0 };

static inline uint32_t groups_exceeding(const int_element *places)
{
    (void)places;
    return 0;
}
#endif
/* A constant: what follows costs nothing where there is no bound. */
enum { PAIRS_BOUNDED = INT_PAIR_MOST < 2 * 127 };

/* Prepared rows: the tables, then tile after tile; within a tile by groups of four places of k, of
 * each group the rows; then the excess. */
struct integer_rows {
    float *scales;
    int_element *elements;
    size_t K; /* filled up to the group */

    int32_t *sums; /* of the elements, nothing taken; if there is an INT_W_OFFSET */
    uint32_t *excess_counts;
    struct excess *excess; /* room for K / 4 of each row, those of a tile have no gaps; or NULL */
};

/* What was taken from a group of a row, so that neighbours add up to no more than INT_PAIR_MOST; it
 * is multiplied by the same weights. */
struct excess {
    uint32_t group;
    int_element places[4];
};
_Static_assert(!PAIRS_BOUNDED ||
                   4 * sizeof(int_element) + sizeof(struct excess) <= 4 * sizeof(float),
               "prepared_bytes() has room for both");

static inline struct integer_rows integer_rows(void *prepared, size_t M, size_t K)
{
    const size_t table = (M + 15) / 16 * 16;
    float *scales = prepared;
    int_element *elements = (int_element *)(void *)(scales + PREPARED_TABLES * table);
    const size_t groups = (K + 3) / 4;
    return (struct integer_rows){
        .scales = scales,
        .elements = elements,
        .K = groups * 4,
        .sums = (int32_t *)(void *)(scales + table),
        .excess_counts = (uint32_t *)(void *)(scales + 2 * table),
        .excess = PAIRS_BOUNDED ? (struct excess *)(void *)(elements + M * groups * 4) : NULL,
    };
}

struct integer_tile {
    const int_element *x;
    const float *x_scales;
    const int8_t *w;
    size_t w_stride; /* bytes from group to group */
    size_t groups;
    float *y;
    size_t y_stride;
    size_t columns; /* to store, at most */
    const float *w_scales, *bias;
    const int32_t *w_sums;
    const int32_t *x_sums;
    const struct excess *excess;
    const uint32_t *excess_counts;
    const char *ahead; /* what to read ahead, and how many bytes of it at each group */
    size_t ahead_step;
};

/* y = sums · (x_scale · w_scale) + bias of row `row`: the first t->columns of `count` columns. */
static inline void integer_row(const struct integer_tile *t, int32_t *sums, size_t count,
                               size_t row)
{
    float *y = t->y + row * t->y_stride;
    for (size_t i = 0; INT_OFFSET != 0 && i < count; i++)
        sums[i] = (int32_t)((uint32_t)sums[i] - INT_OFFSET * (uint32_t)t->w_sums[i]);
    for (size_t i = 0; INT_W_OFFSET != 0 && i < count; i++)
        sums[i] = (int32_t)((uint32_t)sums[i] - INT_W_OFFSET * (uint32_t)t->x_sums[row]);
    const vec scale = vec_set(t->x_scales[row]);
    for (size_t j = 0; j * LANES < count; j++) {
        const vec factor = vec_mul(scale, vec_load(t->w_scales + j * LANES));
        vec value = vec_mul(vec_from_ints(sums + j * LANES), factor);
        if (t->bias)
            value = vec_add(value, load_columns(t->bias, j, t->columns));
        store_columns(y, j, t->columns, value);
    }
}

typedef ints tile_sums[INT_ROWS][PANEL_COLUMNS / INT_COLUMNS];

static inline __attribute__((always_inline)) void
add_groups(const struct integer_tile *t, const size_t MR, const size_t NV, tile_sums sums)
{
    const int8_t *w = t->w;
    const int_element *x = t->x;
    const char *ahead = t->ahead;
    const size_t ahead_step = t->ahead_step, w_stride = t->w_stride;
    for (size_t left = t->groups; left > 0; left--) {
        int_weights weights[PANEL_COLUMNS / INT_COLUMNS];
        for (size_t line = 0; line < NV * INT_COLUMNS * 4; line += LINE_BYTES)
            __builtin_prefetch(ahead + line);
        for (size_t j = 0; j < NV; j++)
            weights[j] = ints_weights(w + j * INT_COLUMNS * 4);
        for (size_t i = 0; i < MR; i++) {
            const int_places value = ints_broadcast(x + i * 4);
            for (size_t j = 0; j < NV; j++)
                sums[i][j] = ints_add(sums[i][j], weights[j], value);
        }
        ahead += ahead_step;
        w += w_stride;
        x += MR * 4;
    }
}

/* To the sums of row i (NV), whose excess begins at `excess`; returns its end. */
static inline __attribute__((always_inline)) const struct excess *
add_excess(const struct integer_tile *t, size_t i, const struct excess *excess, const size_t NV,
           ints *sums)
{
    const struct excess *const end = excess + t->excess_counts[i];
    for (; excess < end; excess++) {
        const int8_t *w = t->w + excess->group * t->w_stride;
        const int_places value = ints_broadcast(excess->places);
        for (size_t j = 0; j < NV; j++)
            sums[j] = ints_add(sums[j], ints_weights(w + j * INT_COLUMNS * 4), value);
    }
    return end;
}

static inline __attribute__((always_inline)) void integer_tile(const struct integer_tile *t,
                                                               const size_t MR, const size_t NV)
{
    tile_sums sums;
    const struct excess *excess = t->excess;
    for (size_t i = 0; i < MR; i++)
        for (size_t j = 0; j < NV; j++)
            sums[i][j] = ints_zero();
    fetch_outputs(t->y, t->y_stride, MR, NV * INT_COLUMNS);
    add_groups(t, MR, NV, sums);
    for (size_t i = 0; i < MR; i++) {
        int32_t columns[PANEL_COLUMNS];
        if (PAIRS_BOUNDED)
            excess = add_excess(t, i, excess, NV, sums[i]);
        ints_columns(sums[i], NV, columns);
        integer_row(t, columns, NV * INT_COLUMNS, i);
    }
}

#define INTEGER_TILE(MR, NV)                                                                       \
    static __attribute__((noinline)) void integer_tile_##MR##_##NV(const struct integer_tile *t)   \
    {                                                                                              \
        integer_tile(t, MR, NV);                                                                   \
    }
INTEGER_TILES(INTEGER_TILE)

/* By rows and vectors; NULL: no such tile. */
static void (*const integer_tiles[INT_ROWS + 1][PANEL_COLUMNS / INT_COLUMNS + 1])(
    const struct integer_tile *t) = {
#define INTEGER_TILE_ENTRY(MR, NV) [MR][NV] = integer_tile_##MR##_##NV,
    INTEGER_TILES(INTEGER_TILE_ENTRY)
};

/* Rows m … m+M−1 of x and one panel. */
static void integer_panel(const struct gemm *g, const struct integer_rows *rows, size_t first,
                          size_t M, size_t n)
{
    const size_t width = panel_width(g->w.rows, n);
    const size_t vecs = width == PANEL_COLUMNS ? integer_vecs(M) : INT_STEP_VECS;
    const size_t columns = vecs * INT_COLUMNS, bytes = width * rows->K;
    const size_t tile_count = (M + INT_ROWS - 1) / INT_ROWS * (width / columns);
    const size_t share = bytes / tile_count;
    const int8_t *w = (const int8_t *)g->w.data + panel_offset(DTYPE_I8, g->w.columns, n);
    struct integer_tile t = { .w_stride = width * 4,
                              .groups = rows->K / 4,
                              .y_stride = g->y_stride,
                              .ahead = (const char *)w + (tile_count > 1 ? bytes : AHEAD_BYTES),
                              .ahead_step = share / (rows->K / 4 + 1) + 1 };
    for (size_t column = 0; column < width && n + column < g->w.rows; column += columns) {
        t.w = w + column * 4;
        t.w_scales = panel_scales(&g->w, n) + column;
        t.w_sums = panel_sums(&g->w, n) + column;
        t.bias = g->bias ? g->bias + n + column : NULL;
        t.columns = g->w.rows - n - column;
        for (size_t m = first; m < first + M;) {
            const size_t count = tile_rows(first + M - m, INT_ROWS);
            t.x = rows->elements + m * rows->K;
            t.x_scales = rows->scales + m;
            t.x_sums = rows->sums + m;
            t.excess = PAIRS_BOUNDED ? rows->excess + m * t.groups : NULL;
            t.excess_counts = rows->excess_counts + m;
            t.y = g->y + m * g->y_stride + n + column;
            integer_tiles[count][vecs](&t);
            t.ahead += share;
            m += count;
        }
    }
}

static void gemm_integers(const struct gemm *g)
{
    const struct integer_rows rows = integer_rows((void *)(uintptr_t)g->x, g->M, g->w.columns);
    for (size_t m = 0; m < g->M; m += X_BLOCK_ROWS)
        for (size_t n = g->first; n < g->end; n += PANEL_COLUMNS)
            integer_panel(g, &rows, m, block_left(m, g->M), n);
}

static float row_inverse(const float *x, size_t K, float *scale)
{
    enum { AT_ONCE = 4 }; /* each waits for its last sum */
    vec sizes[AT_ONCE], wrong[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++)
        sizes[i] = wrong[i] = vec_zero();
    for (size_t k = 0; k < K; k += AT_ONCE * LANES) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            const vec v = load_columns(x + k, i, K - k);
            sizes[i] = vec_max(sizes[i], vec_copysign(v, vec_zero()));
            wrong[i] = vec_fma(v, vec_zero(), wrong[i]); /* NaN as soon as one is not finite */
        }
    }
    for (size_t i = 1; i < AT_ONCE; i++) {
        sizes[0] = vec_max(sizes[0], sizes[i]);
        wrong[0] = vec_add(wrong[0], wrong[i]);
    }
    const float largest = vec_largest(sizes[0]);
    const bool finite = vec_sum(wrong[0]) == 0.0f;
    *scale = finite ? largest / 127.0f : NAN;
    return finite ? integer_inverse(largest) : 0.0f;
}

/* round(x · inverse), ties to even; |x · inverse| < 2²².  An inverse of 0 is for what is zero, or
 * not finite and must not be touched. */
static void quantize(const float *x, size_t count, float inverse, int_element *out)
{
    const float magic = 12582912.0f; /* 1.5 · 2²³: adding it leaves no room for a fraction */
    if (inverse == 0.0f) {
        for (size_t i = 0; i < count; i++)
            out[i] = INT_OFFSET;
        return;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = (int_element)((int32_t)((x[i] * inverse + magic) - magic) + INT_OFFSET);
}

/* Takes from the places of a group what is too much. */
static void take_excess(int_element *places, int_element *taken)
{
    for (size_t i = 0; i < 4; i += 2) {
        const int sum = places[i] + places[i + 1];
        /* Of one sign and at most 127 each, so the first is no less than what is taken. */
        const int excess = sum > INT_PAIR_MOST    ? sum - INT_PAIR_MOST
                           : sum < -INT_PAIR_MOST ? sum + INT_PAIR_MOST
                                                  : 0;
        places[i] = (int_element)(places[i] - excess);
        taken[i] = (int_element)excess;
        taken[i + 1] = 0;
    }
}

/* Row `m` of all, row i of a tile of `count` rows, to the elements from `to` on.  Returns the end
 * of its excess. */
static struct excess *prepare_row(const float *x, size_t K, const struct integer_rows *all,
                                  size_t m, size_t count, int_element *to, struct excess *excess)
{
    enum { PIECE = 256, STEP = 32 };
    const float inverse = row_inverse(x, K, &all->scales[m]);
    const struct excess *const first = excess;
    int32_t sum = 0;
    for (size_t k = 0; k < K; k += PIECE) {
        const size_t n = K - k < PIECE ? K - k : PIECE;
        int_element piece[PIECE];
        quantize(x + k, n, inverse, piece);
        for (size_t j = n; j % STEP != 0; j++)
            piece[j] = INT_OFFSET;
        for (size_t j = 0; INT_W_OFFSET != 0 && j < n; j++)
            sum += piece[j];
        for (size_t j = 0; PAIRS_BOUNDED && j < n; j += STEP) {
            for (uint32_t bits = groups_exceeding(piece + j); bits != 0; excess++) {
                const unsigned group = (unsigned)__builtin_ctz(bits) / 4;
                excess->group = (uint32_t)(k + j) / 4 + group;
                take_excess(piece + j + group * 4, excess->places);
                bits &= ~(15u << group * 4);
            }
        }
        for (size_t j = 0; j < n; j += 4, to += count * 4)
            memcpy(to, piece + j, 4 * sizeof *to);
    }
    all->sums[m] = sum;
    all->excess_counts[m] = PAIRS_BOUNDED ? (uint32_t)(excess - first) : 0;
    return excess;
}

static void prepare_integers(const float *x, size_t M, size_t K, void *out, size_t part,
                             size_t parts)
{
    const struct integer_rows all = integer_rows(out, M, K);
    for (size_t m = 0, rows, tile = 0; m < M; m += rows, tile++) {
        struct excess *excess = PAIRS_BOUNDED ? all.excess + m * all.K / 4 : NULL;
        rows = tile_rows(block_left(m, M), INT_ROWS);
        for (size_t i = 0; i < rows && tile % parts == part; i++)
            excess = prepare_row(x + (m + i) * K, K, &all, m + i, rows,
                                 all.elements + m * all.K + i * 4, excess);
    }
}

static void fill_integers(struct kernels *kernels)
{
    kernels->products[PRODUCT_INT8] = (struct product){ prepare_integers, gemm_integers };
}
