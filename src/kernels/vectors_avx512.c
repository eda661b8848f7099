#if defined(__x86_64__)
#include "vec_avx512.h"

#include "vector_loops.h"

void vectors_init_avx512(struct kernels *kernels)
{
    fill_vectors(kernels);
}
#endif
