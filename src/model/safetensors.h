/* safetensors.h — one weight file, mapped read-only.  Private to src/model.
 *
 * The format: 8 bytes, little-endian: the header's length n; n bytes of JSON, an object
 *   {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …, "__metadata__":
 * {…}} with offsets counted from the header's end; then the data, which the tensors cover without
 * hole or overlap.  The file is untrusted: every number is checked before it is used, once, at
 * open. */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "kernels/kernels.h"

enum { TENSOR_RANK_MAX = 8 };

struct tensor {
    char *name;
    bool readable;    /* F32, F16 or BF16; others may be in a file but cannot be used */
    enum dtype dtype; /* if readable */
    size_t rank;
    size_t shape[TENSOR_RANK_MAX];
    size_t count; /* elements */
    const void *data;
    size_t bytes;
    bool used; /* set while a model is put together */
};

struct safetensors {
    void *mapping;
    size_t mapped_bytes;
    struct tensor *tensors; /* sorted by name */
    size_t tensor_count;
};

/* Maps the file.  On failure nothing is left open.  Errors: ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY.
 */
int safetensors_open(struct safetensors *file, const char *path, struct error *err);
void safetensors_close(struct safetensors *file);

/* NULL when there is none of that name. */
struct tensor *safetensors_find(const struct safetensors *file, const char *name);

#endif
