#if defined(__x86_64__)
#include "vec_avx2.h"

#include "pack_chunk_avx2.h"

/* 12 accumulators of 16 registers. */
enum { STRIP_ROWS = 6, STRIP_VECS = 2 };
#define STRIP_TILES(T) T(1, 2) T(2, 2) T(3, 2) T(4, 2) T(5, 2) T(6, 2)

#include "attention_loops.h"

void attention_init_avx2(struct kernels *kernels)
{
    fill_attention(kernels);
}
#endif
