/* Rules on lists, on the source and on invalid values, one by one, and the order of all. */
#include <float.h>
#include <string.h>

#include "base/value.h"
#include "option_values.h"
#include "rule_calls.h"

enum { WHOLE = 40 };

/* Scores v of 1, but for those that a rule changed. */
static void flat(float *scores)
{
    for (size_t v = 0; v < WHOLE; v++)
        scores[v] = 1;
}

/* Which of the scores are not as flat() left them, as "id=score ". */
static void check_changed(const float *scores, const char *expected)
{
    char text[512] = "";
    for (size_t v = 0; v < WHOLE; v++)
        if (scores[v] != 1)
            sprintf(text + strlen(text), "%zu=%g ", v, (double)scores[v]);
    assert_string_equal(text, expected);
}

/* One option, by its name, behind a history. */
struct list_case {
    const char *name;
    struct value value;
    size_t length;
    int32_t tokens[8];
    const char *changed;
};

static void check_lists(const struct list_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct list_case *const c = &cases[i];
        struct options o = neutral();
        float scores[WHOLE];
        print_message("    %s (%zu)\n", c->name, i);
        set(&o, c->name, c->value);
        flat(scores);
        apply(&o, c->tokens, c->length, scores, WHOLE);
        check_changed(scores, c->changed);
        options_clear(&o);
    }
}

static void bad_words_remove_what_would_end_them(void **state)
{
    (void)state;
    const struct value mixed =
        LIST(LIST(INT(5)), LIST(INT(6), INT(7)), LIST(INT(4), INT(6), INT(8)), LIST(INT(2)),
             LIST(INT(6), INT(2)));
    const struct list_case cases[] = {
        { "bad_words_ids", mixed, 1, { 0 }, "5=-inf " },
        { "bad_words_ids", mixed, 2, { 0, 6 }, "2=-inf 5=-inf 7=-inf " },
        { "bad_words_ids", mixed, 2, { 4, 6 }, "2=-inf 5=-inf 7=-inf 8=-inf " },
        { "bad_words_ids", mixed, 3, { 4, 6, 0 }, "5=-inf " },
        { "bad_words_ids", mixed, 1, { 6 }, "2=-inf 5=-inf 7=-inf " },
        /* an end of sequence alone is no bad word; the reference refuses a list of nothing else */
        { "bad_words_ids", LIST(LIST(INT(2))), 1, { 0 }, "" },
    };
    check_lists(cases, sizeof cases / sizeof cases[0]);
}

static void biases_are_added_to_what_would_end_a_phrase(void **state)
{
    (void)state;
    const struct value mixed =
        LIST(LIST(LIST(INT(5)), REAL(.5)), LIST(LIST(INT(4), INT(5)), REAL(2)),
             LIST(LIST(INT(3), INT(4), INT(6)), REAL(-4)));
    const struct value huge =
        LIST(LIST(LIST(INT(5)), REAL(3e38)), LIST(LIST(INT(4), INT(5)), REAL(-3e38)),
             LIST(LIST(INT(6)), REAL(-3.4e38)), LIST(LIST(INT(4), INT(6)), REAL(-3.4e38)));
    const struct list_case cases[] = {
        { "sequence_bias", mixed, 1, { 0 }, "5=1.5 " },
        { "sequence_bias", mixed, 1, { 4 }, "5=3.5 " },
        { "sequence_bias", mixed, 2, { 3, 4 }, "5=3.5 6=-3 " },
        /* summed before they are added: the score is not lost between two large ones */
        { "sequence_bias", huge, 1, { 4 }, "6=-3.40282e+38 " },
    };
    check_lists(cases, sizeof cases / sizeof cases[0]);
}

static void suppressed_tokens_are_removed_at_their_places(void **state)
{
    (void)state;
    const struct value ids = LIST(INT(7), INT(2));
    const struct list_case cases[] = {
        { "suppress_tokens", ids, 1, { 0 }, "2=-inf 7=-inf " },
        { "suppress_tokens", ids, 3, { 0, 1, 7 }, "2=-inf 7=-inf " },
        { "begin_suppress_tokens", ids, 1, { 0 }, "2=-inf 7=-inf " },
        { "begin_suppress_tokens", ids, 2, { 0, 1 }, "" },
    };
    check_lists(cases, sizeof cases / sizeof cases[0]);
}

static void the_beginning_is_behind_a_prefix_or_a_forced_token(void **state)
{
    (void)state;
    static const struct {
        size_t prefix_count;
        int32_t forced;
        size_t length; /* where it applies */
    } cases[] = { { 1, -1, 1 }, { 1, 5, 2 }, { 3, -1, 3 }, { 3, 5, 3 } };
    const int32_t tokens[5] = { 0 };
    for (size_t i = 0; i < 4; i++) {
        for (size_t length = cases[i].prefix_count; length < 5; length++) {
            struct options o = neutral();
            float scores[WHOLE];
            set(&o, "begin_suppress_tokens", (struct value)LIST(INT(7)));
            o.max_new_tokens = o.max_length - cases[i].prefix_count;
            o.forced_bos_id = cases[i].forced;
            flat(scores);
            apply(&o, tokens, length, scores, WHOLE);
            const bool forced = length == 1 && cases[i].forced >= 0;
            assert_int_equal(scores[7] == OFF, forced || length == cases[i].length);
            options_clear(&o);
        }
    }
}

static void only_allowed_tokens_and_ends_are_left(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[WHOLE];
    set(&o, "allowed_token_ids", (struct value)LIST(INT(9), INT(30), INT(9)));
    flat(scores);
    scores[9] = 3;
    apply(&o, (int32_t[]){ 0 }, 1, scores, WHOLE);
    assert_int_equal(left(scores, WHOLE), 3);
    assert_true(scores[2] == 1 && scores[9] == 3 && scores[30] == 1);
    options_clear(&o);
}

static void a_decay_rewards_the_end_after_its_start(void **state)
{
    (void)state;
    const int32_t tokens[9] = { 0 };
    struct options o = neutral();
    float scores[WHOLE];
    set(&o, "exponential_decay_length_penalty", (struct value)LIST(INT(1), REAL(1.5)));
    o.max_new_tokens = o.max_length - 2;
    for (size_t length = 2; length < 6; length++) {
        flat(scores);
        scores[2] = -4;
        apply(&o, tokens, length, scores, WHOLE);
        const double n = (double)length - 3;
        assert_float_equal(scores[2], n > 0 ? -4 + 4 * (pow(1.5, n) - 1) : -4, 1e-6);
    }
    scores[2] = OFF; /* what min_length removed is not rewarded */
    apply(&o, tokens, 5, scores, WHOLE);
    assert_true(scores[2] == OFF);
    o.decay_factor = 1e30;
    scores[2] = 5;
    apply(&o, tokens, 5, scores, WHOLE);
    assert_true(scores[2] == FLT_MAX);
}

static void encoder_rules_see_the_source_as_sent(void **state)
{
    (void)state;
    const int32_t source[] = { 5, 6, 7, 5, 8, 1 }, tokens[] = { 0, 5 };
    struct options o = neutral();
    float scores[WHOLE];
    o.encoder_repetition_penalty = 2;
    flat(scores);
    scores[6] = -3;
    apply_to(&o, tokens, 2, source, 6, scores, WHOLE);
    check_changed(scores, "1=2 5=2 6=-1.5 7=2 8=2 ");
    o = neutral();
    o.encoder_no_repeat_ngram_size = 2;
    flat(scores);
    apply_to(&o, tokens, 2, source, 6, scores, WHOLE);
    check_changed(scores, "6=-inf 8=-inf ");
    o.encoder_no_repeat_ngram_size = 1;
    flat(scores);
    apply_to(&o, tokens, 2, source, 6, scores, WHOLE);
    check_changed(scores, "1=-inf 5=-inf 6=-inf 7=-inf 8=-inf ");
    o.encoder_no_repeat_ngram_size = 4; /* three tokens must be there first */
    flat(scores);
    apply_to(&o, tokens, 2, source, 6, scores, WHOLE);
    check_changed(scores, "");
}

/* The reference raises. */
static void source_ids_that_are_no_targets_are_passed_over(void **state)
{
    (void)state;
    const int32_t source[] = { 40, 5, 70000, 2147483647, 5, 41 };
    for (size_t n = 0; n < 3; n++) {
        struct options o = neutral();
        float scores[WHOLE];
        o.encoder_repetition_penalty = n == 0 ? 2 : 1;
        o.encoder_no_repeat_ngram_size = n;
        flat(scores);
        apply_to(&o, (int32_t[]){ 5 }, 1, source, 6, scores, WHOLE);
        check_changed(scores, n == 0 ? "5=2 " : n == 1 ? "5=-inf " : "");
    }
}

static void invalid_values_become_numbers(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[V] = { NAN, INFINITY, -INFINITY, 1, -NAN, -2 };
    o.num_beams = 2; /* without beams the scores are made relative */
    o.remove_invalid_values = true;
    o.repetition_penalty = 2;
    apply(&o, (int32_t[]){ 0, 1, 2 }, 3, scores, V);
    const float expected[V] = { 0, FLT_MAX, -FLT_MAX, 1, 0, -2 };
    for (size_t v = 0; v < V; v++)
        assert_true(scores[v] == expected[v]);
}

static void several_ends_may_be_forced(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[WHOLE];
    set(&o, "forced_eos_token_id", (struct value)LIST(INT(3), INT(2)));
    flat(scores);
    apply(&o, (int32_t[9]){ 0 }, 9, scores, WHOLE);
    assert_int_equal(left(scores, WHOLE), 2);
    assert_true(scores[2] == 0 && scores[3] == 0);
}

/* Each pair gives another result when its two rules change places. */
static void rules_apply_in_the_references_order(void **state)
{
    (void)state;
    const int32_t source[] = { 5 };
    struct options o = neutral();
    float scores[WHOLE];
    /* bias, then the source's reward, then the penalty: (1 − 3) / 2 · 8 */
    set(&o, "sequence_bias", (struct value)LIST(LIST(LIST(INT(5)), REAL(-3))));
    o.encoder_repetition_penalty = 2;
    o.repetition_penalty = 8;
    flat(scores);
    apply_to(&o, (int32_t[]){ 5 }, 1, source, 1, scores, WHOLE);
    check_changed(scores, "5=-8 ");
    options_clear(&o);

    /* what is bad is forced all the same; what is forced may be suppressed or not allowed */
    o = neutral();
    o.forced_bos_id = 5;
    set(&o, "bad_words_ids", (struct value)LIST(LIST(INT(5))));
    flat(scores);
    apply(&o, (int32_t[]){ 0 }, 1, scores, WHOLE);
    assert_int_equal(left(scores, WHOLE), 1);
    assert_true(scores[5] == 0);
    set(&o, "allowed_token_ids", (struct value)LIST(INT(4)));
    apply(&o, (int32_t[]){ 0 }, 1, scores, WHOLE);
    assert_int_equal(left(scores, WHOLE), 0);
    set(&o, "allowed_token_ids", (struct value)NOTHING);
    set(&o, "suppress_tokens", (struct value)LIST(INT(5)));
    apply(&o, (int32_t[]){ 0 }, 1, scores, WHOLE);
    assert_int_equal(left(scores, WHOLE), 0);
    options_clear(&o);

    /* removed by a minimum, made a number, rewarded; then suppressed */
    o = neutral();
    o.min_length = 9;
    o.num_beams = 2;
    o.remove_invalid_values = true;
    set(&o, "exponential_decay_length_penalty", (struct value)LIST(INT(0), REAL(1.5)));
    flat(scores);
    apply(&o, (int32_t[]){ 0, 0 }, 2, scores, WHOLE);
    assert_true(scores[2] == -FLT_MAX / 2);
    set(&o, "suppress_tokens", (struct value)LIST(INT(2)));
    apply(&o, (int32_t[]){ 0, 0 }, 2, scores, WHOLE);
    assert_true(scores[2] == OFF);
    options_clear(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_words_remove_what_would_end_them),
        cmocka_unit_test(biases_are_added_to_what_would_end_a_phrase),
        cmocka_unit_test(suppressed_tokens_are_removed_at_their_places),
        cmocka_unit_test(the_beginning_is_behind_a_prefix_or_a_forced_token),
        cmocka_unit_test(only_allowed_tokens_and_ends_are_left),
        cmocka_unit_test(a_decay_rewards_the_end_after_its_start),
        cmocka_unit_test(encoder_rules_see_the_source_as_sent),
        cmocka_unit_test(source_ids_that_are_no_targets_are_passed_over),
        cmocka_unit_test(invalid_values_become_numbers),
        cmocka_unit_test(several_ends_may_be_forced),
        cmocka_unit_test(rules_apply_in_the_references_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
