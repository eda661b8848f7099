/* Fields of config.json that have other names, or another meaning, in one class than in others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "any_kernels.h"
#include "base/log.h"
#include "family_config.h"
#include "serve/registry.h"

static void a_common_name_stands_in_for_the_class_s_own(void **state)
{
    (void)state;
    static const struct {
        const char *type, *fields, *expected;
    } cases[] = {
        { "bart", "\"num_attention_heads\": 4, \"num_hidden_layers\": 3, \"hidden_size\": 512",
          "512 3x4x128/4096 12x16x32/4096 50265/50265 1024 1 1 1 1 0 2 2" },
        { "t5",
          "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"head_dim\": 32, "
          "\"hidden_size\": 256",
          "256 2x4x32/2048 6x4x32/2048 32128/32128 any 0 1 0.0625 0 -1 1 -1" },
        { "fsmt", "\"vocab_size\": 50",
          "1024 12x16x64/4096 12x16x64/4096 42024/50 any 0 32 1 1 0 2 2" },
        { "distilbert",
          "\"hidden_size\": 128, \"num_attention_heads\": 4, \"num_hidden_layers\": 2",
          "128 2x4x32/3072 0x0x0/0 30522/0 512 1 1 1 0 -1 -1 -1" },
        /* Beside the own one it does not count. */
        { "bart", "\"encoder_layers\": 2, \"num_hidden_layers\": 3",
          "1024 2x16x64/4096 12x16x64/4096 50265/50265 1024 1 1 1 1 0 2 2" },
        { "distilbert", "\"dim\": 96, \"hidden_size\": 128",
          "96 6x12x8/3072 0x0x0/0 30522/0 512 1 1 1 0 -1 -1 -1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_config config = config_of(cases[i].type, cases[i].fields);
        assert_string_equal(describe(&config), cases[i].expected);
    }
}

static void two_names_of_a_number_that_no_tensor_tells_must_agree(void **state)
{
    (void)state;
    static const struct {
        const char *type, *own, *common;
        int number;
    } cases[] = { { "bart", "encoder_attention_heads", "num_attention_heads", 8 },
                  { "t5", "num_heads", "num_attention_heads", 4 },
                  { "t5", "d_kv", "head_dim", 32 },
                  { "distilbert", "n_heads", "num_attention_heads", 4 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config;
        struct error err;
        char fields[128], expected[128];
        snprintf(fields, sizeof fields, "\"%s\": %d, \"%s\": %d", cases[i].own, cases[i].number,
                 cases[i].common, cases[i].number);
        assert_int_equal(read_config(cases[i].type, fields, &config, &err), 0);
        snprintf(fields, sizeof fields, "\"%s\": %d, \"%s\": 2", cases[i].own, cases[i].number,
                 cases[i].common);
        assert_int_equal(read_config(cases[i].type, fields, &config, &err), -1);
        snprintf(expected, sizeof expected,
                 "\"%s\" is %d, but \"%s\", another name of the same, is 2", cases[i].own,
                 cases[i].number, cases[i].common);
        if (!strstr(err.message, expected))
            fail_msg("%s", err.message);
    }
}

static void only_distilbert_obeys_its_names_and_its_norms_have_their_own_eps(void **state)
{
    (void)state;
    const struct model_config bert =
        config_of("bert", "\"dim\": 64, \"n_layers\": 1, \"n_heads\": 2, \"hidden_dim\": 5, "
                          "\"activation\": \"relu\", \"sinusoidal_pos_embds\": true");
    assert_string_equal(describe(&bert), "768 12x12x64/3072 0x0x0/0 30522/0 512 1 1 1 0 -1 -1 -1");
    const struct model_config distilbert =
        config_of("distilbert",
                  "\"layer_norm_eps\": 0.1, \"intermediate_size\": 7, \"hidden_act\": \"relu\"");
    assert_string_equal(describe(&distilbert),
                        "768 6x12x64/3072 0x0x0/0 30522/0 512 1 1 1 0 -1 -1 -1");
    assert_true(distilbert.norm_eps == 1e-12f);
}

static void mpnet_counts_the_positions_of_ids_but_1_whatever_padding_is(void **state)
{
    (void)state;
    const struct model_config mpnet = config_of("mpnet", "\"pad_token_id\": 0");
    const struct model_config roberta = config_of("roberta", "\"pad_token_id\": 0");
    const int32_t tokens[] = { 5, 0, 1, 6 };
    int32_t positions[4];
    config_positions(&mpnet, tokens, 4, positions);
    assert_memory_equal(positions, ((const int32_t[]){ 1, 2, 0, 3 }), sizeof positions);
    assert_int_equal(mpnet.positions_max, 510);
    config_positions(&roberta, tokens, 4, positions);
    assert_memory_equal(positions, ((const int32_t[]){ 1, 0, 2, 3 }), sizeof positions);
    assert_int_equal(roberta.positions_max, 511);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clear)
    const struct CMUnitTest tests[] = {
        TEST(a_common_name_stands_in_for_the_class_s_own),
        TEST(two_names_of_a_number_that_no_tensor_tells_must_agree),
        TEST(only_distilbert_obeys_its_names_and_its_norms_have_their_own_eps),
        TEST(mpnet_counts_the_positions_of_ids_but_1_whatever_padding_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
