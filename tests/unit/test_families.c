/* How every family reads config.json: the defaults of its class, what it refuses, and what follows
 * from the fields.  The figures are those of the reference's classes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "../../src/model/config_fields.h"
#include "any_kernels.h"
#include "base/log.h"
#include "config_folder.h"
#include "family_config.h"
#include "serve/registry.h"

/* Every field that some family reads. */
static const char *const all_fields[] = {
    "d_model",
    "d_kv",
    "d_ff",
    "num_layers",
    "num_heads",
    "num_decoder_layers",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
    "layer_norm_epsilon",
    "feed_forward_proj",
    "scale_decoder_outputs",
    "dense_act_fn",
    "is_gated_act",
    "tie_word_embeddings",
    "architectures",
    "encoder_layers",
    "encoder_ffn_dim",
    "encoder_attention_heads",
    "decoder_layers",
    "decoder_ffn_dim",
    "decoder_attention_heads",
    "vocab_size",
    "decoder_vocab_size",
    "src_vocab_size",
    "tgt_vocab_size",
    "activation_function",
    "scale_embedding",
    "share_encoder_decoder_embeddings",
    "max_position_embeddings",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_act",
    "is_decoder",
    "position_embedding_type",
    "dim",
    "n_layers",
    "n_heads",
    "hidden_dim",
    "activation",
    "sinusoidal_pos_embds",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "decoder_start_token_id",
};

/* All of them, null. */
static const char *nulls(void)
{
    static char text[4096];
    size_t length = 0;
    for (size_t i = 0; i < sizeof all_fields / sizeof *all_fields; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%s\": null",
                                   i ? ", " : "", all_fields[i]);
    return text;
}

static void what_is_missing_or_null_is_the_default_of_the_class(void **state)
{
    (void)state;
#define BART_LARGE "1024 12x16x64/4096 12x16x64/4096 "
#define BASE       "768 12x12x64/3072 0x0x0/0 "
    static const struct {
        const char *type, *expected;
    } cases[] = {
        { "t5", "512 6x8x64/2048 6x8x64/2048 32128/32128 any 0 1 0.0441942 0 -1 1 -1" },
        { "mt5", "512 8x6x64/1024 8x6x64/1024 250112/250112 any gated 2 1 1 0 -1 1 0" },
        { "umt5", "512 8x6x64/1024 8x6x64/1024 250112/250112 any gated 2 1 0.0441942 0 -1 1 0" },
        { "bart", BART_LARGE "50265/50265 1024 1 1 1 1 0 2 2" },
        { "mbart", BART_LARGE "50265/50265 1024 1 1 1 1 0 2 -1" },
        { "plbart", "768 6x12x64/3072 6x12x64/3072 50005/50005 1024 1 27.7128 1 1 0 2 -1" },
        { "marian", BART_LARGE "58101/58101 1024 1 1 1 58100 -1 0 58100" },
        { "m2m_100", BART_LARGE "128112/128112 any 0 32 1 1 0 2 2" },
        { "pegasus", BART_LARGE "50265/50265 1024 1 1 1 0 -1 1 0" },
        { "blenderbot", "2560 2x32x80/10240 24x32x80/10240 8008/8008 128 1 1 1 0 1 2 1" },
        { "blenderbot-small", "512 8x16x32/2048 8x16x32/2048 50265/50265 512 1 1 1 0 1 2 1" },
        { "fsmt", BART_LARGE "42024/42024 any 0 32 1 1 0 2 2" },
        { "bert", BASE "30522/0 512 1 1 1 0 -1 -1 -1" },
        { "roberta", BASE "50265/0 510 1 1 1 1 0 2 -1" },
        { "xlm-roberta", BASE "30522/0 510 1 1 1 1 0 2 -1" },
        { "camembert", BASE "30522/0 510 1 1 1 1 0 2 -1" },
        { "mpnet", BASE "30527/0 510 1 1 1 1 0 2 -1" },
        { "distilbert", "768 6x12x64/3072 0x0x0/0 30522/0 512 1 1 1 0 -1 -1 -1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config missing = config_of(cases[i].type, "");
        assert_string_equal(describe(&missing), cases[i].expected);
        const struct model_config null = config_of(cases[i].type, nulls());
        assert_string_equal(describe(&null), cases[i].expected);
    }
}

static void a_wrong_field_is_told_with_its_value_and_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *type, *fields, *parts[2];
    } cases[] = {
        { "t5", "\"num_heads\": 0", { "\"num_heads\" is 0", "a number from 1 to 1024" } },
        { "t5", "\"d_kv\": 1.5", { "\"d_kv\" is 1.5", "a number from 1" } },
        { "t5", "\"d_model\": \"512\"", { "\"d_model\" is \"512\"", "a number from" } },
        { "t5", "\"num_layers\": -1", { "\"num_layers\" is -1", "a number from 1 to 1024" } },
        { "t5", "\"layer_norm_epsilon\": 2", { "\"layer_norm_epsilon\" is 2", "from 0 to 1" } },
        { "t5", "\"scale_decoder_outputs\": 1", { "is 1", "true or false" } },
        { "t5", "\"relative_attention_num_buckets\": 3", { "is 3", "a number from 4" } },
        { "t5",
          "\"relative_attention_max_distance\": 16",
          { "\"relative_attention_max_distance\" is 16",
            "half of \"relative_attention_num_buckets\", 32" } },
        { "t5", "\"feed_forward_proj\": \"gated-magic\"", { "gated-magic", "activation" } },
        { "t5", "\"feed_forward_proj\": 3", { "\"feed_forward_proj\"", "activation" } },
        { "t5", "\"pad_token_id\": -1", { "\"pad_token_id\" is -1", "a token id" } },
        { "t5", "\"eos_token_id\": \"</s>\"", { "\"eos_token_id\" is", "a token id or a list" } },
        { "t5", "\"eos_token_id\": 32128", { "\"eos_token_id\" is 32128", "0..32127" } },
        { "bart", "\"activation_function\": \"softsign\"", { "\"softsign\"", "gelu_new" } },
        { "bart", "\"scale_embedding\": \"yes\"", { "\"yes\"", "true or false" } },
        { "bart",
          "\"decoder_attention_heads\": 3",
          { "\"decoder_attention_heads\" is 3", "divide 1024" } },
        { "bart", "\"max_position_embeddings\": 0", { "is 0", "a number from 1" } },
        { "bart", "\"encoder_layers\": 2000", { "is 2000", "a number from 1 to 1024" } },
        { "marian",
          "\"decoder_vocab_size\": 32, \"share_encoder_decoder_embeddings\": false,"
          "\"decoder_start_token_id\": 35",
          { "\"decoder_start_token_id\" is 35", "0..31" } },
        { "fsmt", "\"tgt_vocab_size\": 2", { "\"decoder_start_token_id\" is 2", "0..1" } },
        { "bert", "\"is_decoder\": true", { "\"is_decoder\" is true", "only encoders" } },
        { "bert",
          "\"position_embedding_type\": \"relative_key\"",
          { "relative_key", "only \"absolute\"" } },
        { "bert", "\"num_attention_heads\": 7", { "7 attention heads", "768" } },
        { "bert", "\"type_vocab_size\": 0", { "\"type_vocab_size\" is 0", "from 1" } },
        { "roberta", "\"max_position_embeddings\": 2", { "is 2", "padding's row, 1" } },
        { "distilbert", "\"sinusoidal_pos_embds\": true", { "\"sinusoidal_pos_embds\"", "not" } },
        { "longt5", "", { "\"longt5\"", "t5, mt5, umt5" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config;
        struct error err;
        if (read_config(cases[i].type, cases[i].fields, &config, &err) == 0)
            fail_msg("%s is read: %s", cases[i].type, cases[i].fields);
        for (size_t p = 0; p < 2; p++)
            if (!strstr(err.message, cases[i].parts[p]))
                fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].parts[p]);
        assert_non_null(strstr(err.message, "config.json"));
    }
}

static void only_outputs_that_t5_ties_are_scaled(void **state)
{
    (void)state;
    static const struct {
        const char *type, *fields;
        double scale;
    } cases[] = {
        { "t5", "\"d_model\": 16", 0.25 },
        { "t5", "\"d_model\": 16, \"tie_word_embeddings\": true", 0.25 },
        { "t5", "\"d_model\": 16, \"tie_word_embeddings\": false", 1.0 },
        { "t5", "\"d_model\": 16, \"tie_word_embeddings\": true, \"scale_decoder_outputs\": false",
          1.0 },
        { "umt5", "\"d_model\": 16", 0.25 },
        { "umt5", "\"d_model\": 16, \"tie_word_embeddings\": false", 1.0 },
        { "mt5", "\"d_model\": 16", 1.0 },
        { "mt5", "\"d_model\": 16, \"tie_word_embeddings\": true", 1.0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config config = config_of(cases[i].type, cases[i].fields);
        assert_true((double)config.output_scale == cases[i].scale);
    }
}

static void a_decoder_of_t5_without_a_depth_is_as_deep_as_the_encoder(void **state)
{
    (void)state;
    assert_int_equal(config_of("t5", "\"num_layers\": 3").decoder.layers, 3);
    assert_int_equal(
        config_of("t5", "\"num_layers\": 3, \"num_decoder_layers\": null").decoder.layers, 3);
    assert_int_equal(config_of("t5", "\"num_layers\": 3, \"num_decoder_layers\": 2").decoder.layers,
                     2);
}

static void heads_of_t5_need_not_make_up_the_width(void **state)
{
    (void)state;
    const struct model_config config =
        config_of("t5", "\"d_model\": 16, \"d_kv\": 4, \"num_heads\": 2");
    assert_int_equal(config.width, 16);
    assert_int_equal(config.encoder.key_width, 4);
    assert_int_equal(config.decoder.value_width, 4);
}

static void positions_limit_rows_where_the_family_has_a_table(void **state)
{
    (void)state;
    static const char fields[] = "\"max_position_embeddings\": 32";
    static const struct {
        const char *type;
        size_t max, offset, rows;
    } cases[] = {
        { "bart", 32, 2, 34 },          { "mbart", 32, 2, 34 },
        { "plbart", 32, 2, 34 },        { "marian", 32, 0, 32 },
        { "pegasus", 32, 0, 32 },       { "blenderbot", 32, 0, 32 },
        { "m2m_100", SIZE_MAX, 1, 34 }, { "fsmt", SIZE_MAX, 1, 34 },
        { "t5", SIZE_MAX, 0, 0 },       { "bert", 32, 0, 32 },
        { "roberta", 30, 1, 32 },       { "mpnet", 30, 1, 32 },
        { "distilbert", 32, 0, 32 },    { "blenderbot-small", 32, 0, 32 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config config = config_of(cases[i].type, fields);
        assert_int_equal(config.positions_max, cases[i].max);
        assert_int_equal(config.position_offset, cases[i].offset);
        assert_int_equal(config.position_rows, cases[i].rows);
    }
    const struct model_config other =
        config_of("roberta", "\"max_position_embeddings\": 32, \"pad_token_id\": 5");
    assert_int_equal(other.positions_max, 26);
    assert_int_equal(other.position_offset, 5);
}

/* Old fields that say otherwise are in many folders, and the reference does not read them. */
static void where_norms_stand_is_the_family_s_affair(void **state)
{
    (void)state;
    static const char fields[] = "\"normalize_before\": true, \"add_final_layer_norm\": true,"
                                 "\"normalize_embedding\": true, \"do_blenderbot_90_layernorm\": 1";
    static const struct {
        const char *type;
        enum norm_position position;
        bool final, embedding;
    } cases[] = {
        { "bart", NORM_POST, false, true },    { "plbart", NORM_POST, false, true },
        { "marian", NORM_POST, false, false }, { "fsmt", NORM_POST, false, false },
        { "mbart", NORM_PRE, true, true },     { "m2m_100", NORM_PRE, true, false },
        { "pegasus", NORM_PRE, true, false },  { "blenderbot", NORM_PRE, true, false },
        { "t5", NORM_PRE, true, false },       { "blenderbot-small", NORM_POST, false, true },
        { "bert", NORM_POST, false, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config config = config_of(cases[i].type, fields);
        assert_int_equal(config.norm_position, cases[i].position);
        assert_int_equal(config.final_norm, cases[i].final);
        assert_int_equal(config.embedding_norm, cases[i].embedding);
    }
}

static void separate_vocabularies_have_their_own_sizes(void **state)
{
    (void)state;
    static const char sizes[] = "\"vocab_size\": 40, \"decoder_vocab_size\": 32,"
                                "\"pad_token_id\": 31, \"decoder_start_token_id\": 31";
    char fields[256];
    struct model_config config = config_of("marian", sizes);
    assert_int_equal(config.target_vocabulary, 40);
    assert_true(config.shared_embeddings);
    snprintf(fields, sizeof fields, "%s, \"share_encoder_decoder_embeddings\": false", sizes);
    config = config_of("marian", fields);
    assert_int_equal(config.source_vocabulary, 40);
    assert_int_equal(config.target_vocabulary, 32);
    assert_false(config.shared_embeddings);
    config = config_of("fsmt", "\"src_vocab_size\": 50, \"tgt_vocab_size\": 60");
    assert_int_equal(config.source_vocabulary, 50);
    assert_int_equal(config.target_vocabulary, 60);
    assert_false(config.shared_embeddings);
}

static void a_class_that_only_encodes_has_no_decoder(void **state)
{
    (void)state;
    static const struct {
        const char *type, *fields;
        bool generates;
    } cases[] = {
        { "t5", "\"architectures\": [\"T5EncoderModel\"]", false },
        { "mt5", "\"architectures\": [\"MT5EncoderModel\"]", false },
        { "t5", "\"architectures\": [\"T5ForConditionalGeneration\"]", true },
        { "t5", "\"architectures\": [\"T5EncoderModelWithMore\"]", true },
        { "t5", "\"architectures\": []", true },
        { "bert", "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config config = config_of(cases[i].type, cases[i].fields);
        assert_int_equal(config_generates(&config), cases[i].generates);
    }
}

static void activations_are_the_reference_s_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float at_1, at_minus_half;
    } cases[] = {
        { "relu", 1.0f, 0.0f },
        { "gelu", .8413447f, -.1542688f },
        { "gelu_python", .8413447f, -.1542688f },
        { "gelu_new", .8411920f, -.1542860f },
        { "gelu_fast", .8411920f, -.1542860f },
        { "gelu_accurate", .8411920f, -.1542860f },
        { "gelu_pytorch_tanh", .8411920f, -.1542860f },
        { "gelu_python_tanh", .8411920f, -.1542860f },
        { "quick_gelu", .8457958f, -.1496116f },
        { "silu", .7310586f, -.1887703f },
        { "swish", .7310586f, -.1887703f },
        { "tanh", .7615942f, -.4621172f },
        { "sigmoid", .7310586f, .3775407f },
        { "relu6", 1.0f, 0.0f },
        { "relu2", 1.0f, 0.0f },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[] = { 1.0f, -0.5f };
        enum activation activation;
        assert_true(activation_find(cases[i].name, &activation));
        any_kernels()->activate(activation, x, NULL, 2);
        assert_float_equal(x[0], cases[i].at_1, 1e-6f);
        assert_float_equal(x[1], cases[i].at_minus_half, 1e-6f);
    }
    float far[] = { 7.0f, 3.0f };
    any_kernels()->activate(ACTIVATION_RELU6, far, NULL, 2);
    assert_true(far[0] == 6.0f && far[1] == 3.0f);
    any_kernels()->activate(ACTIVATION_RELU_SQUARED, far, NULL, 2);
    assert_true(far[0] == 36.0f && far[1] == 9.0f);
}

static void gated_gelu_of_t5_is_the_form_by_tanh(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool gated;
        enum activation activation;
    } cases[] = {
        { "relu", false, ACTIVATION_RELU },
        { "gated-gelu", true, ACTIVATION_GELU_TANH },
        { "gated-silu", true, ACTIVATION_SILU },
        { "gated-relu", true, ACTIVATION_RELU },
        { "gelu", false, ACTIVATION_GELU },
        { "gelu_new", false, ACTIVATION_GELU_TANH },
        { "gated-gelu_new", true, ACTIVATION_GELU_TANH },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fields[64];
        snprintf(fields, sizeof fields, "\"feed_forward_proj\": \"%s\"", cases[i].text);
        const struct model_config config = config_of("t5", fields);
        assert_int_equal(config.gated, cases[i].gated);
        assert_int_equal(config.activation, cases[i].activation);
    }
}

/* The start of a decoder by the two files of a folder; -1 and a message when it is refused. */
static int32_t start_of(const char *type, const char *fields, const char *generation,
                        struct error *err)
{
    static const struct limits limits = {
        .beams = 4, .return_sequences = 4, .default_max_new_tokens = 8, .max_new_tokens = 16
    };
    struct model model = { .dir = folder.path };
    struct options options;
    char path[128];
    snprintf(path, sizeof path, "%s/generation_config.json", folder.path);
    unlink(path);
    model.config = config_of(type, fields);
    if (*generation)
        folder_text(&folder, "generation_config.json", generation);
    *err = (struct error){ 0 };
    assert_int_equal(config_read(&model.config, &model.defaults, folder.path, err), 0);
    const int rc = registry_defaults(&options, &model, &limits, err);
    settings_free(&model.defaults);
    if (rc < 0)
        return -1;
    const int32_t start = options.start_id;
    options_clear(&options);
    return start;
}

static void the_decoder_s_start_is_named_by_either_file_else_bos(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(start_of("t5", "\"decoder_start_token_id\": 7", "", &err), 7);
    assert_int_equal(start_of("t5", "\"bos_token_id\": 6", "", &err), 6);
    assert_int_equal(start_of("t5", "", "{\"decoder_start_token_id\": 3}", &err), 3);
    assert_int_equal(start_of("t5", "", "{\"bos_token_id\": 4}", &err), 4);
    assert_int_equal(start_of("plbart", "\"bos_token_id\": 5", "{\"max_length\": 9}", &err), 5);
    assert_int_equal(
        start_of("t5", "\"decoder_start_token_id\": 7", "{\"decoder_start_token_id\": 3}", &err),
        3);
    assert_int_equal(
        start_of("t5", "\"decoder_start_token_id\": null, \"bos_token_id\": null", "", &err), -1);
    assert_non_null(strstr(err.message, "decoder_start_token_id is missing"));
    assert_int_equal(start_of("t5", "", "{\"max_length\": 9}", &err), -1);
    assert_non_null(strstr(err.message, "decoder_start_token_id is missing"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clear)
    const struct CMUnitTest tests[] = {
        TEST(what_is_missing_or_null_is_the_default_of_the_class),
        TEST(a_wrong_field_is_told_with_its_value_and_what_is_allowed),
        TEST(only_outputs_that_t5_ties_are_scaled),
        TEST(a_decoder_of_t5_without_a_depth_is_as_deep_as_the_encoder),
        TEST(heads_of_t5_need_not_make_up_the_width),
        TEST(positions_limit_rows_where_the_family_has_a_table),
        TEST(where_norms_stand_is_the_family_s_affair),
        TEST(separate_vocabularies_have_their_own_sizes),
        TEST(a_class_that_only_encodes_has_no_decoder),
        TEST(activations_are_the_reference_s_by_name),
        TEST(gated_gelu_of_t5_is_the_form_by_tanh),
        TEST(the_decoder_s_start_is_named_by_either_file_else_bos),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
