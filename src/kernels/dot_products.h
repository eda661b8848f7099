/* dot_products.h — the body of every kernel set: products as tiles of dot products.
 *
 * A file that includes it defines before:
 *   vec                         LANES floats
 *   vec_zero(), vec_set(a), vec_fma(a, b, c) = a·b + c, vec_sum(v)
 *   vec_load(const float *), vec_store(float *, v)
 *   vec_load_part(p, n), vec_store_part(p, n, v)
 *                               n < LANES floats, zeros behind them; touch nothing beyond
 *   vec_load_f16(const uint16_t *), vec_load_bf16(const uint16_t *)
 *   KERNEL_SET, TILE_ROWS       the name in the table; rows of x in a tile
 *
 * Order of summation: lane j of one accumulator adds the elements j, j + LANES, … and vec_sum()
 * folds the lanes; the last, partial vector is filled with zeros.  The order depends on K alone, so
 * the size of the tile that computes an element does not change its bits.
 *
 * The tile is MR rows of x by NR rows of w: each loaded weight is used MR times and needs no
 * packing, so weights are read straight from the mapping.  Rows of x go in blocks that stay in the
 * L2 cache while all of w passes by. */

enum { X_BLOCK_ROWS = 64 };

static inline const void *weight_at(const struct matrix *w, size_t row, size_t column)
{
    return (const char *)w->data + (row * w->columns + column) * (w->dtype == DTYPE_F32 ? 4 : 2);
}

static inline __attribute__((always_inline)) vec load_stored(const void *p, enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        return vec_load(p);
    return dtype == DTYPE_F16 ? vec_load_f16(p) : vec_load_bf16(p);
}

/* `count` < LANES elements, zeros behind them; reads nothing beyond. */
static inline vec load_stored_part(const void *p, enum dtype dtype, size_t count)
{
    if (dtype == DTYPE_F32)
        return vec_load_part(p, count);
    float padded[LANES] = { 0 };
    for (size_t i = 0; i < count; i++)
        padded[i] = stored_to_float(p, dtype, i);
    return vec_load(padded);
}

static inline __attribute__((always_inline)) void
tile(const struct gemm *g, size_t m, size_t n, enum dtype dtype, const size_t MR, const size_t NR)
{
    vec sums[4][4];
    const size_t K = g->w.columns, whole = K / LANES * LANES;
    const size_t element = dtype == DTYPE_F32 ? 4 : 2;
    const char *w = weight_at(&g->w, n, 0);
    const float *x = g->x + m * g->x_stride;
    for (size_t i = 0; i < MR; i++)
        for (size_t j = 0; j < NR; j++)
            sums[i][j] = vec_zero();
    for (size_t k = 0; k < whole; k += LANES) {
        vec weights[4];
        for (size_t j = 0; j < NR; j++)
            weights[j] = load_stored(w + (j * K + k) * element, dtype);
        for (size_t i = 0; i < MR; i++) {
            const vec value = vec_load(x + i * g->x_stride + k);
            for (size_t j = 0; j < NR; j++)
                sums[i][j] = vec_fma(value, weights[j], sums[i][j]);
        }
    }
    for (size_t i = 0; i < MR && whole < K; i++) {
        const vec value = vec_load_part(x + i * g->x_stride + whole, K - whole);
        for (size_t j = 0; j < NR; j++)
            sums[i][j] =
                vec_fma(value, load_stored_part(w + (j * K + whole) * element, dtype, K - whole),
                        sums[i][j]);
    }
    for (size_t i = 0; i < MR; i++)
        for (size_t j = 0; j < NR; j++)
            g->y[(m + i) * g->y_stride + n + j] =
                vec_sum(sums[i][j]) + (g->bias ? g->bias[n + j] : 0.0f);
}

static inline __attribute__((always_inline)) void gemm_of(const struct gemm *g, enum dtype dtype)
{
    for (size_t block = 0; block < g->M; block += X_BLOCK_ROWS) {
        const size_t last = g->M - block < X_BLOCK_ROWS ? g->M : block + X_BLOCK_ROWS;
        size_t n = g->first;
        for (; n + 4 <= g->end; n += 4) {
            size_t m = block;
            for (; m + TILE_ROWS <= last; m += TILE_ROWS)
                tile(g, m, n, dtype, TILE_ROWS, 4);
            for (; m < last; m++)
                tile(g, m, n, dtype, 1, 4);
        }
        for (; n < g->end; n++)
            for (size_t m = block; m < last; m++)
                tile(g, m, n, dtype, 1, 1);
    }
}

static void gemm_own(const struct gemm *g)
{
    if (g->w.dtype == DTYPE_F32)
        gemm_of(g, DTYPE_F32);
    else if (g->w.dtype == DTYPE_F16)
        gemm_of(g, DTYPE_F16);
    else
        gemm_of(g, DTYPE_BF16);
}

static float dot(const float *x, const float *y, size_t n)
{
    const size_t whole = n / LANES * LANES;
    vec sum = vec_zero();
    for (size_t i = 0; i < whole; i += LANES)
        sum = vec_fma(vec_load(x + i), vec_load(y + i), sum);
    if (whole < n)
        sum =
            vec_fma(vec_load_part(x + whole, n - whole), vec_load_part(y + whole, n - whole), sum);
    return vec_sum(sum);
}

/* The remainder goes through padded vectors too: the same element gets the same bits in any place.
 */
static void axpy(float a, const float *x, float *y, size_t n)
{
    const size_t whole = n / LANES * LANES;
    const vec factor = vec_set(a);
    for (size_t i = 0; i < whole; i += LANES)
        vec_store(y + i, vec_fma(factor, vec_load(x + i), vec_load(y + i)));
    if (whole < n)
        vec_store_part(y + whole, n - whole,
                       vec_fma(factor, vec_load_part(x + whole, n - whole),
                               vec_load_part(y + whole, n - whole)));
}

static void widen(const void *stored, enum dtype dtype, float *out, size_t n)
{
    const size_t whole = n / LANES * LANES;
    if (dtype == DTYPE_F32) {
        memcpy(out, stored, n * sizeof *out);
        return;
    }
    const uint16_t *from = stored;
    for (size_t i = 0; i < whole; i += LANES)
        vec_store(out + i, load_stored(from + i, dtype));
    for (size_t i = whole; i < n; i++)
        out[i] = stored_to_float(stored, dtype, i);
}

static void fill_table(struct kernels *kernels)
{
    kernels->isa = KERNEL_SET;
    kernels->gemm = gemm_own;
    kernels->dot = dot;
    kernels->axpy = axpy;
    kernels->widen = widen;
}
