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

enum norm_position {
    NORM_POST,     /* x = norm(x + f(x)) */
    NORM_PRE,      /* x = x + f(norm(x)) */
    NORM_PRE_QUERY /* as PRE, but self-attention takes keys and values from the raw x */
};

enum norm_kind {
    NORM_LAYER,         /* (x−mean) / √(var + eps), var over N */
    NORM_LAYER_UNBIASED /* (x−mean) / (std + eps), std over N−1 */
};

enum attention_score {
    SCORE_SCALED_DOT, /* q·k / √K */
    SCORE_DOT,        /* q·k */
    SCORE_COSINE,     /* q·k / (|q| |k|) / temperature */
    SCORE_ADDITIVE    /* w · tanh(q + k), one w a head */
};

enum position_kind {
    POSITION_SINUSOIDAL, /* PE[p,2i] = sin(p / 10000^(2i/D)), PE[p,2i+1] = cos(same) */
    POSITION_LEARNED,
    POSITION_NONE
};

enum activation { ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_SILU };

struct model_config {
    const char *family; /* "transformer"; static */
    size_t width;       /* D */
    size_t encoder_layers, decoder_layers;
    size_t heads;       /* H */
    size_t key_width;   /* K, of one head */
    size_t value_width; /* of one head */
    size_t inner_width; /* F */
    size_t source_vocabulary, target_vocabulary;
    size_t positions_max; /* of source and target rows; SIZE_MAX when nothing limits them */

    enum norm_position norm_position;
    enum norm_kind norm_kind;
    float norm_eps;
    bool embedding_norm;
    bool final_norm;

    enum attention_score attention_score;
    float attention_temperature;
    bool attention_bias, ffn_bias;
    enum activation activation;

    enum position_kind position_kind;
    float embedding_scale; /* tokens' embeddings times this */
    bool shared_embeddings, tied_output, output_bias;
    float output_scale; /* logits times this */

    int32_t pad_id, bos_id, eos_id, start_id; /* −1: none */
};

/* Reads DIR/config.json into *config, and the default generation options into *defaults (owned by
 * the caller, settings_free): those of generation_config.json if the folder has one, else the
 * generation fields of config.json.  Unknown fields are logged as warnings. Errors: ERR_IO,
 * ERR_BAD_MODEL (names file and field), ERR_NO_MEMORY. */
int config_read(struct model_config *config, struct settings *defaults, const char *dir,
                struct error *err);

#endif
