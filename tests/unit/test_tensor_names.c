/* Which tensors a folder must have, under which names: prefixes, shared tables, old names of norms.
 * Every case under tests/kit is changed and must answer the same, or is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint.h"

static struct run before, after;

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), part = strlen(end);
    return length >= part && strcmp(text + length - part, end) == 0;
}

static void assert_refused(const struct checkpoint *c, const char *case_name, const char *part)
{
    struct error err;
    struct model *model = checkpoint_open(c, &err);
    if (model)
        fail_msg("%s opens without complaint about %s", case_name, part);
    if (!strstr(err.message, part))
        fail_msg("%s: \"%s\" does not say \"%s\"", case_name, err.message, part);
}

static void assert_same(const struct checkpoint *c, const char *case_name, const char *change)
{
    checkpoint_run(c, &after);
    if (run_difference(&before, &after) != 0.0f)
        fail_msg("%s, %s: the answer differs by %g", case_name, change,
                 (double)run_difference(&before, &after));
}

static bool says_false(const struct checkpoint *c, const char *name)
{
    return json_is_false(json_object_get(c->config, name));
}

/* Is `other` a table that may serve for the table `name`? */
static bool may_serve(const struct checkpoint *c, const char *name, const char *other)
{
    static const char *const tables[] = { "shared.weight", "embed_tokens.weight", "lm_head.weight",
                                          "output_projection.weight" };
    const char *type = json_string_value(json_object_get(c->config, "model_type"));
    const bool fsmt = strcmp(type, "fsmt") == 0, t5 = ends_with(type, "t5");
    size_t both = 0;
    if (strcmp(type, "transformer") == 0 || (says_false(c, "tie_word_embeddings") && !t5 && !fsmt))
        return false;
    if ((fsmt || says_false(c, "share_encoder_decoder_embeddings")) &&
        (strstr(name, "encoder.") || strstr(other, "encoder.")))
        return false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        both += (size_t)ends_with(name, tables[i]) + ends_with(other, tables[i]);
    return both == 2;
}

/* Pools; what has a default or is computed; a table that has another name too. */
static bool may_lack(const struct checkpoint *c, const char *name)
{
    static const char *const computed[] = { "marian", "pegasus", "m2m_100", "fsmt" };
    const char *type = json_string_value(json_object_get(c->config, "model_type"));
    if (strstr(name, "pooler.") || strcmp(name, "final_logits_bias") == 0)
        return true;
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
        if (strstr(name, "embed_positions") && strcmp(type, computed[i]) == 0)
            return true;
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->tensors[i].name, name) != 0 && may_serve(c, name, c->tensors[i].name))
            return true;
    return false;
}

static void drop_each(const char *case_name)
{
    struct checkpoint *c = checkpoint_read(case_name);
    for (size_t i = 0; i < c->count; i++) {
        const struct checkpoint_tensor tensor = c->tensors[i];
        char part[CHECKPOINT_NAME + 32];
        c->tensors[i] = c->tensors[--c->count];
        /* Of a table that may stand under any of its names the usual one is named. */
        const bool shared = !says_false(c, "share_encoder_decoder_embeddings") &&
                            may_serve(c, tensor.name, "shared.weight");
        snprintf(part, sizeof part, "%s\" is missing", shared ? "shared.weight" : tensor.name);
        if (!may_lack(c, tensor.name))
            assert_refused(c, case_name, part);
        c->tensors[c->count++] = c->tensors[i];
        c->tensors[i] = tensor;
    }
    checkpoint_free(c);
}

static void a_missing_tensor_is_named_in_every_family(void **state)
{
    (void)state;
    for_every_case(drop_each, 39);
}

static void widen_each(const char *case_name)
{
    if (strchr(case_name, '_')) /* one case of a family is enough here */
        return;
    struct checkpoint *c = checkpoint_read(case_name);
    for (size_t i = 0; i < c->count; i++) {
        const struct checkpoint_tensor old = c->tensors[i];
        char name[CHECKPOINT_NAME];
        snprintf(name, sizeof name, "%s", old.name);
        if (may_lack(c, name) && strcmp(name, "final_logits_bias") != 0)
            continue;
        c->tensors[i].shape[old.rank - 1]++;
        c->tensors[i].count = old.count / old.shape[old.rank - 1] * (old.shape[old.rank - 1] + 1);
        c->tensors[i].values = calloc(c->tensors[i].count, sizeof(float));
        assert_non_null(c->tensors[i].values);
        assert_refused(c, case_name, name);
        free(c->tensors[i].values);
        c->tensors[i] = old;
    }
    checkpoint_free(c);
}

static void an_ill_shaped_tensor_is_named_in_every_family(void **state)
{
    (void)state;
    for_every_case(widen_each, 39);
}

/* The names of the table of a family whose tables are tied, and what its cases must have one of. */
static const struct {
    const char *case_name, *names[4];
} tied[] = {
    { "t5",
      { "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
        "lm_head.weight" } },
    { "t5_encname",
      { "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
        "lm_head.weight" } },
#define BART_NAMES(case_name)                                                                      \
    {                                                                                              \
        case_name,                                                                                 \
        {                                                                                          \
            "model.shared.weight", "model.encoder.embed_tokens.weight",                            \
                "model.decoder.embed_tokens.weight", "lm_head.weight"                              \
        }                                                                                          \
    }
    BART_NAMES("bart"),
    BART_NAMES("mbart"),
    BART_NAMES("marian_alias"),
    BART_NAMES("m2m100"),
    BART_NAMES("marian_allnames"),
    BART_NAMES("pegasus"),
    BART_NAMES("plbart"),
    BART_NAMES("blenderbot"),
    BART_NAMES("blenderbot_small"),
};
enum { TIED_CASES = sizeof tied / sizeof *tied, TIED_NAMES = 4 };

/* Leaves the table under the one name `keep`. */
static void keep_one(struct checkpoint *c, const char *const *names, const char *keep)
{
    for (size_t i = 0; i < TIED_NAMES; i++)
        if (checkpoint_find(c, names[i]) && !checkpoint_find(c, keep))
            checkpoint_copy(c, names[i], keep);
    for (size_t i = 0; i < TIED_NAMES; i++)
        if (strcmp(names[i], keep) != 0)
            checkpoint_drop(c, names[i]);
    assert_non_null(checkpoint_find(c, keep));
}

static void any_one_name_of_a_shared_table_is_enough(void **state)
{
    (void)state;
    for (size_t i = 0; i < TIED_CASES; i++) {
        struct checkpoint *c = checkpoint_read(tied[i].case_name);
        checkpoint_run(c, &before);
        for (size_t n = 0; n < TIED_NAMES; n++) {
            keep_one(c, tied[i].names, tied[i].names[n]);
            assert_same(c, tied[i].case_name, tied[i].names[n]);
        }
        checkpoint_free(c);
    }
}

/* The sum of a matrix of float32. */
static double sum_of(const struct matrix *matrix)
{
    double sum = 0.0;
    for (size_t i = 0; i < matrix->rows * matrix->columns; i++)
        sum += (double)((const float *)matrix->data)[i];
    return sum;
}

static void tables_under_their_own_names_are_used_as_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TIED_CASES; i++) {
        const char *const *names = tied[i].names;
        struct checkpoint *c = checkpoint_read(tied[i].case_name);
        struct error err;
        keep_one(c, names, names[0]);
        for (size_t n = 1; n < TIED_NAMES; n++) {
            checkpoint_copy(c, names[0], names[n]);
            checkpoint_scale(checkpoint_find(c, names[n]), (float)(1 << n));
        }
        struct model *model = checkpoint_open(c, &err);
        assert_non_null(model);
        double sum = 0.0;
        const struct checkpoint_tensor *shared = checkpoint_find(c, names[0]);
        for (size_t j = 0; j < shared->count; j++)
            sum += (double)shared->values[j];
        assert_true(sum_of(&model->encoder.tokens) == 2.0 * sum);
        assert_true(sum_of(&model->decoder.tokens) == 4.0 * sum);
        assert_true(sum_of(&model->output.w) == 8.0 * sum);
        model_close(&model);
        checkpoint_free(c);
    }
}

static void without_prefix(const char *case_name)
{
    static const char *const prefixes[] = { "model.", "bert.", "roberta.", "mpnet.",
                                            "distilbert." };
    struct checkpoint *c = checkpoint_read(case_name);
    checkpoint_run(c, &before);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (checkpoint_rename(c, prefixes[i], "") > 0)
            assert_same(c, case_name, "without prefix");
    checkpoint_free(c);
}

static void files_of_the_base_model_have_no_prefix_and_load_too(void **state)
{
    (void)state;
    for_every_case(without_prefix, 39);
}

static const struct {
    const char *case_name, *prefix;
} encoders[] = { { "bert", "bert." },
                 { "roberta", "roberta." },
                 { "mpnet", "mpnet." },
                 { "distilbert", "distilbert." } };
enum { ENCODERS = sizeof encoders / sizeof *encoders };

static void encoders_load_with_a_prefix_and_with_old_names_of_norms(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS; i++) {
        struct checkpoint *c = checkpoint_read(encoders[i].case_name);
        checkpoint_run(c, &before);
        assert_true(checkpoint_rename(c, "LayerNorm.weight", "LayerNorm.gamma") > 0);
        checkpoint_rename(c, "LayerNorm.bias", "LayerNorm.beta");
        assert_same(c, encoders[i].case_name, "gamma and beta");
        assert_null(checkpoint_find(c, "bert.embeddings.LayerNorm.gamma"));
        for (size_t t = 0; t < c->count; t++) {
            char name[CHECKPOINT_NAME];
            snprintf(name, sizeof name, "%s%.100s", encoders[i].prefix, c->tensors[t].name);
            strcpy(c->tensors[t].name, name);
        }
        assert_same(c, encoders[i].case_name, "prefix, gamma and beta");
        checkpoint_rename(c, "LayerNorm.gamma", "LayerNorm.weight");
        checkpoint_rename(c, "LayerNorm.beta", "LayerNorm.bias");
        assert_same(c, encoders[i].case_name, "prefix");
        checkpoint_free(c);
    }
}

static void a_norm_that_lacks_its_bias_is_refused_by_the_name_of_the_bias(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("bert");
    const char *const norm = "encoder.layer.1.output.LayerNorm.";
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%sweight", norm);
    snprintf(bias, sizeof bias, "%sbias", norm);
    checkpoint_drop(c, bias);
    assert_refused(c, "bert", "\"encoder.layer.1.output.LayerNorm.bias\" is missing");
    checkpoint_rename(c, weight, "encoder.layer.1.output.LayerNorm.gamma");
    assert_refused(c, "bert", "\"encoder.layer.1.output.LayerNorm.beta\" is missing");
    checkpoint_free(c);
}

static void poolers_and_heads_of_encoders_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENCODERS; i++) {
        struct checkpoint *c = checkpoint_read(encoders[i].case_name);
        checkpoint_run(c, &before);
        checkpoint_drop(c, "pooler.dense.weight");
        checkpoint_drop(c, "pooler.dense.bias");
        assert_same(c, encoders[i].case_name, "no pooler");
        checkpoint_add(c, "pooler.dense.weight", 3, 3);
        checkpoint_add(c, "cls.predictions.bias", 40, 0);
        checkpoint_add(c, "lm_head.dense.weight", 5, 7);
        checkpoint_add(c, "classifier.weight", 2, 16);
        assert_same(c, encoders[i].case_name, "other heads");
        checkpoint_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_tensor_is_named_in_every_family),
        cmocka_unit_test(an_ill_shaped_tensor_is_named_in_every_family),
        cmocka_unit_test(any_one_name_of_a_shared_table_is_enough),
        cmocka_unit_test(tables_under_their_own_names_are_used_as_named),
        cmocka_unit_test(files_of_the_base_model_have_no_prefix_and_load_too),
        cmocka_unit_test(encoders_load_with_a_prefix_and_with_old_names_of_norms),
        cmocka_unit_test(a_norm_that_lacks_its_bias_is_refused_by_the_name_of_the_bias),
        cmocka_unit_test(poolers_and_heads_of_encoders_do_not_matter),
    };
    return cmocka_run_group_tests(tests, checkpoint_setup, NULL);
}
