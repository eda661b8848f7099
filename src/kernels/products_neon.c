#if defined(__aarch64__)
#include "vec_neon.h"

#include "pack_chunk_neon.h"

/* One row by the twelve vectors of a panel, or four by six: 24 sums of 32 registers. */
enum { WIDE_ROWS = 1, TILE_ROWS = 4, TILE_VECS = 6, TURN_GROUPS = 8 };
#define TILE_SHAPES(T) T(1, 12) T(2, 6) T(3, 6) T(4, 6) T(1, 4) T(2, 4) T(3, 4) T(4, 4)

/* Written out, in this order: the compiler would spill sums. */
static inline vec tile_fma(vec a, vec b, vec sum)
{
    __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
}

static inline float scalar_fma(float a, float b, float sum)
{
    return __builtin_fmaf(a, b, sum);
}

#include "panel_products.h"

/* Products of 16 bits: a vector of sums has two for each of two columns. */
enum { INT_ROWS = 6, INT_COLUMNS = 2, INT_STEP_VECS = 4, INT_OFFSET = 0 };
#define INTEGER_TILES(T) T(1, 12) T(2, 12) T(1, 4) T(2, 4) T(3, 4) T(4, 4) T(5, 4) T(6, 4)

typedef int8_t int_element;
typedef int32x4_t ints;
typedef int8x8_t int_weights, int_places;

static inline size_t integer_vecs(size_t M)
{
    return M <= 2 ? 12 : 4;
}

static inline ints ints_zero(void)
{
    return vdupq_n_s32(0);
}

static inline int_weights ints_weights(const int8_t *p)
{
    return vld1_s8(p);
}

static inline int_places ints_broadcast(const int_element *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vreinterpret_s8_s32(vdup_n_s32(four));
}

/* Written out: the compiler would gather the products first and spill the sums. */
static inline ints ints_add(ints sums, int_weights weights, int_places x)
{
    int16x8_t products;
    __asm__ volatile("smull %1.8h, %2.8b, %3.8b\n\tsadalp %0.4s, %1.8h"
                     : "+w"(sums), "=&w"(products)
                     : "w"(weights), "w"(x));
    return sums;
}

static inline void ints_columns(const ints *sums, size_t NV, int32_t *out)
{
    for (size_t j = 0; j < NV; j += 2)
        vst1q_s32(out + j * INT_COLUMNS, vpaddq_s32(sums[j], sums[j + 1]));
}

#include "integer_products.h"

void products_init_neon(struct kernels *kernels)
{
    fill_floats(kernels);
    fill_integers(kernels);
}
#endif
