/* family.h — the table of model families.  Private to src/model.
 *
 * A family says how its config.json becomes a struct model_config and what its tensors are called;
 * the encoder and the decoder know no family. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include <jansson.h>

#include "model/config.h"

/* Names of the tensors, without ".weight" or ".bias".  In a pattern `*` stands for "encoder" or
 * "decoder" and `#` for the number of the layer. */
struct tensor_names {
    const char *shared; /* table of source and target */
    const char *tokens;
    const char *positions;
    const char *embedding_norm;
    const char *final_norm;
    const char *layer;                             /* the prefix of what follows */
    const char *self, *cross;                      /* attention, within the layer */
    const char *q, *k, *v, *out;                   /* within the attention */
    const char *score;                             /* a whole name within the attention */
    const char *self_norm, *cross_norm, *ffn_norm; /* within the layer */
    const char *ffn_in, *ffn_out;
    const char *output;
};

struct family {
    const char *model_type;
    /* Checks and reads; `file` is for errors. */
    int (*read)(struct model_config *config, const json_t *json, const char *file,
                struct error *err);
    struct tensor_names names;
};

/* NULL when there is none of that name. */
const struct family *family_find(const char *model_type);
/* The names, for messages: "transformer, …"; cut to `size`. */
void family_list(char *out, size_t size);

/* The family of the 2017 architecture (src/model/family_transformer.c). */
extern const struct family family_transformer;

#endif
