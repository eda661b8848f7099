/* int8 of the set "neon" where the CPU multiplies four pairs of bytes and adds at once. */
#if defined(__aarch64__)
#include "vec_neon.h"

/* Two rows by the twelve vectors of a panel, or six by four: 24 sums of 32 registers. */
enum { INT_ROWS = 6, INT_COLUMNS = 4, INT_STEP_VECS = 4, INT_OFFSET = 0 };
#define INTEGER_TILES(T) T(1, 12) T(2, 12) T(1, 4) T(2, 4) T(3, 4) T(4, 4) T(5, 4) T(6, 4)

typedef int8_t int_element;
typedef int32x4_t ints;
typedef int8x16_t int_weights, int_places;

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
    return vld1q_s8(p);
}

static inline int_places ints_broadcast(const int_element *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

static inline ints ints_add(ints sums, int_weights weights, int_places x)
{
    return vdotq_s32(sums, weights, x);
}

static inline void ints_columns(const ints *sums, size_t NV, int32_t *out)
{
    for (size_t j = 0; j < NV; j++)
        vst1q_s32(out + j * INT_COLUMNS, sums[j]);
}

#include "integer_products.h"

void products_init_neondot(struct kernels *kernels)
{
    fill_integers(kernels);
}
#endif
