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
#include "base/mapped_file.h"
#include "kernels/kernels.h"

enum { TENSOR_RANK_MAX = 8 };

struct tensor {
    char *name;
    const char *path; /* of its file, for messages; the file's */
    bool readable;    /* F32, F16 or BF16; others may be in a file but cannot be used */
    enum dtype dtype; /* if readable */
    size_t rank;
    size_t shape[TENSOR_RANK_MAX];
    size_t count; /* elements */
    const void *data;
    size_t bytes;
    /* set while a model is put together: */
    bool used;   /* it is needed, or known and not needed */
    bool needed; /* it is needed and can be used */
};

struct safetensors {
    char *path;
    struct mapped_file mapped; /* all zero when the bytes are the caller's */
    size_t header_bytes;
    char packed[16]; /* "seqd_packed" of the metadata (model/pack.h), cut; "": there is none */
    struct tensor *tensors; /* in the order of their data; no two of one name */
    size_t tensor_count;
};

/* Maps the file DIR/NAME (model/file.h).  On failure nothing is left open; a file that is not there
 * leaves *err alone.  Errors: ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY. */
int safetensors_open(struct safetensors *file, const char *dir, const char *name,
                     struct error *err);

/* The same for bytes in memory, which must outlive *file.  `path` is for messages. */
int safetensors_parse(struct safetensors *file, const void *bytes, size_t count, const char *path,
                      struct error *err);

void safetensors_close(struct safetensors *file);

#endif
