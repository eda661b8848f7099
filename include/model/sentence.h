/* sentence.h — one vector from a row's encoder states.
 *
 * Plain pooling, or what the modules of a sentence-transformers folder say (modules.json): Pooling,
 * of which several kinds may be joined, then Dense, LayerNorm and Normalize in any order. */
#ifndef MODEL_SENTENCE_H
#define MODEL_SENTENCE_H

#include "model/forward.h"

enum pooling {
    POOLING_NONE, /* no vector: the states */
    POOLING_MEAN,
    POOLING_MAX,
    POOLING_CLS,           /* the first real token's state */
    POOLING_LAST,          /* the last real token's */
    POOLING_MEAN_SQRT,     /* sum / √n */
    POOLING_WEIGHTED_MEAN, /* weights 1, 2, … by place, from the first real token on */
    POOLING_FOLDER         /* as modules.json says */
};

/* As requests, answers and folders name them; FOLDER has no name. */
const char *pooling_name(enum pooling pooling);

enum { SENTENCE_MODES_MAX = 8 };

struct sentence_step;

/* What modules.json says.  Const after sentence_open(); safe from any thread. */
struct sentence {
    enum pooling modes[SENTENCE_MODES_MAX]; /* their vectors are joined in this order */
    size_t mode_count;
    struct sentence_step *steps; /* owned; between pooling and the last Normalize */
    size_t step_count;
    bool normalize;    /* the last module is Normalize */
    size_t dim;        /* of the vector */
    size_t dim_max;    /* of the widest on the way */
    size_t tokens_max; /* where the folder cuts rows (max_seq_length); SIZE_MAX: nowhere */
    size_t parameter_count, mapped_bytes, copied_bytes; /* of the modules' weights */
};

/* Reads DIR/modules.json and its modules for an encoder of `width`.  *out is the caller's until
 * sentence_close(); NULL, without an error, if the folder has no modules.json.  A module, mode,
 * activation or field that is not known is refused by its name.
 * Errors: ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY; messages name the file and the field or tensor. */
int sentence_open(struct sentence **out, const char *dir, size_t width,
                  const struct kernels *kernels, struct error *err);
/* Sets *sentence to NULL; it may be NULL. */
void sentence_close(struct sentence **sentence);

/* A module behind the Pooling, for those who describe it. */
struct sentence_module {
    const char *name;       /* of its class; static */
    const char *activation; /* of a Dense; NULL: none */
    size_t width;           /* of what it gives */
};
/* False: there are not so many.  The last Normalize is `normalize`, and not among these. */
bool sentence_module(const struct sentence *sentence, size_t index, struct sentence_module *module);

/* How many numbers a vector has; with NONE, a state.  FOLDER: only if the model has one. */
size_t pooling_dim(const struct model *model, enum pooling pooling);

/* vector (pooling_dim) = the states x (count, D) of the row's real tokens, pooled; `pooling` is not
 * NONE.  With `normalize` of unit L2 norm.  Scratch: pooling_scratch_bytes(). */
void pooling_vector(const struct pass *pass, enum pooling pooling, bool normalize,
                    const struct source_row *row, const float *x, float *vector);
size_t pooling_scratch_bytes(const struct model *model);

#endif
