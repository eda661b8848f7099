/* weights.h — the tensors of a model folder, and the copies that could not be used as they lie.
 * Private to src/model.  One thread until the model is complete, const afterwards. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "model/findings.h"
#include "weight_files.h"

struct weights {
    struct weight_files tensors;
    void **copies;
    size_t copy_count, copy_capacity;
    size_t copied_bytes;
    struct findings *findings; /* borrowed: told of every tensor at fault and, at the end, of every
                                * unused one; NULL: nobody asked */
};

/* Errors: ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY. */
int weights_open(struct weights **out, const char *dir, struct error *err);
void weights_close(struct weights **weights);

/* Whether there is a tensor of that name; weights_has(): be it only in panels. */
bool weights_has_rows(const struct weights *weights, const char *name);
bool weights_has(const struct weights *weights, const char *name);

/* A tensor that may be in the files and is not needed: no reason to warn. */
void weights_expect(struct weights *weights, const char *name);

/* The tensor as a rows × columns matrix, borrowed from the mapping (or from one copy where it lies
 * unaligned).  Errors: ERR_BAD_MODEL names a tensor that is missing or has another shape. */
int weights_matrix(struct weights *weights, const char *name, size_t rows, size_t columns,
                   struct matrix *matrix, struct error *err);

/* The same for a matrix that is multiplied by: its panels, if the files have any. */
int weights_linear(struct weights *weights, const char *name, size_t rows, size_t columns,
                   struct matrix *matrix, struct error *err);

/* What pack.h says of an output layer's matrix, by the name of its tensor.  False: the files have
 * none. */
bool weights_screen(struct weights *weights, const char *name, size_t rows, size_t columns,
                    struct matrix *screen, const float **bounds);

/* The tensor as `count` floats, whatever its shape: from the mapping when it is float32, else
 * widened once.  Vectors are small; matrices stay narrow. */
int weights_vector(struct weights *weights, const char *name, size_t count,
                   const struct kernels *kernels, const float **vector, struct error *err);

/* `count` floats that live as long as the weights, for tables that are computed.  NULL: no memory.
 */
float *weights_scratch(struct weights *weights, size_t count);

/* How many elements of each dtype the tensors in use have. */
void weights_count(const struct weights *weights, size_t counts[DTYPE_COUNT]);
/* The dtype that most of their bytes have, and how many elements they have together. */
enum dtype weights_dtype(const struct weights *weights, size_t *parameter_count);
/* The tensor that lies at `data`; NULL: none. */
struct tensor *weights_tensor_at(const struct weights *weights, const void *data);
/* The name of the tensor that lies at `data`; NULL: none. */
const char *weights_name(const struct weights *weights, const void *data);

/* One warning that counts the tensors which nothing used, and names the first. */
void weights_warn_unused(const struct weights *weights);

#endif
