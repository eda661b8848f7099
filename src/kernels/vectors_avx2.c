#if defined(__x86_64__)
#include "vec_avx2.h"

#include "vector_loops.h"

void vectors_init_avx2(struct kernels *kernels)
{
    fill_vectors(kernels);
}
#endif
