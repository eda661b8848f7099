/* pack_cache.h — packed copies beside their folders.  Private to src/model. */
#ifndef MODEL_PACK_CACHE_H
#define MODEL_PACK_CACHE_H

#include "model/model.h"

/* The packed file DIR/NAME of a model's matrices. */
struct packed_copy {
    const char *dir, *name;
};

/* model_open() with the matrices of `packed`; NULL: those of the folder alone. */
int model_open_beside(struct model **out, const char *dir, const char *name,
                      const struct kernels *kernels, const struct packed_copy *packed,
                      struct error *err);

#endif
