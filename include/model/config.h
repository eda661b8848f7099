/* config.h — what config.json says, as one struct for every family.
 *
 * A family is a row of the table in src/model/family.c: its name, how its fields are read and what
 * its tensors are called.  Everything after reading is this struct: there is one encoder and one
 * decoder. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/value.h"
#include "kernels/kernels.h"

enum norm_position {
    NORM_POST,     /* x = norm(x + f(x)) */
    NORM_PRE,      /* x = x + f(norm(x)) */
    NORM_PRE_QUERY /* as PRE, but self-attention takes keys and values from the raw x */
};

enum attention_score {
    SCORE_SCALED_DOT, /* q·k / √K */
    SCORE_DOT,        /* q·k */
    SCORE_COSINE,     /* q·k / (|q| |k|) / temperature */
    SCORE_ADDITIVE    /* w · tanh(q + k), one w a head */
};

/* What is added to the embedding of a token at position p; a table's row is p + position_offset.
 * The sinusoids differ in their wavelengths and in the order of their numbers: */
enum position_kind {
    POSITION_SINUSOIDAL, /* PE[p,2i] = sin(p / 10000^(2i/D)), PE[p,2i+1] = cos(same) */
    POSITION_LEARNED,
    POSITION_NONE,
    POSITION_HALVES,  /* the same numbers, all sines first, then all cosines (Marian) */
    POSITION_FAIRSEQ, /* the same, wavelengths 10000^(i/(D/2−1)); the padding's row is zero */
    POSITION_KIND_COUNT
};

/* What the position of a token is. */
enum position_count {
    COUNT_PLACES,      /* its place in the row as sent, from 0 */
    COUNT_REAL,        /* its number among the ids that are not padding, from 1; padding: 0 */
    COUNT_REAL_SHIFTED /* the same, but generated padding gets its place (FSMT) */
};

enum output_bias { OUTPUT_BIAS_NONE, OUTPUT_BIAS_IF_STORED, OUTPUT_BIAS_NEEDED };

struct stack_shape {
    size_t layers;      /* L; a decoder of 0 layers: the model only encodes */
    size_t heads;       /* H */
    size_t key_width;   /* K, of one head */
    size_t value_width; /* of one head */
    size_t inner_width; /* F */
};

struct model_config {
    const char *family; /* "transformer", "t5", …: the config's model_type; static */
    size_t width;       /* D */
    struct stack_shape encoder, decoder;
    size_t source_vocabulary, target_vocabulary;
    size_t positions_max; /* of source and target rows; SIZE_MAX when nothing limits them */

    enum norm_position norm_position;
    enum norm_kind norm_kind;
    float norm_eps;
    bool embedding_norm;
    bool embedding_norm_first; /* of the decoder: before the position is added, and unscaled */
    bool final_norm;

    enum attention_score attention_score;
    float attention_temperature;
    bool attention_bias, ffn_bias;
    bool ffn_out_float32; /* the reference keeps ffn_out in float32 when it narrows the rest */
    bool gated; /* feed-forward: activation(x·W_inᵀ) · (x·W_gateᵀ), element by element */
    enum activation activation;

    enum position_kind position_kind;
    enum position_count position_count;
    size_t position_offset;
    int32_t uncounted_id; /* COUNT_REAL…: the id that is not counted, usually the padding */
    size_t position_rows; /* of a stored table */
    /* Relative positions (Raffel et al. 2020, section 2.1): scores get a bias by the bucket of the
     * distance.  0 buckets: none. */
    size_t relative_buckets;
    size_t relative_distance;  /* from here on all distances are alike */
    bool relative_every_layer; /* each layer has its table; else the first one's serves all */
    size_t token_types;        /* rows of the table whose row 0 is added to every token; or 0 */
    float embedding_scale;     /* tokens' embeddings times this */
    bool shared_embeddings;    /* one table may serve source and target */
    bool tied_output;          /* the target's table serves when there is no own output */
    enum output_bias output_bias;
    float output_scale; /* logits times this */

    int32_t pad_id, bos_id, eos_id, start_id; /* −1: none */
};

static inline bool config_generates(const struct model_config *config)
{
    return config->decoder.layers > 0;
}

/* As the reference calls it: "relu", "gelu_new", … */
const char *activation_name(enum activation activation);

/* positions (count) of a row's tokens, all that were sent, masked or not. */
void config_positions(const struct model_config *config, const int32_t *tokens, size_t count,
                      int32_t *positions);

/* Reads DIR/config.json into *config, and the default generation options into *defaults (owned by
 * the caller, settings_free): those of generation_config.json if the folder has one, else the
 * generation fields of config.json.  Unknown fields are logged as warnings. Errors: ERR_IO,
 * ERR_BAD_MODEL (names file and field), ERR_NO_MEMORY. */
int config_read(struct model_config *config, struct settings *defaults, const char *dir,
                struct error *err);

#endif
