#if defined(__x86_64__)
#include "vec_avx512.h"

#include "pack_chunk_avx2.h"

/* Eight rows by the three vectors of a panel: 24 accumulators of 32 registers. */
enum { WIDE_ROWS = 8, TILE_ROWS = 8, TILE_VECS = 3, TURN_GROUPS = 8 };
#define TILE_ROWS_OF(T, NV) T(1, NV) T(2, NV) T(3, NV) T(4, NV) T(5, NV) T(6, NV) T(7, NV) T(8, NV)
#define TILE_SHAPES(T)      TILE_ROWS_OF(T, 3) TILE_ROWS_OF(T, 1)

/* Written out, in this order: the compiler would copy and spill sums. */
static inline vec tile_fma(vec a, vec b, vec sum)
{
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

static inline float scalar_fma(float a, float b, float sum)
{
    return __builtin_fmaf(a, b, sum);
}

#include "panel_products.h"

/* Products of 16 bits, two sums for each of eight columns. */
enum { INT_ROWS = 4, INT_COLUMNS = 8, INT_STEP_VECS = 2, INT_OFFSET = 0 };
#define INTEGER_TILES(T) T(1, 6) T(2, 6) T(3, 6) T(4, 6) T(1, 2) T(2, 2) T(3, 2) T(4, 2)

typedef int16_t int_element;
typedef __m512i ints, int_weights, int_places;

static inline size_t integer_vecs(size_t M)
{
    (void)M;
    return 6;
}

static inline ints ints_zero(void)
{
    return _mm512_setzero_si512();
}

static inline int_weights ints_weights(const int8_t *p)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

static inline int_places ints_broadcast(const int_element *x)
{
    int64_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi64(four);
}

/* Written out: the compiler would gather the products first and spill the sums. */
static inline ints ints_add(ints sums, int_weights weights, int_places x)
{
    ints products;
    __asm__ volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
                     : "+v"(sums), "=&v"(products)
                     : "v"(weights), "v"(x));
    return sums;
}

static inline void ints_columns(const ints *sums, size_t NV, int32_t *out)
{
    for (size_t j = 0; j < NV; j++) {
        const __m512i pairs = _mm512_add_epi32(sums[j], _mm512_srli_epi64(sums[j], 32));
        _mm256_storeu_si256((__m256i *)(out + j * INT_COLUMNS), _mm512_cvtepi64_epi32(pairs));
    }
}

#include "integer_products.h"

void products_init_avx512(struct kernels *kernels)
{
    fill_floats(kernels);
    fill_integers(kernels);
}
#endif
