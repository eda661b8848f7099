#include "vec_portable.h"

#include "pack_plain.h"

static void pack_chunk(const struct matrix *w, size_t first, size_t width, size_t k, size_t count,
                       float *out)
{
    pack_plain(w, first, width, k, count, out, width);
}

enum { STRIP_ROWS = 2, STRIP_VECS = 2 };
#define STRIP_TILES(T) T(1, 2) T(2, 2)

#include "attention_loops.h"

void attention_init_portable(struct kernels *kernels)
{
    fill_attention(kernels);
}
