/* The encoders of BERT's kind: post-norm layers over token + token type + position.  They answer
 * /v1/encode only.  Poolers and heads that a folder may have are not used. */
#include <string.h>

#include "config_fields.h"
#include "family.h"

struct bert_fields {
    size_t hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    size_t max_position_embeddings, type_vocab_size, vocab_size, relative_attention_num_buckets;
    float layer_norm_eps;
    enum activation hidden_act;
    bool is_decoder, sinusoidal_pos_embds;
    int32_t pad_token_id, bos_token_id, eos_token_id;
};

/* Of MPNet: the reference's sums are fixed to these; its field sizes the table alone. */
enum { BUCKETS = 32, BUCKETS_DISTANCE = 128 };

#define PLACE(member) offsetof(struct bert_fields, member)
#define FIELD(name, kind, member, least, most)                                                     \
    {                                                                                              \
        name, kind, PLACE(member), NULL, least, most                                               \
    }
#define COMMON_FIELDS                                                                              \
    FIELD("max_position_embeddings", FIELD_SIZE, max_position_embeddings, 1, 1 << 20),             \
        FIELD("vocab_size", FIELD_SIZE, vocab_size, 1, 1 << 24),                                   \
        FIELD("pad_token_id", FIELD_ID, pad_token_id, 0, 0),                                       \
        FIELD("bos_token_id", FIELD_ID, bos_token_id, 0, 0),                                       \
        FIELD("eos_token_id", FIELD_IDS, eos_token_id, 0, 0)
static const struct field usual_fields[] = {
    COMMON_FIELDS,
    FIELD("hidden_size", FIELD_SIZE, hidden_size, 1, 1 << 16),
    FIELD("num_hidden_layers", FIELD_SIZE, num_hidden_layers, 1, 1024),
    FIELD("num_attention_heads", FIELD_SIZE, num_attention_heads, 1, 1024),
    FIELD("intermediate_size", FIELD_SIZE, intermediate_size, 1, 1 << 20),
    FIELD("type_vocab_size", FIELD_SIZE, type_vocab_size, 1, 1 << 16),
    FIELD("relative_attention_num_buckets", FIELD_SIZE, relative_attention_num_buckets, BUCKETS,
          BUCKETS),
    FIELD("layer_norm_eps", FIELD_FLOAT, layer_norm_eps, 0, 1),
    FIELD("hidden_act", FIELD_ACTIVATION, hidden_act, 0, 0),
    FIELD("is_decoder", FIELD_BOOL, is_decoder, 0, 0),
};
/* Its norms have an eps of their own. */
static const struct field distilbert_fields[] = {
    COMMON_FIELDS,
    FIELD("dim", FIELD_SIZE, hidden_size, 1, 1 << 16),
    FIELD("n_layers", FIELD_SIZE, num_hidden_layers, 1, 1024),
    FIELD("n_heads", FIELD_SIZE, num_attention_heads, 1, 1024),
    FIELD("hidden_dim", FIELD_SIZE, intermediate_size, 1, 1 << 20),
    FIELD("activation", FIELD_ACTIVATION, hidden_act, 0, 0),
    FIELD("sinusoidal_pos_embds", FIELD_BOOL, sinusoidal_pos_embds, 0, 0),
};
/* Only DistilBERT's own names are others. */
static const struct field_alias aliases[] = {
    { FIELD("hidden_size", FIELD_SIZE, hidden_size, 1, 1 << 16), "dim", false },
    { FIELD("num_hidden_layers", FIELD_SIZE, num_hidden_layers, 1, 1024), "n_layers", false },
    { FIELD("num_attention_heads", FIELD_SIZE, num_attention_heads, 1, 1024), "n_heads", true },
};

struct bert_traits {
    struct bert_fields defaults;
    const struct field *fields;
    size_t field_count;
    bool has_aliases;
    bool token_types; /* the class has the table */
    bool counted;     /* positions count the ids that are not padding, behind the padding's row */
    int32_t uncounted_id; /* what counts as padding there; −1: what the file calls so */
    bool relative;        /* MPNet's biases by distance */
};

/* What would change the computation and is not built. */
static int check_bert(const struct bert_fields *f, const json_t *json, const char *file,
                      struct error *err)
{
    const char *kind = json_string_value(json_object_get(json, "position_embedding_type"));
    if (kind && strcmp(kind, "absolute") != 0)
        return error_set(
            err, ERR_BAD_MODEL,
            "%s: \"position_embedding_type\" is \"%.40s\"; only \"absolute\" is served", file,
            kind);
    if (f->sinusoidal_pos_embds)
        return error_set(err, ERR_BAD_MODEL, "%s: \"sinusoidal_pos_embds\" is not served", file);
    if (f->is_decoder)
        return error_set(err, ERR_BAD_MODEL, "%s: \"is_decoder\" is true; only encoders are served",
                         file);
    if (f->hidden_size % f->num_attention_heads != 0)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: %zu attention heads do not divide the hidden size, %zu", file,
                         f->num_attention_heads, f->hidden_size);
    return 0;
}

static int read_bert(const struct family *family, struct model_config *config, const json_t *json,
                     const char *file, struct error *err)
{
    const struct bert_traits *traits = family->traits;
    struct bert_fields f = traits->defaults;
    if (fields_read(&f, traits->fields, traits->field_count, json, file, err) < 0 ||
        (traits->has_aliases &&
         fields_read_aliases(&f, aliases, sizeof aliases / sizeof *aliases, json, file, err) < 0) ||
        check_bert(&f, json, file, err) < 0)
        return -1;
    const size_t head = f.hidden_size / f.num_attention_heads;
    const int32_t uncounted = traits->uncounted_id < 0 ? f.pad_token_id : traits->uncounted_id;
    const size_t before = traits->counted ? (size_t)uncounted + 1 : 0;
    if (f.max_position_embeddings <= before)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: \"max_position_embeddings\" is %zu; it must be above the padding's "
                         "row, %zu",
                         file, f.max_position_embeddings, before - 1);
    *config = (struct model_config){
        .family = family->model_type,
        .width = f.hidden_size,
        .encoder = { f.num_hidden_layers, f.num_attention_heads, head, head, f.intermediate_size },
        .source_vocabulary = f.vocab_size,
        .positions_max = f.max_position_embeddings - before,
        .norm_position = NORM_POST,
        .norm_eps = f.layer_norm_eps,
        .embedding_norm = true,
        .attention_bias = true,
        .ffn_bias = true,
        .activation = f.hidden_act,
        .position_kind = POSITION_LEARNED,
        .position_count = traits->counted ? COUNT_REAL : COUNT_PLACES,
        .position_offset = traits->counted ? (size_t)uncounted : 0,
        .uncounted_id = uncounted,
        .position_rows = f.max_position_embeddings,
        .relative_buckets = traits->relative ? BUCKETS : 0,
        .relative_distance = BUCKETS_DISTANCE,
        .token_types = traits->token_types ? f.type_vocab_size : 0,
        .embedding_scale = 1.0f,
        .output_scale = 1.0f,
        .pad_id = f.pad_token_id,
        .bos_id = f.bos_token_id,
        .eos_id = f.eos_token_id,
        .start_id = -1,
    };
    return 0;
}

#define LAYER                                                                                      \
    .layer = "encoder.layer.#.", .self = "attention.", .q = "self.query", .k = "self.key",         \
    .v = "self.value", .out = "output.dense", .self_norm = "attention.output.LayerNorm",           \
    .ffn_in = "intermediate.dense", .ffn_out = "output.dense", .ffn_norm = "output.LayerNorm"
#define EMBEDDINGS                                                                                 \
    .tokens = "embeddings.word_embeddings", .positions = "embeddings.position_embeddings",         \
    .token_types = "embeddings.token_type_embeddings", .embedding_norm = "embeddings.LayerNorm"

static const struct tensor_names bert_names = { .prefixes = { "bert.", "" }, EMBEDDINGS, LAYER };
static const struct tensor_names roberta_names = { .prefixes = { "roberta.", "" },
                                                   EMBEDDINGS,
                                                   LAYER };
static const struct tensor_names mpnet_names = {
    .prefixes = { "mpnet.", "" },
    EMBEDDINGS,
    .relative = "encoder.relative_attention_bias",
    .layer = "encoder.layer.#.",
    .self = "attention.",
    .q = "attn.q",
    .k = "attn.k",
    .v = "attn.v",
    .out = "attn.o",
    .self_norm = "attention.LayerNorm",
    .ffn_in = "intermediate.dense",
    .ffn_out = "output.dense",
    .ffn_norm = "output.LayerNorm",
};
static const struct tensor_names distilbert_names = {
    .prefixes = { "distilbert.", "" },
    EMBEDDINGS,
    .layer = "transformer.layer.#.",
    .self = "attention.",
    .q = "q_lin",
    .k = "k_lin",
    .v = "v_lin",
    .out = "out_lin",
    .self_norm = "sa_layer_norm",
    .ffn_in = "ffn.lin1",
    .ffn_out = "ffn.lin2",
    .ffn_norm = "output_layer_norm",
};

/* The defaults of the reference's configuration classes. */
#define BASE                                                                                       \
    .hidden_size = 768, .num_attention_heads = 12, .intermediate_size = 3072,                      \
    .max_position_embeddings = 512, .layer_norm_eps = 1e-12f, .hidden_act = ACTIVATION_GELU
#define FIELDS(table) .fields = table, .field_count = sizeof table / sizeof *table
#define ROBERTA(vocabulary)                                                                        \
    {                                                                                              \
        .defaults = { BASE,                                                                        \
                      .num_hidden_layers = 12,                                                     \
                      .vocab_size = vocabulary,                                                    \
                      .type_vocab_size = 2,                                                        \
                      .pad_token_id = 1,                                                           \
                      .eos_token_id = 2 },                                                         \
        FIELDS(usual_fields), .token_types = true, .counted = true, .uncounted_id = -1             \
    }

static const struct bert_traits bert = { .defaults = { BASE, .num_hidden_layers = 12,
                                                       .vocab_size = 30522, .type_vocab_size = 2,
                                                       .bos_token_id = -1, .eos_token_id = -1 },
                                         FIELDS(usual_fields),
                                         .token_types = true };
static const struct bert_traits roberta = ROBERTA(50265);
static const struct bert_traits xlm_roberta = ROBERTA(30522);
static const struct bert_traits mpnet = { .defaults = { BASE, .num_hidden_layers = 12,
                                                        .vocab_size = 30527, .pad_token_id = 1,
                                                        .eos_token_id = 2 },
                                          FIELDS(usual_fields),
                                          .counted = true,
                                          .uncounted_id = 1,
                                          .relative = true };
static const struct bert_traits distilbert = {
    .defaults = { BASE, .num_hidden_layers = 6, .vocab_size = 30522, .bos_token_id = -1,
                  .eos_token_id = -1 },
    FIELDS(distilbert_fields),
    .has_aliases = true,
};

const struct family families_bert[] = {
    { "bert", read_bert, &bert, &bert_names },
    { "roberta", read_bert, &roberta, &roberta_names },
    { "xlm-roberta", read_bert, &xlm_roberta, &roberta_names },
    { "camembert", read_bert, &xlm_roberta, &roberta_names },
    { "mpnet", read_bert, &mpnet, &mpnet_names },
    { "distilbert", read_bert, &distilbert, &distilbert_names },
};
const size_t families_bert_count = sizeof families_bert / sizeof *families_bert;
