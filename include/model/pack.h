/* pack.h — packed copies of a model's matrices, in files that are mapped and used as they lie.
 *
 * A packed file is a safetensors file (src/model/safetensors.h) whose "__metadata__" has
 * "seqd_packed": the version of what follows, PACK_VERSION.  Beside ordinary tensors it has, as U8
 * of one dimension and each at a multiple of 64 bytes:
 *
 *   NAME.panels.DTYPE   the matrix of the tensor NAME in panels (kernels/panels.h) of DTYPE:
 *                       float32, float16, bfloat16 or int8
 *   NAME.screen         the output layer's matrix once more in panels of int8, for screening
 * and, as F32,
 *   NAME.bounds         (2, V): of each row of NAME.screen the length of its rounding error, and
 *                       its own length, neither rounded down (model/screen.h)
 *
 * A file of another version is refused with the advice to make it anew. */
#ifndef MODEL_PACK_H
#define MODEL_PACK_H

#include "model/model.h"

#define PACK_VERSION "1"

/* In a packed folder: the file that takes the place of the folder's weight files. */
#define PACK_FILE_NAME "model.packed"

struct pack_options {
    bool as_stored;   /* each matrix keeps its dtype; else they become `dtype` … */
    enum dtype dtype; /* … float32, bfloat16 or int8 */
    bool whole; /* all that the model needs; else only what is packed, for use beside the folder */
};

/* Writes the packed file of a model to `fd`, from its beginning.  A matrix that the reference keeps
 * in float32, or whose rows int8 would change by more than 5 % of their length, is float32 in an
 * int8 file; tables of embeddings are bfloat16 when the matrices are narrower than float32.
 * Errors: ERR_BAD_MODEL (packed already; int8 of what is not finite), ERR_IO (with errno's text),
 * ERR_NO_MEMORY. */
int pack_write(const struct model *model, const struct pack_options *options, int fd,
               struct error *err);

#endif
