/* any_kernels.h — a kernel table for tests that need one: of SEQD_ISA, or the best. */
#ifndef ANY_KERNELS_H
#define ANY_KERNELS_H

#include <stdlib.h>

#include "kernels/kernels.h"

static inline const struct kernels *any_kernels(void)
{
    static struct kernels kernels;
    struct error err = { 0 };
    if (!kernels.isa && kernels_init(&kernels, getenv("SEQD_ISA"), "own", &err) < 0)
        abort();
    return &kernels;
}

#endif
