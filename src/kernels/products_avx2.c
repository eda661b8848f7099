#if defined(__x86_64__)
#include "vec_avx2.h"

#include "pack_chunk_avx2.h"

/* Two rows by six vectors, or four by three: 12 accumulators, the weights and one x fit the 16
 * registers. */
enum { WIDE_ROWS = 2, TILE_ROWS = 4, TILE_VECS = 3, TURN_GROUPS = 8 };
#define TILE_SHAPES(T) T(1, 6) T(2, 6) T(2, 3) T(3, 3) T(4, 3) T(1, 2) T(2, 2) T(3, 2) T(4, 2)

/* Written out, in this order: the compiler would spill sums to keep weights it can load again. */
static inline vec tile_fma(vec a, vec b, vec sum)
{
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
}

static inline float scalar_fma(float a, float b, float sum)
{
    return __builtin_fmaf(a, b, sum);
}

#include "panel_products.h"

/* w + 128 as unsigned bytes by signed x.  Two products are summed in 16 bits, which hold 255 · 128,
 * then all in 32.  Six rows by two vectors: 12 sums, the weights, x and a product fit the 16
 * registers. */
enum { INT_ROWS = 6, INT_COLUMNS = 8, INT_STEP_VECS = 2 };
enum { INT_OFFSET = 0, INT_W_OFFSET = 128 };
#define INT_PAIR_MOST    (INT16_MAX / (127 + INT_W_OFFSET))
#define INTEGER_TILES(T) T(1, 6) T(2, 3) T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(5, 2) T(6, 2)

typedef int8_t int_element;
typedef __m256i ints, int_weights, int_places;

static inline size_t integer_vecs(size_t M)
{
    return M == 1 ? 6 : M == 2 ? 3 : 2;
}

static inline ints ints_zero(void)
{
    return _mm256_setzero_si256();
}

static inline int_weights ints_weights(const int8_t *p)
{
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi8(-128));
}

static inline int_places ints_broadcast(const int_element *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

static const _Alignas(32) int16_t ones[16] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* Written out, in this order: the compiler would gather the products first and spill the sums.
 * `ones` by its address: with an operand in memory it would store the sums in each step. */
static inline ints ints_add(ints sums, int_weights weights, int_places x)
{
    ints products;
    __asm__ volatile("vpmaddubsw %3, %2, %1\n\tvpmaddwd (%4), %1, %1\n\tvpaddd %1, %0, %0"
                     : "+x"(sums), "=x"(products)
                     : "x"(weights), "x"(x), "r"(ones));
    return sums;
}

static inline uint32_t groups_exceeding(const int8_t *places)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)places);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), x);
    const __m256i most = _mm256_set1_epi16(INT_PAIR_MOST);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi16(_mm256_abs_epi16(pairs), most));
}

static inline void ints_columns(const ints *sums, size_t NV, int32_t *out)
{
    for (size_t j = 0; j < NV; j++)
        _mm256_storeu_si256((__m256i *)(out + j * INT_COLUMNS), sums[j]);
}

#include "integer_products.h"

void products_init_avx2(struct kernels *kernels)
{
    fill_floats(kernels);
    fill_integers(kernels);
}
#endif
