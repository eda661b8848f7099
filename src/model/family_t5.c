/* T5 and its descendants: "t5" (v1.0, v1.1, FLAN, ByT5, MADLAD), "mt5", "umt5"; and their encoders
 * alone, as sentence-transformers use them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config_fields.h"
#include "family.h"

struct t5_fields {
    size_t d_model, d_kv, d_ff, num_layers, num_decoder_layers, num_heads, vocab_size;
    size_t relative_attention_num_buckets, relative_attention_max_distance;
    float layer_norm_epsilon;
    enum activation dense_act_fn;
    bool is_gated_act, scale_decoder_outputs;
    int32_t pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id;
};

#define PLACE(member) offsetof(struct t5_fields, member)
#define SIZE(name, least, most)                                                                    \
    {                                                                                              \
#name, FIELD_SIZE, PLACE(name), NULL, least, most                                          \
    }
#define OTHER(name, kind)                                                                          \
    {                                                                                              \
#name, kind, PLACE(name), NULL, 0, 1                                                       \
    }
/* With fewer than 4 buckets none would be left for the near distances of one direction. */
static const struct field fields[] = {
    SIZE(d_model, 1, 1 << 16),
    SIZE(d_kv, 1, 1 << 16),
    SIZE(d_ff, 1, 1 << 20),
    SIZE(num_layers, 1, 1024),
    SIZE(num_decoder_layers, 1, 1024),
    SIZE(num_heads, 1, 1024),
    SIZE(vocab_size, 1, 1 << 24),
    SIZE(relative_attention_num_buckets, 4, UINT16_MAX),
    SIZE(relative_attention_max_distance, 2, 1 << 16),
    OTHER(layer_norm_epsilon, FIELD_FLOAT),
    OTHER(dense_act_fn, FIELD_ACTIVATION),
    OTHER(is_gated_act, FIELD_BOOL),
    OTHER(scale_decoder_outputs, FIELD_BOOL),
    OTHER(pad_token_id, FIELD_ID),
    OTHER(bos_token_id, FIELD_ID),
    OTHER(eos_token_id, FIELD_IDS),
    OTHER(decoder_start_token_id, FIELD_ID),
};
#define ALIAS(name, own, most, must_agree)                                                         \
    {                                                                                              \
        { #name, FIELD_SIZE, PLACE(own), NULL, 1, most }, #own, must_agree                         \
    }
static const struct field_alias aliases[] = {
    ALIAS(hidden_size, d_model, 1 << 16, false),
    ALIAS(num_hidden_layers, num_layers, 1024, false),
    ALIAS(num_attention_heads, num_heads, 1024, true),
    ALIAS(head_dim, d_kv, 1 << 16, true),
};

struct t5_traits {
    struct t5_fields defaults;
    const char *feed_forward; /* default of feed_forward_proj */
    bool relative_every_layer;
    bool never_scales;
};

/* "relu", "gated-silu", …; the original "gated-gelu" means the form by tanh. */
static int read_feed_forward(struct t5_fields *f, const struct t5_traits *traits,
                             const json_t *json, const char *file, struct error *err)
{
    const json_t *given = json_object_get(json, "feed_forward_proj");
    const char *text = json_is_string(given) ? json_string_value(given) : traits->feed_forward;
    f->is_gated_act = strncmp(text, "gated-", 6) == 0;
    const char *name = f->is_gated_act ? text + 6 : text;
    if (strcmp(text, "gated-gelu") == 0)
        name = "gelu_new";
    if ((given && !json_is_null(given) && !json_is_string(given)) ||
        !activation_find(name, &f->dense_act_fn))
        return error_set(err, ERR_BAD_MODEL,
                         "%s: \"feed_forward_proj\" is \"%.40s\"; it must be the name of an "
                         "activation, or \"gated-\" and one",
                         file, json_is_string(given) ? text : "no text");
    return 0;
}

/* Folders of the encoder alone say so by the name of their class. */
static bool is_encoder(const json_t *json)
{
    const char *name = json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    const char *end = name ? strstr(name, "EncoderModel") : NULL;
    return end && strcmp(end, "EncoderModel") == 0;
}

static int read_t5(const struct family *family, struct model_config *config, const json_t *json,
                   const char *file, struct error *err)
{
    const struct t5_traits *traits = family->traits;
    struct t5_fields f = traits->defaults;
    /* Only an untied output is not scaled, and "untied" was the older word for it: the reference
     * ties when there is one table, whatever the file says. */
    f.scale_decoder_outputs = !json_is_false(json_object_get(json, "tie_word_embeddings"));
    if (read_feed_forward(&f, traits, json, file, err) < 0 ||
        fields_read(&f, fields, sizeof fields / sizeof *fields, json, file, err) < 0)
        return -1;
    if (f.num_decoder_layers == 0) /* what an alias says comes too late for it */
        f.num_decoder_layers = f.num_layers;
    if (fields_read_aliases(&f, aliases, sizeof aliases / sizeof *aliases, json, file, err) < 0)
        return -1;
    if (f.relative_attention_max_distance <= f.relative_attention_num_buckets / 2)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: \"relative_attention_max_distance\" is %zu; it must be above half of "
                         "\"relative_attention_num_buckets\", %zu",
                         file, f.relative_attention_max_distance, f.relative_attention_num_buckets);
    const bool scales = f.scale_decoder_outputs && !traits->never_scales;
    *config = (struct model_config){
        .family = family->model_type,
        .width = f.d_model,
        .encoder = { f.num_layers, f.num_heads, f.d_kv, f.d_kv, f.d_ff },
        .decoder = { f.num_decoder_layers, f.num_heads, f.d_kv, f.d_kv, f.d_ff },
        .source_vocabulary = f.vocab_size,
        .target_vocabulary = f.vocab_size,
        .positions_max = SIZE_MAX,
        .norm_position = NORM_PRE,
        .norm_kind = NORM_RMS,
        .norm_eps = f.layer_norm_epsilon,
        .final_norm = true,
        .attention_score = SCORE_DOT,
        .gated = f.is_gated_act,
        .ffn_out_float32 = true,
        .activation = f.dense_act_fn,
        .position_kind = POSITION_NONE,
        .relative_buckets = f.relative_attention_num_buckets,
        .relative_distance = f.relative_attention_max_distance,
        .relative_every_layer = traits->relative_every_layer,
        .embedding_scale = 1.0f,
        .shared_embeddings = true,
        .tied_output = true,
        .output_scale = scales ? (float)(1.0 / sqrt((double)f.d_model)) : 1.0f,
        .pad_id = f.pad_token_id,
        .bos_id = f.bos_token_id,
        .eos_id = f.eos_token_id,
        .start_id = f.decoder_start_token_id,
    };
    if (is_encoder(json))
        config->decoder.layers = 0;
    return family_check(config, file, err);
}

static const struct tensor_names t5_names = {
    .prefixes = { "" },
    .shared = "shared",
    .tokens = "*.embed_tokens",
    .final_norm = "*.final_layer_norm",
    .relative = "*.block.#.layer.0.SelfAttention.relative_attention_bias",
    .layer = "*.block.#.",
    .self = "layer.0.SelfAttention.",
    .cross = "layer.1.EncDecAttention.",
    .q = "q",
    .k = "k",
    .v = "v",
    .out = "o",
    .self_norm = "layer.0.layer_norm",
    .cross_norm = "layer.1.layer_norm",
    .ffn_norm = "layer.@.layer_norm",
    .ffn_in = "layer.@.DenseReluDense.wi",
    .ffn_out = "layer.@.DenseReluDense.wo",
    .output = "lm_head",
};

/* The defaults of the reference's configuration classes. */
#define MULTILINGUAL                                                                               \
    .d_model = 512, .d_kv = 64, .d_ff = 1024, .num_layers = 8, .num_heads = 6,                     \
    .vocab_size = 250112, .relative_attention_num_buckets = 32,                                    \
    .relative_attention_max_distance = 128, .layer_norm_epsilon = 1e-6f, .bos_token_id = -1,       \
    .eos_token_id = 1

static const struct t5_traits t5 = {
    .defaults = { .d_model = 512,
                  .d_kv = 64,
                  .d_ff = 2048,
                  .num_layers = 6,
                  .num_heads = 8,
                  .vocab_size = 32128,
                  .relative_attention_num_buckets = 32,
                  .relative_attention_max_distance = 128,
                  .layer_norm_epsilon = 1e-6f,
                  .bos_token_id = -1,
                  .eos_token_id = 1,
                  .decoder_start_token_id = -1 },
    .feed_forward = "relu",
};
static const struct t5_traits mt5 = { .defaults = { MULTILINGUAL },
                                      .feed_forward = "gated-gelu",
                                      .never_scales = true };
static const struct t5_traits umt5 = { .defaults = { MULTILINGUAL },
                                       .feed_forward = "gated-gelu",
                                       .relative_every_layer = true };

const struct family families_t5[] = {
    { "t5", read_t5, &t5, &t5_names },
    { "mt5", read_t5, &mt5, &t5_names },
    { "umt5", read_t5, &umt5, &t5_names },
};
const size_t families_t5_count = sizeof families_t5 / sizeof *families_t5;
