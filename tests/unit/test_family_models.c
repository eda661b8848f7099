/* What is particular to families, on models that are changed so that it shows: positions,
 * relative biases, scales, token types, narrow weights, and a configuration that does not fit its
 * tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "../../src/model/blocks.h"
#include "../../src/model/positions.h"
#include "checkpoint.h"

static struct run before, after;

static void set(struct checkpoint *c, const char *field, json_t *value)
{
    assert_int_equal(json_object_set_new(c->config, field, value), 0);
}

static void compare_output_rows(struct checkpoint *c, const char *name)
{
    struct error err;
    struct model *model = checkpoint_open(c, &err);
    if (!model)
        fail_msg("%s", err.message);
    const struct checkpoint_tensor *rows = checkpoint_find(c, name);
    assert_int_equal(model->output_rows.dtype, DTYPE_F32);
    assert_memory_equal(model->output_rows.data, rows->values, rows->count * sizeof(float));
    model_close(&model);
}

static void a_tied_output_is_the_shared_table_though_the_decoder_has_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *name, *shared, *own;
    } cases[] = { { "bart", "model.shared.weight", "model.decoder.embed_tokens.weight" },
                  { "t5", "shared.weight", "decoder.embed_tokens.weight" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint *c = checkpoint_read(cases[i].name);
        checkpoint_run(c, &before);
        checkpoint_copy(c, cases[i].shared, cases[i].own);
        checkpoint_scale(checkpoint_find(c, cases[i].own), 2.0f);
        checkpoint_run(c, &after);
        assert_true(run_difference(&before, &after) > 0.01f);
        compare_output_rows(c, cases[i].shared);
        checkpoint_free(c);
    }
}

static void fsmt_finds_its_output_with_and_without_the_prefix(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("fsmt");
    checkpoint_scale(checkpoint_find(c, "model.decoder.output_projection.weight"), 2.0f);
    compare_output_rows(c, "model.decoder.output_projection.weight");
    assert_true(checkpoint_rename(c, "model.", "") > 0);
    compare_output_rows(c, "decoder.output_projection.weight");
    checkpoint_free(c);
}

/* The difference that the changes since `before` make. */
static float difference(const struct checkpoint *c)
{
    checkpoint_run(c, &after);
    return run_difference(&before, &after);
}

static void marian_starts_from_the_scaled_row_of_its_start_and_position_0(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("marian");
    struct error err;
    struct arena arena;
    struct model *model = checkpoint_open(c, &err);
    assert_non_null(model);
    const size_t D = model->config.width;
    const int32_t start = model->config.start_id;
    const float *row = checkpoint_find(c, "model.shared.weight")->values + (size_t)start * D;
    float x[64];
    assert_int_equal(start, model->config.pad_id);
    assert_int_equal(arena_open(&arena, pass_scratch_bytes(&model->config, 1, 1, 1, 1), &err), 0);
    const struct pass pass = { model, &checkpoint_kernels, &arena, NULL, false };
    embed_token(&pass, &model->decoder, start, target_position(&model->config, &start, 0, 1), x);
    for (size_t i = 0; i < D; i++)
        assert_float_equal(x[i], row[i] * 6.0f + (i < D / 2 ? 0.0f : 1.0f), 1e-6f);
    assert_int_equal(D, 36);
    arena_close(&arena);
    model_close(&model);
    checkpoint_free(c);
}

static void a_stored_table_of_sines_is_used_and_its_absence_changes_nothing(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("marian_allnames");
    checkpoint_run(c, &before);
    checkpoint_scale(checkpoint_find(c, "model.encoder.embed_positions.weight"), 2.0f);
    assert_true(difference(c) > 0.01f);
    checkpoint_drop(c, "model.encoder.embed_positions.weight");
    checkpoint_drop(c, "model.decoder.embed_positions.weight");
    assert_true(difference(c) <= 1e-5f);
    checkpoint_free(c);
}

static void no_row_of_learned_positions_is_special(void **state)
{
    (void)state;
    static const char *const places[] = { "bart",       "mbart",  "plbart",
                                          "blenderbot", "marian", "pegasus" };
    static const char *const counted[] = { "m2m100", "nllb" };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct checkpoint *c = checkpoint_read(places[i]);
        checkpoint_run(c, &before);
        set(c, "pad_token_id", json_integer(5));
        assert_true(difference(c) == 0.0f);
        checkpoint_free(c);
    }
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        struct checkpoint *c = checkpoint_read(counted[i]);
        checkpoint_run(c, &before);
        set(c, "pad_token_id", json_integer(5));
        assert_true(difference(c) > 0.01f);
        checkpoint_free(c);
    }
}

static void logits_of_a_tied_t5_are_scaled_by_the_root_of_its_width(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool scales;
    } cases[] = { { "t5", true }, { "umt5", true }, { "mt5", false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint *c = checkpoint_read(cases[i].name);
        const double width = json_number_value(json_object_get(c->config, "d_model"));
        const float scale = cases[i].scales ? (float)(1.0 / sqrt(width)) : 1.0f;
        set(c, "tie_word_embeddings", json_false());
        checkpoint_run(c, &before);
        set(c, "tie_word_embeddings", json_true());
        checkpoint_run(c, &after);
        for (size_t j = 0; j < before.logits; j++)
            assert_float_equal(after.logit[j], before.logit[j] * scale, 1e-6f);
        assert_memory_equal(before.state, after.state, before.states * sizeof(float));
        checkpoint_free(c);
    }
}

/* The logits at one target place did not move. */
static bool same_at(size_t place)
{
    const size_t V = before.logits / RUN_TARGET;
    return memcmp(before.logit + place * V, after.logit + place * V, V * sizeof(float)) == 0;
}

#define BIAS(stack, block)                                                                         \
    stack ".block." block ".layer.0.SelfAttention.relative_attention_bias.weight"

/* The first target place attends to itself alone, so that no bias can matter there unless it went
 * into the attention to the source. */
static void relative_biases_belong_to_self_attention_alone(void **state)
{
    (void)state;
    static const char *const cases[] = { "t5", "mt5", "umt5" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint *c = checkpoint_read(cases[i]);
        checkpoint_run(c, &before);
        checkpoint_scale(checkpoint_find(c, BIAS("decoder", "0")), 50.0f);
        checkpoint_run(c, &after);
        assert_memory_equal(before.state, after.state, before.states * sizeof(float));
        assert_true(same_at(0));
        for (size_t place = 1; place < RUN_TARGET; place++)
            assert_false(same_at(place));
        checkpoint_free(c);
    }
}

static void the_first_block_s_biases_serve_all_blocks_but_umt5_has_them_in_each(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("umt5");
    checkpoint_run(c, &before);
    checkpoint_scale(checkpoint_find(c, BIAS("encoder", "1")), -1.0f);
    assert_true(difference(c) > 0.01f);
    checkpoint_free(c);
    c = checkpoint_read("t5");
    checkpoint_run(c, &before);
    checkpoint_copy(c, BIAS("encoder", "0"), BIAS("encoder", "1"));
    checkpoint_scale(checkpoint_find(c, BIAS("encoder", "1")), -1.0f);
    assert_true(difference(c) == 0.0f);
    checkpoint_free(c);
}

static void a_t5_that_leaves_out_its_decoder_s_depth_answers_as_before(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("umt5");
    checkpoint_run(c, &before);
    set(c, "num_decoder_layers", json_null());
    assert_true(difference(c) == 0.0f);
    json_object_del(c->config, "num_decoder_layers");
    assert_true(difference(c) == 0.0f);
    checkpoint_free(c);
}

static void an_encoder_cut_out_of_a_t5_gives_the_same_states(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("t5");
    checkpoint_run(c, &before);
    for (size_t i = c->count; i-- > 0;)
        if (strncmp(c->tensors[i].name, "decoder.", 8) == 0)
            checkpoint_drop(c, c->tensors[i].name);
    set(c, "architectures", json_pack("[s]", "T5EncoderModel"));
    checkpoint_run(c, &after);
    assert_int_equal(after.logits, 0);
    assert_memory_equal(before.state, after.state, before.states * sizeof(float));
    checkpoint_free(c);
}

static void row_0_of_the_token_types_is_added_and_no_other(void **state)
{
    (void)state;
    static const char name[] = "embeddings.token_type_embeddings.weight";
    struct checkpoint *c = checkpoint_read("bert");
    struct checkpoint_tensor *types = checkpoint_find(c, name);
    const size_t D = types->shape[1];
    checkpoint_run(c, &before);
    for (size_t i = 0; i < D; i++)
        types->values[D + i] += 3.0f;
    assert_true(difference(c) == 0.0f);
    types->shape[0] = 1;
    types->count = D;
    set(c, "type_vocab_size", json_integer(1));
    assert_true(difference(c) == 0.0f);
    for (size_t i = 0; i < D; i++)
        types->values[i] = 0.0f;
    assert_true(difference(c) > 0.1f);
    checkpoint_free(c);
}

static void families_without_token_types_add_none(void **state)
{
    (void)state;
    static const char *const cases[] = { "distilbert", "mpnet" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checkpoint *c = checkpoint_read(cases[i]);
        checkpoint_run(c, &before);
        float *row = checkpoint_add(c, "embeddings.token_type_embeddings.weight", 2, 16);
        for (size_t j = 0; j < 32; j++)
            row[j] = 1.0f;
        assert_true(difference(c) == 0.0f);
        checkpoint_free(c);
    }
}

static void store_mixed(const char *case_name)
{
    struct checkpoint *c = checkpoint_read(case_name);
    for (size_t i = 0; i < c->count; i++)
        checkpoint_round(&c->tensors[i], (enum dtype)(i % DTYPE_I8));
    checkpoint_run(c, &after);
    before = after;
    for (size_t i = 0; i < c->count; i++)
        checkpoint_round(&c->tensors[i], DTYPE_F32);
    if (difference(c) > 1e-5f)
        fail_msg("%s differs by %g", case_name, (double)difference(c));
    checkpoint_free(c);
}

static void any_mix_of_types_gives_what_the_same_numbers_give_as_float32(void **state)
{
    (void)state;
    for_every_case(store_mixed, 39);
}

static void fill(struct checkpoint *c, const char *name, float value)
{
    struct checkpoint_tensor *tensor = checkpoint_find(c, name);
    assert_non_null(tensor);
    for (size_t i = 0; i < tensor->count; i++)
        tensor->values[i] = value;
}

/* Every token is (1, 1, …), attention adds nothing, the inner numbers are 8 · 30000: far beyond
 * float16's 65504.  The first number of the state grows, the others stay 1. */
static void a_feed_forward_beyond_half_precision_stays_finite(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("t5_sharp");
    const double narrow = 30000.0 * 16.0 / 1024.0; /* of the sum of the normed state */
    double first = 1.0;
    char name[96];
    fill(c, "shared.weight", 1.0f);
    for (int i = 0; i < 2; i++) {
        static const char block[] = "encoder.block.%d.layer.%s";
        snprintf(name, sizeof name, block, i, "0.SelfAttention.o.weight");
        fill(c, name, 0.0f);
        snprintf(name, sizeof name, block, i, "1.layer_norm.weight");
        fill(c, name, 1.0f);
        snprintf(name, sizeof name, block, i, "1.DenseReluDense.wi.weight");
        fill(c, name, 30000.0f);
        snprintf(name, sizeof name, block, i, "1.DenseReluDense.wo.weight");
        fill(c, name, 0.0f);
        for (size_t j = 0; j < 16; j++)
            checkpoint_find(c, name)->values[j] = 1.0f / 1024.0f;
        const double root = sqrt((first * first + 7.0) / 8.0);
        first += (first + 7.0) / root * narrow;
    }
    fill(c, "encoder.final_layer_norm.weight", 1.0f);
    for (size_t i = 0; i < c->count; i++)
        checkpoint_round(&c->tensors[i], DTYPE_F16);
    checkpoint_run(c, &after);
    const double root = sqrt((first * first + 7.0) / 8.0);
    for (size_t i = 0; i < after.states; i++)
        assert_float_equal(after.state[i], (i % 8 ? 1.0 : first) / root, 1e-5);
    for (size_t i = 0; i < after.logits; i++)
        assert_true(isfinite(after.logit[i]));
    checkpoint_free(c);
}

/* Where no tensor has the size: it is not stored, its product with another is the same, or the
 * family does not read the field. */
static bool has_no_trace(const struct checkpoint *c, const char *field, json_int_t value)
{
    static const char *const of_bert[] = { "hidden_size", "num_hidden_layers", "type_vocab_size",
                                           "num_attention_heads", "intermediate_size" };
    const json_t *width = json_object_get(c->config, "d_model");
    bool stored = false;
    for (size_t i = 0; i < sizeof of_bert / sizeof *of_bert; i++)
        if (strcmp(field, of_bert[i]) == 0 && width)
            return true;
    for (size_t i = 0; i < c->count; i++)
        stored |= strstr(c->tensors[i].name, "position") != NULL;
    if (strcmp(field, "max_position_embeddings") == 0)
        return !stored;
    if (strstr(field, "heads") && !json_object_get(c->config, "d_kv"))
        return json_integer_value(width ? width : json_object_get(c->config, "hidden_size")) %
                   value ==
               0;
    if (strcmp(field, "decoder_vocab_size") == 0)
        return !json_is_false(json_object_get(c->config, "share_encoder_decoder_embeddings"));
    return strcmp(field, "vocab_size") == 0 && json_object_get(c->config, "src_vocab_size");
}

static void resize_each(const char *case_name)
{
    static const char *const fields[] = {
        "d_model",
        "d_kv",
        "d_ff",
        "num_layers",
        "num_heads",
        "num_decoder_layers",
        "encoder_layers",
        "encoder_ffn_dim",
        "decoder_layers",
        "decoder_ffn_dim",
        "vocab_size",
        "encoder_attention_heads",
        "src_vocab_size",
        "decoder_attention_heads",
        "tgt_vocab_size",
        "decoder_vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "type_vocab_size",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
        "relative_attention_num_buckets",
    };
    struct checkpoint *c = checkpoint_read(case_name);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        json_t *old = json_incref(json_object_get(c->config, fields[i]));
        for (json_int_t by = -1; old && json_is_integer(old) && by <= 1; by += 2) {
            struct error err;
            const json_int_t value = json_integer_value(old) + by;
            /* One layer less leaves tensors over, which is no harm. */
            if (has_no_trace(c, fields[i], value) || (by < 0 && strstr(fields[i], "layers")))
                continue;
            set(c, fields[i], json_integer(value));
            struct model *model = checkpoint_open(c, &err);
            if (model)
                fail_msg("%s opens with %s %d", case_name, fields[i], (int)value);
            if (!strstr(err.message, "tensor \"") && !strstr(err.message, "divide") &&
                !strstr(err.message, "\" is "))
                fail_msg("%s, %s: %s", case_name, fields[i], err.message);
        }
        if (old)
            set(c, fields[i], old);
    }
    checkpoint_free(c);
}

static void a_configuration_that_does_not_fit_its_tensors_is_refused(void **state)
{
    (void)state;
    for_every_case(resize_each, 39);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tied_output_is_the_shared_table_though_the_decoder_has_its_own),
        cmocka_unit_test(fsmt_finds_its_output_with_and_without_the_prefix),
        cmocka_unit_test(marian_starts_from_the_scaled_row_of_its_start_and_position_0),
        cmocka_unit_test(a_stored_table_of_sines_is_used_and_its_absence_changes_nothing),
        cmocka_unit_test(no_row_of_learned_positions_is_special),
        cmocka_unit_test(logits_of_a_tied_t5_are_scaled_by_the_root_of_its_width),
        cmocka_unit_test(relative_biases_belong_to_self_attention_alone),
        cmocka_unit_test(the_first_block_s_biases_serve_all_blocks_but_umt5_has_them_in_each),
        cmocka_unit_test(a_t5_that_leaves_out_its_decoder_s_depth_answers_as_before),
        cmocka_unit_test(an_encoder_cut_out_of_a_t5_gives_the_same_states),
        cmocka_unit_test(row_0_of_the_token_types_is_added_and_no_other),
        cmocka_unit_test(families_without_token_types_add_none),
        cmocka_unit_test(any_mix_of_types_gives_what_the_same_numbers_give_as_float32),
        cmocka_unit_test(a_feed_forward_beyond_half_precision_stays_finite),
        cmocka_unit_test(a_configuration_that_does_not_fit_its_tensors_is_refused),
    };
    return cmocka_run_group_tests(tests, checkpoint_setup, NULL);
}
