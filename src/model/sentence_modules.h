/* sentence_modules.h — the modules of a sentence-transformers folder: as they are read, and as they
 * run behind the Pooling.  Private to src/model. */
#ifndef MODEL_SENTENCE_MODULES_H
#define MODEL_SENTENCE_MODULES_H

#include <jansson.h>
#include <limits.h>

#include "model/sentence.h"

enum step_kind { STEP_DENSE, STEP_LAYER_NORM, STEP_NORMALIZE };

struct sentence_step {
    enum step_kind kind;
    size_t in, out;             /* widths; they differ in a Dense only */
    struct linear linear;       /* DENSE: activation(linear(x)), or linear(x) alone */
    bool activated;             /* DENSE */
    enum activation activation; /* DENSE, if activated */
    struct norm norm;           /* LAYER_NORM, eps 1e-5 */
    struct weights *weights;    /* owned; NULL: it needs none */
};

enum { SENTENCE_NAME_BYTES = 256 };

/* What reading modules.json needs. */
struct sentence_reader {
    struct sentence *sentence; /* has room for the steps */
    const char *dir;
    const struct kernels *kernels;
    struct error *err;
    size_t encoder_width;
    size_t width; /* of the vector so far */

    /* the module at hand */
    size_t index;
    const char *path;    /* within `dir` */
    json_t *config;      /* owned; NULL: not read, or there is none */
    char file[PATH_MAX]; /* of the config, for errors */
};

/* The modules by their class.  Each reads PATH/config.json and its weights, and adds what it does
 * to the sentence.  Errors: those of sentence_open(). */
int sentence_read_pooling(struct sentence_reader *r);
int sentence_read_dense(struct sentence_reader *r);
int sentence_read_layer_norm(struct sentence_reader *r);
int sentence_read_normalize(struct sentence_reader *r);

/* Reads the object in DIR/NAME into `config`, NULL if there is none, and sets `file`. */
int sentence_read_file(struct sentence_reader *r, const char *name);

/* ERR_BAD_MODEL: the field `field` of the file at hand `reason`. */
int sentence_refuse(struct sentence_reader *r, const char *field, const char *reason);

/* A field of `object` that must be absent, null or this text. */
int sentence_require(struct sentence_reader *r, const json_t *object, const char *field,
                     const char *text);

#endif
