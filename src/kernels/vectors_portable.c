#include "vec_portable.h"

#include "vector_loops.h"

void vectors_init_portable(struct kernels *kernels)
{
    fill_vectors(kernels);
}
