/* int8 of the set "avx512" where the CPU multiplies four pairs of bytes and adds at once. */
#if defined(__x86_64__)
#include "vec_avx512.h"

/* x + 128 as unsigned bytes by signed weights: the four products are summed in 32 bits, so nothing
 * saturates.  Eight rows by the three vectors of a panel: 24 sums of 32 registers. */
enum { INT_ROWS = 8, INT_COLUMNS = 16, INT_STEP_VECS = 1, INT_OFFSET = 128 };
#define INTEGER_TILES_OF(T, NV)                                                                    \
    T(1, NV) T(2, NV) T(3, NV) T(4, NV) T(5, NV) T(6, NV) T(7, NV) T(8, NV)
#define INTEGER_TILES(T) INTEGER_TILES_OF(T, 3) INTEGER_TILES_OF(T, 1)

typedef uint8_t int_element;
typedef __m512i ints, int_weights, int_places;

static inline size_t integer_vecs(size_t M)
{
    (void)M;
    return 3;
}

static inline ints ints_zero(void)
{
    return _mm512_setzero_si512();
}

static inline int_weights ints_weights(const int8_t *p)
{
    return _mm512_loadu_si512(p);
}

static inline int_places ints_broadcast(const int_element *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Written out, in this order: the compiler would copy and spill sums. */
static inline ints ints_add(ints sums, int_weights weights, int_places x)
{
    __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(weights));
    return sums;
}

static inline void ints_columns(const ints *sums, size_t NV, int32_t *out)
{
    for (size_t j = 0; j < NV; j++)
        _mm512_storeu_si512(out + j * INT_COLUMNS, sums[j]);
}

#include "integer_products.h"

void products_init_avx512vnni(struct kernels *kernels)
{
    fill_integers(kernels);
}
#endif
