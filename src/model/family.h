/* family.h — the table of model families.  Private to src/model.
 *
 * A family says how its config.json becomes a struct model_config and what its tensors are called;
 * the encoder and the decoder know no family. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include <jansson.h>

#include "model/config.h"

/* Names of the tensors, without ".weight" or ".bias".  In a pattern `*` stands for "encoder" or
 * "decoder", `#` for the number of the layer and `@` for that of its feed-forward sublayer: 1 in
 * the encoder, 2 in the decoder.  NULL: the family has no such tensor. */
struct tensor_names {
    const char *prefixes[3]; /* of all names but, usually, the output's; files have one of them */
    const char *shared;      /* table of source and target */
    const char *tokens;
    const char *positions;
    const char *token_types;
    const char *embedding_norm;
    const char *final_norm;
    const char *relative;                          /* the table of relative positions */
    const char *layer;                             /* the prefix of what follows */
    const char *self, *cross;                      /* attention, within the layer */
    const char *q, *k, *v, *out;                   /* within the attention */
    const char *score;                             /* a whole name within the attention */
    const char *self_norm, *cross_norm, *ffn_norm; /* within the layer */
    const char *ffn_in, *ffn_out; /* of a gated one: ffn_in with "_0" and, the gate, "_1" */
    const char *output;           /* a whole name, unless output_prefixed */
    bool output_prefixed;
    const char *output_bias; /* a whole name, its ending included */
};

/* The names that fairseq gave, which BART's descendants and our own family keep. */
#define FAIRSEQ_NAMES                                                                              \
    .tokens = "*.embed_tokens", .positions = "*.embed_positions",                                  \
    .embedding_norm = "*.layernorm_embedding", .final_norm = "*.layer_norm",                       \
    .layer = "*.layers.#.", .self = "self_attn.", .cross = "encoder_attn.", .q = "q_proj",         \
    .k = "k_proj", .v = "v_proj", .out = "out_proj", .self_norm = "self_attn_layer_norm",          \
    .cross_norm = "encoder_attn_layer_norm", .ffn_norm = "final_layer_norm", .ffn_in = "fc1",      \
    .ffn_out = "fc2"

struct family {
    const char *model_type;
    /* Checks and reads; `file` is for errors. */
    int (*read)(const struct family *family, struct model_config *config, const json_t *json,
                const char *file, struct error *err);
    const void *traits; /* what `read` must know beside the file */
    const struct tensor_names *names;
};

/* NULL when there is none of that name. */
const struct family *family_find(const char *model_type);
/* The names, for messages: "transformer, …"; cut to `size`. */
void family_list(char *out, size_t size);

/* Checks that every family's configuration shares, once it is filled in. */
int family_check(const struct model_config *config, const char *file, struct error *err);

/* The families of one file each. */
extern const struct family family_transformer;
extern const struct family families_bart[];
extern const size_t families_bart_count;
extern const struct family families_t5[];
extern const size_t families_t5_count;
extern const struct family families_bert[];
extern const size_t families_bert_count;

#endif
