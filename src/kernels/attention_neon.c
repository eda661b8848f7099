#if defined(__aarch64__)
#include "vec_neon.h"

#include "pack_chunk_neon.h"

/* 24 accumulators of 32 registers. */
enum { STRIP_ROWS = 6, STRIP_VECS = 4 };
#define STRIP_TILES(T) T(1, 4) T(2, 4) T(3, 4) T(4, 4) T(5, 4) T(6, 4)

#include "attention_loops.h"

void attention_init_neon(struct kernels *kernels)
{
    fill_attention(kernels);
}
#endif
