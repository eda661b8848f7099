#if defined(__aarch64__)
#include "vec_neon.h"

#include "vector_loops.h"

void vectors_init_neon(struct kernels *kernels)
{
    fill_vectors(kernels);
}
#endif
