/* Options that are lists: what is taken, refused, shared and shown. */
#include <float.h>
#include <math.h>

#include "../../src/search/phrases.h"
#include "base/mem.h"
#include "option_values.h"

/* "5:-1.5 4,7" — the phrases and, if they have one, their bias. */
static void expect(const struct phrases *phrases, const char *expected)
{
    char text[256] = "";
    for (size_t i = 0; phrases && i < phrases->count; i++) {
        const struct phrase *const p = &phrases->items[i];
        char *end = text + strlen(text);
        for (size_t j = 0; j < p->count; j++)
            end += sprintf(end, "%s%d", j ? "," : i ? " " : "", p->ids[j]);
        if (p->bias != 0)
            sprintf(end, ":%g", (double)p->bias);
    }
    assert_string_equal(text, expected);
}

static void lists_are_ordered_by_last_id_and_have_each_phrase_once(void **state)
{
    (void)state;
    struct options o = fresh();
    set(&o, "suppress_tokens", (struct value)LIST(INT(9), INT(0), INT(39), INT(9)));
    set(&o, "begin_suppress_tokens", (struct value)LIST(INT(3)));
    set(&o, "allowed_token_ids", (struct value)LIST(INT(4), INT(2)));
    set(&o, "bad_words_ids",
        (struct value)LIST(LIST(INT(7), INT(5)), LIST(INT(5)), LIST(INT(3), INT(5)), LIST(INT(4)),
                           LIST(INT(7), INT(5))));
    expect(o.lists[LIST_SUPPRESS], "0 9 39");
    expect(o.lists[LIST_BEGIN_SUPPRESS], "3");
    expect(o.lists[LIST_ALLOWED], "2 4");
    expect(o.lists[LIST_BAD_WORDS], "4 5 3,5 7,5");
    assert_true(phrases_have(o.lists[LIST_SUPPRESS], 39));
    assert_false(phrases_have(o.lists[LIST_SUPPRESS], 8));
    options_clear(&o);
}

static void of_two_biases_of_a_phrase_the_last_counts(void **state)
{
    (void)state;
    struct options o = fresh();
    set(&o, "sequence_bias",
        (struct value)LIST(LIST(LIST(INT(5)), REAL(1.5)), LIST(LIST(INT(4), INT(5)), INT(-2)),
                           LIST(LIST(INT(5)), REAL(-.25))));
    expect(o.lists[LIST_SEQUENCE_BIAS], "5:-0.25 4,5:-2");
    options_clear(&o);
}

static void nothing_and_an_empty_list_switch_a_list_off(void **state)
{
    (void)state;
    static const char *const names[] = { "sequence_bias", "bad_words_ids", "suppress_tokens",
                                         "begin_suppress_tokens" };
    const struct value values[] = { LIST(LIST(LIST(INT(5)), REAL(1))), LIST(LIST(INT(5))),
                                    LIST(INT(5)), LIST(INT(5)) };
    for (int empty = 0; empty < 2; empty++) {
        for (size_t i = 0; i < 4; i++) {
            struct options o = fresh();
            set(&o, names[i], values[i]);
            assert_non_null(o.lists[i]);
            set(&o, names[i], (struct value){ .kind = empty ? VALUE_LIST : VALUE_NULL });
            assert_null(o.lists[i]);
        }
    }
}

static void wrong_lists_are_refused_at_their_place(void **state)
{
    (void)state;
    const struct refused_value cases[] = {
        { "suppress_tokens", INT(5), ERR_WRONG_TYPE },
        { "suppress_tokens[1]", LIST(INT(5), TEXT("6")), ERR_WRONG_TYPE },
        { "suppress_tokens[1]", LIST(INT(5), REAL(6)), ERR_WRONG_TYPE },
        { "suppress_tokens[0]", LIST(LIST(INT(5))), ERR_WRONG_TYPE },
        { "suppress_tokens[1]", LIST(INT(39), INT(40)), ERR_TOKEN_OUT_OF_RANGE },
        { "begin_suppress_tokens[0]", LIST(INT(-1)), ERR_TOKEN_OUT_OF_RANGE },
        { "begin_suppress_tokens[0]", LIST(INT(INT64_MAX)), ERR_TOKEN_OUT_OF_RANGE },
        { "allowed_token_ids", { .kind = VALUE_LIST }, ERR_OUT_OF_RANGE },
        { "allowed_token_ids", BOOL(true), ERR_WRONG_TYPE },
        { "bad_words_ids[0]", LIST(INT(5)), ERR_WRONG_TYPE },
        { "bad_words_ids[1]", LIST(LIST(INT(5)), { .kind = VALUE_LIST }), ERR_OUT_OF_RANGE },
        { "bad_words_ids[0][1]", LIST(LIST(INT(5), INT(70000))), ERR_TOKEN_OUT_OF_RANGE },
        { "bad_words_ids[0][1]", LIST(LIST(INT(5), NOTHING)), ERR_WRONG_TYPE },
        { "bad_words_ids", { .kind = VALUE_OBJECT }, ERR_WRONG_TYPE },
        { "sequence_bias", { .kind = VALUE_OBJECT }, ERR_WRONG_TYPE },
        { "sequence_bias[0]", LIST(LIST(INT(5))), ERR_WRONG_TYPE },
        { "sequence_bias[0]", LIST(LIST(LIST(INT(5)), REAL(1), REAL(1))), ERR_WRONG_TYPE },
        { "sequence_bias[0][0]", LIST(LIST(INT(5), REAL(1))), ERR_WRONG_TYPE },
        { "sequence_bias[0][0]", LIST(LIST({ .kind = VALUE_LIST }, REAL(1))), ERR_OUT_OF_RANGE },
        { "sequence_bias[0][1]", LIST(LIST(LIST(INT(5)), TEXT("1"))), ERR_WRONG_TYPE },
        { "sequence_bias[0][1]", LIST(LIST(LIST(INT(5)), REAL(1e39))), ERR_OUT_OF_RANGE },
        { "sequence_bias[1][0][1]",
          LIST(LIST(LIST(INT(5)), REAL(1)), LIST(LIST(INT(5), INT(40)), REAL(1))),
          ERR_TOKEN_OUT_OF_RANGE },
        { "exponential_decay_length_penalty", REAL(1.5), ERR_WRONG_TYPE },
        { "exponential_decay_length_penalty", LIST(INT(3)), ERR_WRONG_TYPE },
        { "exponential_decay_length_penalty[0]", LIST(REAL(3), REAL(1.5)), ERR_WRONG_TYPE },
        { "exponential_decay_length_penalty[0]", LIST(INT(INT64_MAX), REAL(1.5)),
          ERR_OUT_OF_RANGE },
        { "exponential_decay_length_penalty[1]", LIST(INT(3), REAL(0)), ERR_OUT_OF_RANGE },
        { "exponential_decay_length_penalty[1]", LIST(INT(3), TEXT("1")), ERR_WRONG_TYPE },
    };
    check_refused(cases, sizeof cases / sizeof cases[0]);
}

static void an_id_that_the_model_does_not_have_is_told_with_its_range(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct options o = fresh();
    const struct value value = LIST(LIST(INT(5), INT(70000)));
    options_set(&o, "bad_words_ids", &value, &limits, "parameters[2].", &err);
    assert_string_equal(err.message, "parameters[2].bad_words_ids[0][1] is 70000; this model's "
                                     "target vocabulary is 0..39");
}

static void a_list_has_as_many_ids_as_the_limit_allows(void **state)
{
    (void)state;
    struct value ids[13], words[3];
    for (size_t i = 0; i < 13; i++)
        ids[i] = (struct value)INT((int64_t)i);
    for (size_t i = 0; i < 3; i++)
        words[i] = (struct value){ .kind = VALUE_LIST, .items = ids, .count = 4 + i / 2 };
    for (size_t over = 0; over < 2; over++) {
        const struct value flat = { .kind = VALUE_LIST, .items = ids, .count = 12 + over };
        const struct value nested = { .kind = VALUE_LIST, .items = words, .count = 3 };
        struct error err = { 0 }, other = { 0 };
        struct options o = fresh();
        words[2].count = 4 + over;
        assert_int_equal(options_set(&o, "suppress_tokens", &flat, &limits, "", &err),
                         over ? -1 : 0);
        assert_int_equal(options_set(&o, "bad_words_ids", &nested, &limits, "", &other),
                         over ? -1 : 0);
        if (over) {
            assert_int_equal(err.code, ERR_OVER_LIMIT);
            assert_string_equal(err.message,
                                "suppress_tokens has 13 token ids; limits.option_tokens is 12");
            assert_string_equal(other.message,
                                "bad_words_ids has 13 token ids; limits.option_tokens is 12");
        }
        options_clear(&o);
    }
}

static void a_copy_shares_lists_and_outlives_the_original(void **state)
{
    (void)state;
    struct options o = fresh(), first, second;
    set(&o, "bad_words_ids", (struct value)LIST(LIST(INT(5))));
    options_copy(&first, &o);
    options_copy(&second, &first);
    assert_ptr_equal(first.lists[LIST_BAD_WORDS], o.lists[LIST_BAD_WORDS]);
    options_clear(&o);
    assert_null(o.lists[LIST_BAD_WORDS]);
    set(&first, "bad_words_ids", (struct value)LIST(LIST(INT(6))));
    expect(first.lists[LIST_BAD_WORDS], "6");
    expect(second.lists[LIST_BAD_WORDS], "5");
    options_clear(&first);
    options_clear(&second);
    options_clear(&second);
}

static void a_list_that_fails_leaves_the_old_one(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct options o = fresh();
    const struct value wrong = LIST(LIST(INT(6)), LIST(INT(40))), good = LIST(LIST(INT(7)));
    set(&o, "bad_words_ids", (struct value)LIST(LIST(INT(5))));
    assert_int_equal(options_set(&o, "bad_words_ids", &wrong, &limits, "", &err), -1);
    expect(o.lists[LIST_BAD_WORDS], "5");
    err = (struct error){ 0 };
    mem_fail_after(0);
    assert_int_equal(options_set(&o, "bad_words_ids", &good, &limits, "", &err), -1);
    mem_fail_after(-1);
    assert_int_equal(err.code, ERR_NO_MEMORY);
    expect(o.lists[LIST_BAD_WORDS], "5");
    options_clear(&o);
}

static void a_decay_has_a_start_and_a_factor(void **state)
{
    (void)state;
    struct options o = fresh();
    set(&o, "exponential_decay_length_penalty", (struct value)LIST(INT(-3), INT(2)));
    assert_true(o.decay_start == -3 && o.decay_factor == 2);
    set(&o, "exponential_decay_length_penalty", (struct value)NOTHING);
    assert_true(o.decay_factor == 1);
}

static void a_models_lists_are_taken_however_long(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct options o;
    const struct setting items[] = { { name_of("bad_words_ids"), LIST(LIST(INT(39))) },
                                     { name_of("suppress_tokens"), { .kind = VALUE_LIST } },
                                     { name_of("forced_eos_token_id"), LIST(INT(2), INT(3)) } };
    assert_int_equal(defaults(&o, items, 3, &err), 0);
    expect(o.lists[LIST_BAD_WORDS], "39");
    assert_null(o.lists[LIST_SUPPRESS]);
    assert_true(o.forced_eos_count == 2 && o.forced_eos_ids[1] == 3);
    options_clear(&o);
}

static void a_token_that_is_forced_must_not_be_removed(void **state)
{
    (void)state;
    const struct {
        const char *list, *forced;
        struct value ids, forced_ids;
        const char *param; /* NULL: all is well */
    } cases[] = {
        { "suppress_tokens", "forced_bos_token_id", LIST(INT(4), INT(5)), INT(5),
          "suppress_tokens" },
        { "suppress_tokens", "forced_bos_token_id", LIST(INT(4), INT(5)), INT(6), NULL },
        { "suppress_tokens", "forced_eos_token_id", LIST(INT(2)), INT(2), "suppress_tokens" },
        { "suppress_tokens", "forced_eos_token_id", LIST(INT(2), INT(3)), LIST(INT(3), INT(2)),
          "suppress_tokens" },
        { "suppress_tokens", "forced_eos_token_id", LIST(INT(2)), LIST(INT(3), INT(2)), NULL },
        { "begin_suppress_tokens", "forced_bos_token_id", LIST(INT(5)), INT(5), NULL },
        { "allowed_token_ids", "forced_bos_token_id", LIST(INT(4)), INT(5), "allowed_token_ids" },
        { "allowed_token_ids", "forced_bos_token_id", LIST(INT(4)), INT(4), NULL },
        { "allowed_token_ids", "forced_eos_token_id", LIST(INT(4)), INT(1), NULL }, /* an end */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct options o = fresh();
        set(&o, "eos_token_id", (struct value)INT(1));
        set(&o, cases[i].list, cases[i].ids);
        set(&o, cases[i].forced, cases[i].forced_ids);
        print_message("    case %zu\n", i);
        assert_int_equal(options_resolve(&o, &limits, 1, "", &err), cases[i].param ? -1 : 0);
        assert_string_equal(err.param, cases[i].param ? cases[i].param : "");
        assert_true(!cases[i].param || strstr(err.message, cases[i].forced));
        options_clear(&o);
    }
}

/* As JSON would be. */
static void write(char *text, const struct value *value)
{
    if (value->kind == VALUE_INT)
        sprintf(text + strlen(text), "%lld", (long long)value->integer);
    else if (value->kind == VALUE_REAL)
        sprintf(text + strlen(text), "%g", value->real);
    else if (value->kind == VALUE_NULL)
        strcat(text, "null");
    for (size_t i = 0; value->kind == VALUE_LIST && i < value->count; i++) {
        strcat(text, i ? "," : "[");
        write(text, &value->items[i]);
    }
    strcat(text, value->kind == VALUE_LIST ? "]" : "");
}

static void write_all(void *context, const char *option, const struct value *value)
{
    strcat(strcat(context, option), "=");
    write(context, value);
    strcat(context, " ");
}

static void lists_are_described_as_they_are_set(void **state)
{
    (void)state;
    struct options o = fresh();
    char text[512] = "";
    o.start_id = -1;
    set(&o, "sequence_bias", (struct value)LIST(LIST(LIST(INT(5), INT(6)), REAL(-1.5))));
    set(&o, "bad_words_ids", (struct value)LIST(LIST(INT(5)), LIST(INT(6), INT(7))));
    set(&o, "suppress_tokens", (struct value)LIST(INT(8), INT(9)));
    set(&o, "exponential_decay_length_penalty", (struct value)LIST(INT(3), REAL(1.25)));
    options_describe(&o, write_all, text);
    assert_string_equal(text, "sequence_bias=[[[5,6],-1.5]] bad_words_ids=[[5],[6,7]] "
                              "suppress_tokens=[8,9] "
                              "exponential_decay_length_penalty=[3,1.25] ");
    for (long n = 0; n < 12; n++) {
        char with_gaps[512] = "";
        mem_fail_after(n);
        options_describe(&o, write_all, with_gaps);
        mem_fail_after(-1);
        assert_true((strstr(with_gaps, "null") != NULL) == (n < 8));
    }
    options_clear(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_ordered_by_last_id_and_have_each_phrase_once),
        cmocka_unit_test(of_two_biases_of_a_phrase_the_last_counts),
        cmocka_unit_test(nothing_and_an_empty_list_switch_a_list_off),
        cmocka_unit_test(wrong_lists_are_refused_at_their_place),
        cmocka_unit_test(an_id_that_the_model_does_not_have_is_told_with_its_range),
        cmocka_unit_test(a_list_has_as_many_ids_as_the_limit_allows),
        cmocka_unit_test(a_copy_shares_lists_and_outlives_the_original),
        cmocka_unit_test(a_list_that_fails_leaves_the_old_one),
        cmocka_unit_test(a_decay_has_a_start_and_a_factor),
        cmocka_unit_test(a_models_lists_are_taken_however_long),
        cmocka_unit_test(a_token_that_is_forced_must_not_be_removed),
        cmocka_unit_test(lists_are_described_as_they_are_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
