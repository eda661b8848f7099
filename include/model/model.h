/* model.h — a model folder, mapped read-only and shared by every worker.
 *
 * Const after model_open(); safe from any thread until model_close().
 * Shapes: D width, H heads, K key width of a head, F inner width, V vocabulary, L layers, S source
 * tokens, T target tokens. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/error.h"
#include "base/value.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/findings.h"

struct linear {
    struct matrix w;   /* (out, in) */
    const float *bias; /* (out) or NULL */
};

struct norm {
    const float *weight, *bias; /* (D); no bias in an RMS norm */
};

struct attention_weights {
    struct linear q, k, v;     /* (H·K, D), (H·K, D), (H·value width, D) */
    struct linear out;         /* (D, H·value width) */
    const float *score_weight; /* (H, K), additive attention only */
    const float *relative;     /* (H, buckets), added to the scores; NULL: nothing */
};

struct layer {
    struct attention_weights self, cross; /* cross: decoder only */
    struct norm self_norm, cross_norm, ffn_norm;
    struct linear ffn_in, ffn_out; /* (F, D), (D, F) */
    struct linear ffn_gate;        /* (F, D), if the feed-forward is gated */
};

struct stack {
    struct matrix tokens;    /* (V, D) */
    struct matrix positions; /* (rows, D), data NULL when there is no table */
    const float *token_type; /* (D), added to every token; or NULL */
    /* (2R + 1), R = relative_distance: the bucket of the distance key − query, −R … R and the same
     * beyond; NULL without relative positions */
    const uint16_t *buckets;
    struct norm embedding_norm, final_norm;
    struct layer *layers;
    size_t layer_count;
};

struct weights;
struct sentence;

struct model {
    char *name;
    char *dir;
    struct model_config config;
    struct settings defaults; /* of generation, as in the folder */
    struct stack encoder, decoder;
    struct linear output;       /* (V, D); nothing if the model only encodes */
    struct matrix output_rows;  /* the same in rows; data NULL: the files have it only in panels */
    struct matrix screen;       /* the same in panels of int8 (model/screen.h); data NULL: none */
    const float *screen_bounds; /* (2, V), see model/pack.h */
    enum dtype dtype;           /* of most of the weights */
    size_t parameter_count;
    size_t mapped_bytes; /* of the weight files */
    size_t copied_bytes; /* vectors widened or copied because they lay unaligned */
    struct weights *weights;
    struct sentence *sentence; /* what modules.json says; NULL: the folder has none */
};

/* Opens the folder `dir`.  *out is the caller's until model_close(); NULL on failure.
 * Errors: ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY; messages name the file and the field or tensor. */
int model_open(struct model **out, const char *dir, const char *name, const struct kernels *kernels,
               struct error *err);

/* Replaces *model, which nothing uses yet, by the same with its matrices packed in a file of the
 * folder `dir`, which is made if it is not there; several processes may do this at once.  If that
 * fails the model stays as it is, with a warning.  A packed folder needs no copy. */
void model_use_cache(struct model **model, const char *dir, const struct kernels *kernels);

/* What can be put together of the folder, whatever is wrong with it, for those who only look.  It
 * may be served if there are no problems among the findings.  NULL: config.json could not be read.
 * The caller's until model_close(). */
struct model *model_examine(const char *dir, const struct kernels *kernels,
                            struct findings *findings);

/* How many of the encoder's and decoder's parameters have each dtype; modules.json's not. */
void model_count(const struct model *model, size_t counts[DTYPE_COUNT]);
/* The name of the tensor at `data`, which some matrix of the model borrows; NULL: none. */
const char *model_tensor_name(const struct model *model, const void *data);

/* Unmaps and sets *model to NULL.  *model may be NULL.  No thread may still use it. */
void model_close(struct model **model);

#endif
