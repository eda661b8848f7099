#if defined(__x86_64__)
#include "vec_avx512.h"

#include "pack_chunk_avx2.h"

/* 16 accumulators of 32 registers: enough to hide the latency of two FMA units, with few columns of
 * filling. */
enum { STRIP_ROWS = 8, STRIP_VECS = 2 };
#define STRIP_ROWS_OF(T, NV) T(1, NV) T(2, NV) T(3, NV) T(4, NV) T(5, NV) T(6, NV) T(7, NV) T(8, NV)
#define STRIP_TILES(T)       STRIP_ROWS_OF(T, 2) STRIP_ROWS_OF(T, 1)

#include "attention_loops.h"

void attention_init_avx512(struct kernels *kernels)
{
    fill_attention(kernels);
}
#endif
