/* Plain C: the specification of the other sets, and what runs where there is none. */
#include "vec_portable.h"

#include "pack_plain.h"

static void pack_chunk(const struct matrix *w, size_t first, size_t width, size_t k, size_t count,
                       float *out)
{
    pack_plain(w, first, width, k, count, out, width);
}

enum { WIDE_ROWS = 1, TILE_ROWS = 4, TILE_VECS = 1, TURN_GROUPS = 1 };
#define TILE_SHAPES(T) T(1, 6) T(2, 1) T(3, 1) T(4, 1) T(1, 2) T(2, 2) T(3, 2) T(4, 2)

static inline vec tile_fma(vec a, vec b, vec sum)
{
    return vec_fma(a, b, sum);
}

static inline float scalar_fma(float a, float b, float sum)
{
    return sum + a * b;
}

#include "panel_products.h"

enum { INT_ROWS = 2, INT_COLUMNS = 16, INT_STEP_VECS = 1, INT_OFFSET = 0 };
#define INTEGER_TILES(T) T(1, 1) T(2, 1)

typedef int8_t int_element;
typedef struct {
    int32_t column[INT_COLUMNS];
} ints;
typedef struct {
    int8_t place[INT_COLUMNS][4];
} int_weights;
typedef struct {
    int8_t place[4];
} int_places;

static inline size_t integer_vecs(size_t M)
{
    (void)M;
    return 1;
}

static inline ints ints_zero(void)
{
    return (ints){ 0 };
}

static inline int_weights ints_weights(const int8_t *p)
{
    int_weights weights;
    memcpy(&weights, p, sizeof weights);
    return weights;
}

static inline int_places ints_broadcast(const int_element *x)
{
    int_places places;
    memcpy(&places, x, sizeof places);
    return places;
}

static inline ints ints_add(ints sums, int_weights weights, int_places x)
{
    for (size_t i = 0; i < INT_COLUMNS; i++)
        for (size_t k = 0; k < 4; k++)
            sums.column[i] += weights.place[i][k] * x.place[k];
    return sums;
}

static inline void ints_columns(const ints *sums, size_t NV, int32_t *out)
{
    memcpy(out, sums, NV * sizeof *sums);
}

#include "integer_products.h"

void products_init_portable(struct kernels *kernels)
{
    fill_floats(kernels);
    fill_integers(kernels);
}
