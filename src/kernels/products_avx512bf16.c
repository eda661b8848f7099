/* Panels of bfloat16 for the set "avx512" where the CPU multiplies two pairs of them and adds at
 * once.  An element has one sum, to which the pairs of places are added in their order. */
#if defined(__x86_64__)
#include "vec_avx512.h"

#include "tile_columns.h"

/* Eight rows by the three vectors of a panel: 24 sums of 32 registers. */
enum { TILE_ROWS = 8, PANEL_VECS = PANEL_COLUMNS / LANES, STEP_VECS = PANEL_STEP / LANES };

struct tile {
    const uint16_t *x; /* the tile's rows, as prepared */
    const char *w;
    size_t w_stride; /* bytes from pair to pair */
    size_t pairs;
    float *y;
    size_t y_stride;
    size_t columns; /* to store, at most */
    const float *bias;
    const char *ahead; /* what to read ahead, and how many bytes of it at each pair */
    size_t ahead_step;
};

/* Written out, in this order: the compiler would copy and spill sums. */
static inline vec add_pairs(vec sum, __m512i w, __m512i x)
{
    __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
}

static inline __m512i broadcast_pair(const uint16_t *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return _mm512_set1_epi32(pair);
}

static inline __attribute__((always_inline)) void tile(const struct tile *t, const size_t MR,
                                                       const size_t NV)
{
    vec sums[TILE_ROWS][PANEL_VECS];
    for (size_t i = 0; i < MR; i++)
        for (size_t j = 0; j < NV; j++)
            sums[i][j] = vec_zero();
    const uint16_t *x = t->x;
    const char *w = t->w, *ahead = t->ahead;
    const size_t ahead_step = t->ahead_step, w_stride = t->w_stride;
    for (size_t left = t->pairs; left > 0; left--) {
        __m512i weights[PANEL_VECS];
        for (size_t j = 0; j < NV; j++) {
            __builtin_prefetch(ahead + j * 64);
            weights[j] = _mm512_loadu_si512(w + j * 64);
        }
        for (size_t i = 0; i < MR; i++) {
            const __m512i pair = broadcast_pair(x + i * 2);
            for (size_t j = 0; j < NV; j++)
                sums[i][j] = add_pairs(sums[i][j], weights[j], pair);
        }
        ahead += ahead_step;
        w += w_stride;
        x += MR * 2;
    }
    for (size_t i = 0; i < MR; i++)
        for (size_t j = 0; j < NV; j++) {
            if (t->bias)
                sums[i][j] = vec_add(sums[i][j], load_columns(t->bias, j, t->columns));
            store_columns(t->y + i * t->y_stride, j, t->columns, sums[i][j]);
        }
}

#define TILES(T, NV) T(1, NV) T(2, NV) T(3, NV) T(4, NV) T(5, NV) T(6, NV) T(7, NV) T(8, NV)
#define TILE(MR, NV)                                                                               \
    static __attribute__((noinline)) void tile_##MR##_##NV(const struct tile *t)                   \
    {                                                                                              \
        tile(t, MR, NV);                                                                           \
    }
TILES(TILE, 1)
TILES(TILE, 3)

/* By rows and vectors; NULL: no such tile. */
static void (*const tiles[TILE_ROWS + 1][PANEL_VECS + 1])(const struct tile *t) = {
#define TILE_ENTRY(MR, NV) [MR][NV] = tile_##MR##_##NV,
    TILES(TILE_ENTRY, 1) TILES(TILE_ENTRY, 3)
};

/* Rows first … first+M−1 of x and one panel. */
static void bf16_panel(const struct gemm *g, size_t first, size_t M, size_t n)
{
    const struct matrix *w = &g->w;
    const size_t width = panel_width(w->rows, n), pairs = (w->columns + 1) / 2;
    const size_t vecs = width == PANEL_COLUMNS ? PANEL_VECS : STEP_VECS, columns = vecs * LANES;
    const size_t tile_count = (M + TILE_ROWS - 1) / TILE_ROWS * (width / columns);
    const size_t bytes = panel_offset(DTYPE_BF16, w->columns, width), share = bytes / tile_count;
    const char *panel = (const char *)w->data + panel_offset(DTYPE_BF16, w->columns, n);
    struct tile t = { .w_stride = width * 4,
                      .pairs = pairs,
                      .y_stride = g->y_stride,
                      .ahead = panel + (tile_count > 1 ? bytes : AHEAD_BYTES),
                      .ahead_step = share / (pairs + 1) + 1 };
    for (size_t column = 0; column < width && n + column < w->rows; column += columns) {
        t.w = panel + column * 4;
        t.bias = g->bias ? g->bias + n + column : NULL;
        t.columns = w->rows - n - column;
        for (size_t m = first; m < first + M;) {
            const size_t rows = first + M - m < TILE_ROWS ? first + M - m : TILE_ROWS;
            t.x = (const uint16_t *)g->x + m * pairs * 2;
            t.y = g->y + m * g->y_stride + n + column;
            tiles[rows][vecs](&t);
            t.ahead += share;
            m += rows;
        }
    }
}

static void gemm_bf16(const struct gemm *g)
{
    for (size_t m = 0; m < g->M; m += X_BLOCK_ROWS)
        for (size_t n = g->first; n < g->end; n += PANEL_COLUMNS)
            bf16_panel(g, m, g->M - m < X_BLOCK_ROWS ? g->M - m : X_BLOCK_ROWS, n);
}

/* Tiles of TILE_ROWS rows, the last one smaller; in a tile pair after pair, of each the rows. */
static void prepare_bf16(const float *x, size_t M, size_t K, void *prepared, size_t part,
                         size_t parts)
{
    uint16_t *out = prepared;
    const size_t places = (K + 1) / 2 * 2;
    for (size_t m = part; m < M; m += parts) {
        const size_t first = m / TILE_ROWS * TILE_ROWS;
        const size_t rows = M - first < TILE_ROWS ? M - first : TILE_ROWS;
        uint16_t *to = out + first * places + (m - first) * 2;
        for (size_t k = 0; k < places; k++)
            to[k / 2 * rows * 2 + k % 2] = k < K ? float_to_bf16(x[m * K + k]) : 0;
    }
}

void products_init_avx512bf16(struct kernels *kernels)
{
    kernels->narrow_bf16 = (struct product){ prepare_bf16, gemm_bf16 };
}
#endif
