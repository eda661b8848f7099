/* BART and its descendants: one layout of fields and tensors, small differences.
 *
 * What the reference decides by the class (place of the norms, kind of positions, …) is in the
 * table below; the old configuration fields for it (normalize_before, static_position_embeddings,
 * add_final_layer_norm, …) are in many folders, and the reference does not read them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config_fields.h"
#include "family.h"

/* As in the file; what it lacks keeps the class's default. */
struct bart_fields {
    size_t d_model, max_position_embeddings;
    size_t encoder_layers, encoder_ffn_dim, encoder_attention_heads;
    size_t decoder_layers, decoder_ffn_dim, decoder_attention_heads;
    size_t vocab_size, decoder_vocab_size, src_vocab_size, tgt_vocab_size;
    enum activation activation_function;
    bool scale_embedding, tie_word_embeddings, share_encoder_decoder_embeddings;
    int32_t pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id;
};

#define PLACE(member) offsetof(struct bart_fields, member)
#define SIZE(name, most)                                                                           \
    {                                                                                              \
#name, FIELD_SIZE, PLACE(name), NULL, 1, most                                              \
    }
#define OTHER(name, kind)                                                                          \
    {                                                                                              \
#name, kind, PLACE(name), NULL, 0, 0                                                       \
    }
#define ALIAS(name, own, most, must_agree)                                                         \
    {                                                                                              \
        { #name, FIELD_SIZE, PLACE(own), NULL, 1, most }, #own, must_agree                         \
    }
static const struct field fields[] = {
    SIZE(d_model, 1 << 16),
    SIZE(max_position_embeddings, 1 << 20),
    SIZE(encoder_layers, 1024),
    SIZE(encoder_ffn_dim, 1 << 20),
    SIZE(encoder_attention_heads, 1024),
    SIZE(decoder_layers, 1024),
    SIZE(decoder_ffn_dim, 1 << 20),
    SIZE(decoder_attention_heads, 1024),
    SIZE(vocab_size, 1 << 24),
    SIZE(decoder_vocab_size, 1 << 24),
    SIZE(src_vocab_size, 1 << 24),
    SIZE(tgt_vocab_size, 1 << 24),
    OTHER(activation_function, FIELD_ACTIVATION),
    OTHER(scale_embedding, FIELD_BOOL),
    OTHER(tie_word_embeddings, FIELD_BOOL),
    OTHER(share_encoder_decoder_embeddings, FIELD_BOOL),
    OTHER(pad_token_id, FIELD_ID),
    OTHER(bos_token_id, FIELD_ID),
    OTHER(eos_token_id, FIELD_IDS),
    OTHER(decoder_start_token_id, FIELD_ID),
};
static const struct field_alias aliases[] = {
    ALIAS(hidden_size, d_model, 1 << 16, false),
    ALIAS(num_hidden_layers, encoder_layers, 1024, false),
    ALIAS(num_attention_heads, encoder_attention_heads, 1024, true),
    ALIAS(vocab_size, tgt_vocab_size, 1 << 24, false),
};

struct bart_traits {
    struct bart_fields defaults;
    enum norm_position norm_position;
    enum position_kind position_kind;
    enum position_count position_count;
    size_t position_offset;
    bool embedding_norm, embedding_norm_first;
    enum {
        VOCABULARY_ONE,
        VOCABULARY_CHOSEN, /* by share_encoder_decoder_embeddings and decoder_vocab_size */
        VOCABULARY_TWO     /* src_vocab_size and tgt_vocab_size */
    } vocabulary;
};

/* Per head: the width of the model divided by the heads. */
static int shape(struct stack_shape *stack, const char *heads_name, size_t layers, size_t heads,
                 size_t inner, size_t width, const char *file, struct error *err)
{
    if (width % heads != 0)
        return error_set(err, ERR_BAD_MODEL, "%s: \"%s\" is %zu, which does not divide %zu", file,
                         heads_name, heads, width);
    *stack = (struct stack_shape){ layers, heads, width / heads, width / heads, inner };
    return 0;
}

static void vocabularies(const struct bart_fields *f, const struct bart_traits *traits,
                         struct model_config *config)
{
    config->source_vocabulary = config->target_vocabulary = f->vocab_size;
    config->shared_embeddings = true;
    config->tied_output = f->tie_word_embeddings;
    config->output_bias = OUTPUT_BIAS_IF_STORED;
    if (traits->vocabulary == VOCABULARY_CHOSEN && !f->share_encoder_decoder_embeddings) {
        config->shared_embeddings = false;
        if (f->decoder_vocab_size)
            config->target_vocabulary = f->decoder_vocab_size;
    } else if (traits->vocabulary == VOCABULARY_TWO) {
        config->source_vocabulary = f->src_vocab_size;
        config->target_vocabulary = f->tgt_vocab_size;
        config->shared_embeddings = false;
        config->output_bias = OUTPUT_BIAS_NONE;
        config->tied_output = true; /* files that stored one of the two tables are about */
    }
}

static int read_bart(const struct family *family, struct model_config *config, const json_t *json,
                     const char *file, struct error *err)
{
    const struct bart_traits *traits = family->traits;
    struct bart_fields f = traits->defaults;
    const bool counted = traits->position_count != COUNT_PLACES;
    if (fields_read(&f, fields, sizeof fields / sizeof *fields, json, file, err) < 0 ||
        fields_read_aliases(&f, aliases, sizeof aliases / sizeof *aliases, json, file, err) < 0)
        return -1;
    if (traits->position_kind == POSITION_FAIRSEQ && f.d_model < 4)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: \"d_model\" is %zu; the sinusoids of this family need 4", file,
                         f.d_model);
    *config = (struct model_config){
        .family = family->model_type,
        .width = f.d_model,
        .positions_max = counted ? SIZE_MAX : f.max_position_embeddings,
        .norm_position = traits->norm_position,
        .norm_eps = 1e-5f,
        .embedding_norm = traits->embedding_norm,
        .embedding_norm_first = traits->embedding_norm_first,
        .final_norm = traits->norm_position == NORM_PRE,
        .attention_bias = true,
        .ffn_bias = true,
        .activation = f.activation_function,
        .position_kind = traits->position_kind,
        .position_count = traits->position_count,
        .position_offset = counted ? (size_t)f.pad_token_id : traits->position_offset,
        .uncounted_id = f.pad_token_id,
        .embedding_scale = f.scale_embedding ? (float)sqrt((double)f.d_model) : 1.0f,
        .output_scale = 1.0f,
        .pad_id = f.pad_token_id,
        .bos_id = f.bos_token_id,
        .eos_id = f.eos_token_id,
        .start_id = f.decoder_start_token_id,
    };
    config->position_rows = f.max_position_embeddings + config->position_offset + counted;
    vocabularies(&f, traits, config);
    if (shape(&config->encoder, "encoder_attention_heads", f.encoder_layers,
              f.encoder_attention_heads, f.encoder_ffn_dim, f.d_model, file, err) < 0 ||
        shape(&config->decoder, "decoder_attention_heads", f.decoder_layers,
              f.decoder_attention_heads, f.decoder_ffn_dim, f.d_model, file, err) < 0)
        return -1;
    return family_check(config, file, err);
}

static const struct tensor_names bart_names = {
    .prefixes = { "model.", "" },
    .shared = "shared",
    FAIRSEQ_NAMES,
    .output = "lm_head",
    .output_bias = "final_logits_bias",
};

/* FSMT has no bias of the output, and its output stands in the decoder. */
static const struct tensor_names fsmt_names = {
    .prefixes = { "model.", "" },
    FAIRSEQ_NAMES,
    .output = "decoder.output_projection",
    .output_prefixed = true,
};

/* The defaults of the reference's configuration classes. */
#define LARGE                                                                                      \
    .d_model = 1024, .max_position_embeddings = 1024, .encoder_layers = 12,                        \
    .encoder_ffn_dim = 4096, .encoder_attention_heads = 16, .decoder_layers = 12,                  \
    .decoder_ffn_dim = 4096, .decoder_attention_heads = 16, .tie_word_embeddings = true,           \
    .share_encoder_decoder_embeddings = true

static const struct bart_traits bart = {
    .defaults = { LARGE, .vocab_size = 50265, .activation_function = ACTIVATION_GELU,
                  .pad_token_id = 1, .eos_token_id = 2, .decoder_start_token_id = 2 },
    .position_kind = POSITION_LEARNED,
    .position_offset = 2,
    .embedding_norm = true,
};

static const struct bart_traits mbart = {
    .defaults = { LARGE, .vocab_size = 50265, .activation_function = ACTIVATION_GELU,
                  .pad_token_id = 1, .eos_token_id = 2, .decoder_start_token_id = -1 },
    .norm_position = NORM_PRE,
    .position_kind = POSITION_LEARNED,
    .position_offset = 2,
    .embedding_norm = true,
};

static const struct bart_traits plbart = {
    .defaults = { .d_model = 768,
                  .max_position_embeddings = 1024,
                  .encoder_layers = 6,
                  .encoder_ffn_dim = 3072,
                  .encoder_attention_heads = 12,
                  .decoder_layers = 6,
                  .decoder_ffn_dim = 3072,
                  .decoder_attention_heads = 12,
                  .vocab_size = 50005,
                  .activation_function = ACTIVATION_GELU,
                  .scale_embedding = true,
                  .tie_word_embeddings = true,
                  .share_encoder_decoder_embeddings = true,
                  .pad_token_id = 1,
                  .eos_token_id = 2,
                  .decoder_start_token_id = -1 },
    .position_kind = POSITION_LEARNED,
    .position_offset = 2,
    .embedding_norm = true,
};

static const struct bart_traits marian = {
    .defaults = { LARGE, .vocab_size = 58101, .activation_function = ACTIVATION_GELU,
                  .pad_token_id = 58100, .bos_token_id = -1, .decoder_start_token_id = 58100 },
    .position_kind = POSITION_HALVES,
    .vocabulary = VOCABULARY_CHOSEN,
};

static const struct bart_traits m2m_100 = {
    .defaults = { LARGE, .vocab_size = 128112, .activation_function = ACTIVATION_RELU,
                  .scale_embedding = true, .pad_token_id = 1, .eos_token_id = 2,
                  .decoder_start_token_id = 2 },
    .norm_position = NORM_PRE,
    .position_kind = POSITION_FAIRSEQ,
    .position_count = COUNT_REAL,
};

static const struct bart_traits pegasus = {
    .defaults = { LARGE, .vocab_size = 50265, .activation_function = ACTIVATION_GELU,
                  .bos_token_id = -1, .eos_token_id = 1 },
    .norm_position = NORM_PRE,
    .position_kind = POSITION_HALVES,
};

static const struct bart_traits blenderbot = {
    .defaults = { .d_model = 2560,
                  .max_position_embeddings = 128,
                  .encoder_layers = 2,
                  .encoder_ffn_dim = 10240,
                  .encoder_attention_heads = 32,
                  .decoder_layers = 24,
                  .decoder_ffn_dim = 10240,
                  .decoder_attention_heads = 32,
                  .vocab_size = 8008,
                  .activation_function = ACTIVATION_GELU,
                  .tie_word_embeddings = true,
                  .share_encoder_decoder_embeddings = true,
                  .bos_token_id = 1,
                  .eos_token_id = 2,
                  .decoder_start_token_id = 1 },
    .norm_position = NORM_PRE,
    .position_kind = POSITION_LEARNED,
};

static const struct bart_traits blenderbot_small = {
    .defaults = { .d_model = 512,
                  .max_position_embeddings = 512,
                  .encoder_layers = 8,
                  .encoder_ffn_dim = 2048,
                  .encoder_attention_heads = 16,
                  .decoder_layers = 8,
                  .decoder_ffn_dim = 2048,
                  .decoder_attention_heads = 16,
                  .vocab_size = 50265,
                  .activation_function = ACTIVATION_GELU,
                  .tie_word_embeddings = true,
                  .share_encoder_decoder_embeddings = true,
                  .bos_token_id = 1,
                  .eos_token_id = 2,
                  .decoder_start_token_id = 1 },
    .position_kind = POSITION_LEARNED,
    .embedding_norm = true,
    .embedding_norm_first = true,
};

static const struct bart_traits fsmt = {
    .defaults = { LARGE, .src_vocab_size = 42024, .tgt_vocab_size = 42024,
                  .activation_function = ACTIVATION_RELU, .scale_embedding = true,
                  .pad_token_id = 1, .eos_token_id = 2, .decoder_start_token_id = 2 },
    .position_kind = POSITION_FAIRSEQ,
    .position_count = COUNT_REAL_SHIFTED,
    .vocabulary = VOCABULARY_TWO,
};

const struct family families_bart[] = {
    { "bart", read_bart, &bart, &bart_names },
    { "mbart", read_bart, &mbart, &bart_names },
    { "plbart", read_bart, &plbart, &bart_names },
    { "marian", read_bart, &marian, &bart_names },
    { "m2m_100", read_bart, &m2m_100, &bart_names },
    { "pegasus", read_bart, &pegasus, &bart_names },
    { "blenderbot", read_bart, &blenderbot, &bart_names },
    { "blenderbot-small", read_bart, &blenderbot_small, &bart_names },
    { "fsmt", read_bart, &fsmt, &fsmt_names },
};
const size_t families_bart_count = sizeof families_bart / sizeof *families_bart;
