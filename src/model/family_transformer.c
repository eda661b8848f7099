/* "model_type": "transformer": the architecture of "Attention Is All You Need" (2017) with the
 * variations that people train from tutorials.  docs/model-format.md lists fields and tensors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config_fields.h"
#include "family.h"

/* What the file says before defaults that depend on other fields are resolved; 0 or −1: not said.
 */
struct transformer_fields {
    size_t d_model, encoder_layers, decoder_layers, d_ff, d_k, d_v;
    size_t attention_heads, encoder_attention_heads, decoder_attention_heads;
    size_t vocab_size, src_vocab_size, tgt_vocab_size, max_position_embeddings;
    enum norm_position norm_position;
    enum norm_kind norm_kind;
    enum attention_score attention_score;
    enum position_kind position_embedding;
    enum activation activation;
    float layer_norm_eps, attention_temperature;
    bool attention_bias, ffn_bias, scale_embedding, embedding_layer_norm;
    bool share_embeddings, tie_output, output_bias, scale_output;
    int final_layer_norm;
    int32_t pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id;
};

static const char *const norm_positions[] = { "post", "pre", "pre_query", NULL };
static const char *const norm_variances[] = { "biased", "unbiased", NULL };
static const char *const scores[] = { "scaled_dot", "dot", "cosine", "additive", NULL };
static const char *const positions[] = { "sinusoidal", "learned", "none", NULL };
static const char *const activations[] = { "relu", "gelu", "gelu_tanh", "silu", NULL };

#define PLACE(member) offsetof(struct transformer_fields, member)
#define SIZE(name, least, most)                                                                    \
    {                                                                                              \
#name, FIELD_SIZE, PLACE(name), NULL, least, most                                          \
    }
#define FLAG(name)                                                                                 \
    {                                                                                              \
#name, FIELD_BOOL, PLACE(name), NULL, 0, 0                                                 \
    }
#define ID(name)                                                                                   \
    {                                                                                              \
#name, FIELD_ID, PLACE(name), NULL, 0, 0                                                   \
    }

static const struct field fields[] = {
    SIZE(d_model, 1, 1 << 16),
    SIZE(encoder_layers, 1, 1024),
    SIZE(decoder_layers, 1, 1024),
    SIZE(attention_heads, 1, 1024),
    SIZE(encoder_attention_heads, 1, 1024),
    SIZE(decoder_attention_heads, 1, 1024),
    SIZE(d_ff, 1, 1 << 20),
    SIZE(d_k, 1, 1 << 16),
    SIZE(d_v, 1, 1 << 16),
    SIZE(vocab_size, 1, 1 << 24),
    SIZE(src_vocab_size, 1, 1 << 24),
    SIZE(tgt_vocab_size, 1, 1 << 24),
    SIZE(max_position_embeddings, 1, 1 << 20),
    { "norm_position", FIELD_CHOICE, PLACE(norm_position), norm_positions, 0, 0 },
    { "norm_variance", FIELD_CHOICE, PLACE(norm_kind), norm_variances, 0, 0 },
    { "attention_score", FIELD_CHOICE, PLACE(attention_score), scores, 0, 0 },
    { "position_embedding", FIELD_CHOICE, PLACE(position_embedding), positions, 0, 0 },
    { "activation", FIELD_CHOICE, PLACE(activation), activations, 0, 0 },
    { "layer_norm_eps", FIELD_FLOAT, PLACE(layer_norm_eps), NULL, 0, 1 },
    { "attention_temperature", FIELD_FLOAT, PLACE(attention_temperature), NULL, 1e-6, 1e6 },
    FLAG(attention_bias),
    FLAG(ffn_bias),
    FLAG(scale_embedding),
    FLAG(embedding_layer_norm),
    FLAG(share_embeddings),
    FLAG(tie_output),
    FLAG(output_bias),
    FLAG(scale_output),
    ID(pad_token_id),
    ID(bos_token_id),
    ID(eos_token_id),
    ID(decoder_start_token_id),
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

/* Fields that a config.json may carry and that change nothing here. */
static bool is_neutral(const char *name)
{
    static const char *const neutral[] = { "model_type",           "architectures",
                                           "torch_dtype",          "dtype",
                                           "transformers_version", "dropout",
                                           "final_layer_norm",     "is_encoder_decoder",
                                           "max_length",           "_name_or_path" };
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
        if (strcmp(neutral[i], name) == 0)
            return true;
    return false;
}

static int check_fields(struct transformer_fields *f, const char *file, struct error *err)
{
    const struct {
        const char *name;
        size_t value;
    } needed[] = { { "d_model", f->d_model },
                   { "encoder_layers", f->encoder_layers },
                   { "decoder_layers", f->decoder_layers },
                   { "attention_heads", f->encoder_attention_heads },
                   { "attention_heads", f->decoder_attention_heads },
                   { "d_ff", f->d_ff },
                   { "src_vocab_size", f->src_vocab_size },
                   { "tgt_vocab_size", f->tgt_vocab_size } };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].value == 0)
            return error_set(err, ERR_BAD_MODEL, "%s: \"%s\" is missing", file, needed[i].name);
    const size_t heads[] = { f->encoder_attention_heads, f->decoder_attention_heads };
    for (size_t i = 0; i < sizeof heads / sizeof *heads && f->d_k == 0; i++)
        if (f->d_model % heads[i] != 0)
            return error_set(err, ERR_BAD_MODEL,
                             "%s: \"attention_heads\" is %zu, which does not divide \"d_model\" "
                             "%zu, and there is no \"d_k\"",
                             file, heads[i], f->d_model);
    if (f->share_embeddings && f->src_vocab_size != f->tgt_vocab_size)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: \"share_embeddings\" needs equal vocabularies; they are %zu and %zu",
                         file, f->src_vocab_size, f->tgt_vocab_size);
    return 0;
}

static struct stack_shape shape(const struct transformer_fields *f, size_t layers, size_t heads)
{
    const size_t key = f->d_k ? f->d_k : f->d_model / heads;
    return (struct stack_shape){ layers, heads, key, f->d_v ? f->d_v : key, f->d_ff };
}

static void to_config(const struct transformer_fields *f, struct model_config *config)
{
    const float root = (float)sqrt((double)f->d_model);
    *config = (struct model_config){
        .family = family_transformer.model_type,
        .width = f->d_model,
        .encoder = shape(f, f->encoder_layers, f->encoder_attention_heads),
        .decoder = shape(f, f->decoder_layers, f->decoder_attention_heads),
        .source_vocabulary = f->src_vocab_size,
        .target_vocabulary = f->tgt_vocab_size,
        .positions_max =
            f->position_embedding == POSITION_NONE ? SIZE_MAX : f->max_position_embeddings,
        .norm_position = f->norm_position,
        .norm_kind = f->norm_kind,
        .norm_eps = f->layer_norm_eps,
        .embedding_norm = f->embedding_layer_norm,
        .final_norm =
            f->final_layer_norm < 0 ? f->norm_position == NORM_PRE : f->final_layer_norm != 0,
        .attention_score = f->attention_score,
        .attention_temperature = f->attention_temperature,
        .attention_bias = f->attention_bias,
        .ffn_bias = f->ffn_bias,
        .activation = f->activation,
        .position_kind = f->position_embedding,
        .position_rows = f->max_position_embeddings,
        .embedding_scale = f->scale_embedding ? root : 1.0f,
        .shared_embeddings = f->share_embeddings,
        .tied_output = f->tie_output,
        .output_bias = !f->output_bias ? OUTPUT_BIAS_NONE
                       : f->tie_output ? OUTPUT_BIAS_IF_STORED
                                       : OUTPUT_BIAS_NEEDED,
        .output_scale = f->scale_output ? (float)(1.0 / sqrt((double)f->d_model)) : 1.0f,
        .pad_id = f->pad_token_id,
        .bos_id = f->bos_token_id,
        .eos_id = f->eos_token_id,
        .start_id = f->decoder_start_token_id,
    };
}

static int read_transformer(const struct family *family, struct model_config *config,
                            const json_t *json, const char *file, struct error *err)
{
    (void)family;
    struct transformer_fields f = {
        .max_position_embeddings = 100,
        .layer_norm_eps = 1e-6f,
        .attention_temperature = 1.0f,
        .ffn_bias = true,
        .scale_embedding = true,
        .final_layer_norm = -1,
        .pad_token_id = 0,
        .bos_token_id = 2,
        .eos_token_id = 3,
        .decoder_start_token_id = 2,
    };
    if (fields_read(&f, fields, FIELD_COUNT, json, file, err) < 0)
        return -1;
    const json_t *final_norm = json_object_get(json, "final_layer_norm");
    if (json_is_boolean(final_norm))
        f.final_layer_norm = json_is_true(final_norm);
    else if (final_norm && !json_is_null(final_norm))
        return error_set(err, ERR_BAD_MODEL, "%s: \"final_layer_norm\" must be true or false",
                         file);
    if (f.src_vocab_size == 0)
        f.src_vocab_size = f.vocab_size;
    if (f.tgt_vocab_size == 0)
        f.tgt_vocab_size = f.vocab_size;
    if (f.encoder_attention_heads == 0)
        f.encoder_attention_heads = f.attention_heads;
    if (f.decoder_attention_heads == 0)
        f.decoder_attention_heads = f.attention_heads;
    if (check_fields(&f, file, err) < 0)
        return -1;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)json, name, value) {
        if (!fields_have(fields, FIELD_COUNT, name) && !is_neutral(name))
            log_write(LOG_WARNING, "%s: unknown field \"%s\"", file, name);
    }
    to_config(&f, config);
    return family_check(config, file, err);
}

static const struct tensor_names names = {
    .prefixes = { "" },
    .shared = "shared",
    FAIRSEQ_NAMES,
    .score = "score_weight",
    .output = "lm_head",
    .output_bias = "lm_head.bias",
};

const struct family family_transformer = { "transformer", read_transformer, NULL, &names };
