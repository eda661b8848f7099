/* Options as numbers, flags and ids: what is taken, refused, resolved and shown. */
#include <math.h>

#include "option_values.h"

static void the_defaults_are_the_tables(void **state)
{
    (void)state;
    struct options o;
    options_init(&o);
    assert_true(o.max_new_tokens == SIZE_MAX && o.max_length == SIZE_MAX);
    assert_true(o.min_new_tokens == SIZE_MAX && o.min_length == 0);
    assert_true(o.num_beams == 1 && o.num_return_sequences == 1);
    assert_true(o.length_penalty == 1 && o.early_stopping == EARLY_STOPPING_FALSE);
    assert_true(!o.do_sample && !o.seed_given);
    assert_true(o.temperature == 1 && o.top_k == 50 && o.top_p == 1 && o.min_p == 0);
    assert_true(o.top_h == 0 && o.typical_p == 1 && o.epsilon_cutoff == 0 && o.eta_cutoff == 0);
    assert_true(o.repetition_penalty == 1 && o.no_repeat_ngram_size == 0);
    assert_true(o.encoder_repetition_penalty == 1 && o.encoder_no_repeat_ngram_size == 0);
    assert_true(o.decay_factor == 1 && !o.remove_invalid_values && !o.renormalize_logits);
    for (size_t i = 0; i < LIST_COUNT; i++)
        assert_null(o.lists[i]);
    assert_true(o.forced_bos_id == -1 && o.forced_eos_count == 0 && o.start_id == -1);
    assert_true(o.bos_id == -1 && o.pad_id == -1 && o.eos_count == 0);
    assert_true(!o.logprobs && o.top_logprobs == 0 && !o.output_attentions);
    assert_true(o.skip_special_tokens);
    assert_int_equal(options_width(&o), 1);
}

static void values_of_the_right_kind_are_taken(void **state)
{
    (void)state;
    struct options o = fresh();
    set(&o, "max_new_tokens", (struct value)INT(7));
    set(&o, "num_beams", (struct value)INT(4));
    set(&o, "length_penalty", (struct value)INT(2));
    set(&o, "early_stopping", (struct value)TEXT("never"));
    set(&o, "do_sample", (struct value)BOOL(true));
    set(&o, "seed", (struct value)INT(9007199254740991));
    set(&o, "top_p", (struct value)REAL(.9));
    set(&o, "forced_bos_token_id", (struct value)INT(0));
    set(&o, "logprobs", (struct value)INT(0));
    set(&o, "eos_token_id", (struct value)LIST(INT(3), INT(7)));
    assert_true(o.max_new_tokens == 7 && o.max_new_tokens_given && !o.max_length_given);
    assert_true(o.num_beams == 4 && o.length_penalty == 2);
    assert_true(o.early_stopping == EARLY_STOPPING_NEVER && o.do_sample);
    assert_true(o.seed == 9007199254740991 && o.seed_given);
    assert_true(o.top_p == .9 && o.forced_bos_id == 0);
    assert_true(o.logprobs && o.top_logprobs == 0);
    assert_true(o.eos_count == 2 && o.eos_ids[0] == 3 && o.eos_ids[1] == 7);
    set(&o, "eos_token_id", (struct value)INT(5));
    assert_true(o.eos_count == 1 && o.eos_ids[0] == 5);
}

static void null_switches_an_option_off(void **state)
{
    (void)state;
    struct options o = fresh();
    o.max_length = 9;
    o.max_length_given = true;
    o.eos_count = 1;
    o.forced_eos_count = 1;
    o.bos_id = 7;
    o.logprobs = true;
    static const char *const names[] = {
        "max_length", "eos_token_id", "forced_eos_token_id", "decoder_start_token_id",
        "top_k",      "logprobs",     "bad_words_ids",       "pad_token_id"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        set(&o, names[i], (struct value)NOTHING);
    assert_true(o.max_length == SIZE_MAX && !o.max_length_given);
    assert_true(o.eos_count == 0 && o.forced_eos_count == 0);
    assert_int_equal(o.start_id, 7);
    assert_int_equal(o.top_k, 0); /* the reference: None is no limit, absent is 50 */
    assert_false(o.logprobs);
}

static void wrong_values_are_refused_by_name(void **state)
{
    (void)state;
    const struct refused_value cases[] = {
        { "num_beams", INT(0), ERR_OUT_OF_RANGE },
        { "num_beams", INT(-1), ERR_OUT_OF_RANGE },
        { "num_beams", INT(INT64_MAX), ERR_OUT_OF_RANGE },
        { "num_beams", REAL(5.0), ERR_WRONG_TYPE },
        { "num_beams", BOOL(true), ERR_WRONG_TYPE },
        { "num_beams", TEXT("5"), ERR_WRONG_TYPE },
        { "num_beams", LIST(INT(1)), ERR_WRONG_TYPE },
        { "max_new_tokens", INT(0), ERR_OUT_OF_RANGE },
        { "max_new_tokens", INT(-1), ERR_OUT_OF_RANGE },
        { "num_return_sequences", INT(0), ERR_OUT_OF_RANGE },
        { "seed", INT(-1), ERR_OUT_OF_RANGE },
        { "seed", INT(9007199254740992), ERR_OUT_OF_RANGE },
        { "seed", REAL(1), ERR_WRONG_TYPE },
        { "temperature", REAL(0), ERR_OUT_OF_RANGE },
        { "temperature", INT(0), ERR_OUT_OF_RANGE },
        { "temperature", REAL(-1), ERR_OUT_OF_RANGE },
        { "temperature", REAL(1e-60), ERR_OUT_OF_RANGE },
        { "temperature", BOOL(true), ERR_WRONG_TYPE },
        { "top_k", INT(-1), ERR_OUT_OF_RANGE },
        { "top_p", REAL(-.01), ERR_OUT_OF_RANGE },
        { "top_p", REAL(1.0001), ERR_OUT_OF_RANGE },
        { "min_p", REAL(-.1), ERR_OUT_OF_RANGE },
        { "min_p", REAL(1.1), ERR_OUT_OF_RANGE },
        { "repetition_penalty", REAL(0), ERR_OUT_OF_RANGE },
        { "repetition_penalty", REAL(-2), ERR_OUT_OF_RANGE },
        { "length_penalty", REAL(NAN), ERR_OUT_OF_RANGE },
        { "length_penalty", REAL(INFINITY), ERR_OUT_OF_RANGE },
        { "length_penalty", REAL(1e39), ERR_OUT_OF_RANGE },
        { "early_stopping", INT(1), ERR_WRONG_TYPE },
        { "early_stopping", TEXT("always"), ERR_WRONG_TYPE },
        { "do_sample", INT(1), ERR_WRONG_TYPE },
        { "forced_bos_token_id", INT(-1), ERR_TOKEN_OUT_OF_RANGE },
        { "forced_bos_token_id", INT(INT64_MAX), ERR_TOKEN_OUT_OF_RANGE },
        { "eos_token_id", TEXT("3"), ERR_WRONG_TYPE },
        { "eos_token_id", INT(40), ERR_TOKEN_OUT_OF_RANGE },
        { "eos_token_id[1]", LIST(INT(1), BOOL(true)), ERR_WRONG_TYPE },
        { "eos_token_id[1]", LIST(INT(1), INT(-5)), ERR_TOKEN_OUT_OF_RANGE },
        { "forced_eos_token_id[0]", LIST(INT(40)), ERR_TOKEN_OUT_OF_RANGE },
        { "logprobs", INT(-1), ERR_OUT_OF_RANGE },
        { "logprobs", BOOL(true), ERR_WRONG_TYPE },
        { "beams", INT(1), ERR_UNKNOWN_FIELD },
        { "Num_beams", INT(1), ERR_UNKNOWN_FIELD },
        { "", INT(1), ERR_UNKNOWN_FIELD },
        { "typical_p", REAL(0), ERR_OUT_OF_RANGE },
        { "typical_p", REAL(1.01), ERR_OUT_OF_RANGE },
        { "top_h", INT(0), ERR_OUT_OF_RANGE },
        { "top_h", REAL(1.5), ERR_OUT_OF_RANGE },
        { "epsilon_cutoff", INT(1), ERR_OUT_OF_RANGE },
        { "epsilon_cutoff", REAL(-.1), ERR_OUT_OF_RANGE },
        { "eta_cutoff", REAL(1), ERR_OUT_OF_RANGE },
        { "eta_cutoff", BOOL(true), ERR_WRONG_TYPE },
        { "encoder_repetition_penalty", INT(0), ERR_OUT_OF_RANGE },
        { "encoder_no_repeat_ngram_size", INT(-1), ERR_OUT_OF_RANGE },
        { "renormalize_logits", INT(1), ERR_WRONG_TYPE },
        { "remove_invalid_values", TEXT("yes"), ERR_WRONG_TYPE },
        { "num_beam_groups", INT(2), ERR_UNSUPPORTED },
        { "stop", LIST(TEXT("x")), ERR_UNSUPPORTED },
        { "target_lang", TEXT("de"), ERR_UNSUPPORTED },
        { "pad_token_id", INT(1), ERR_UNSUPPORTED },
    };
    check_refused(cases, sizeof cases / sizeof cases[0]);
}

static void a_message_names_the_bound_that_was_passed(void **state)
{
    (void)state;
    const struct {
        const char *name;
        struct value value;
        const char *allowed;
    } cases[] = {
        { "temperature", REAL(1e300), "from 1.2e-38 to 3.4e38" },
        { "temperature", REAL(1e-60), "from 1.2e-38 to 3.4e38" },
        { "temperature", INT(0), "above 0" },
        { "length_penalty", REAL(1e308), "from -3.4e38 to 3.4e38" },
        { "num_beams", INT(0), "from 1 to limits.beams" },
        { "num_return_sequences", INT(0), "from 1 to limits.return_sequences" },
        { "max_new_tokens", INT(0), "from 1 to limits.max_new_tokens" },
        { "logprobs", INT(-1), "from 0 to limits.top_logprobs" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct options o = fresh();
        assert_int_equal(options_set(&o, cases[i].name, &cases[i].value, &limits, "", &err), -1);
        if (!strstr(err.message, cases[i].allowed))
            fail_msg("%s", err.message);
    }
}

static void neutral_values_of_options_that_are_not_built_are_taken(void **state)
{
    (void)state;
    struct options o = fresh();
    set(&o, "guidance_scale", (struct value)INT(1));
    set(&o, "num_beam_groups", (struct value)INT(1));
    set(&o, "diversity_penalty", (struct value)REAL(0));
    set(&o, "penalty_alpha", (struct value)NOTHING);
    set(&o, "low_memory", (struct value)BOOL(false));
    set(&o, "constraints", (struct value){ .kind = VALUE_LIST });
}

static void a_models_defaults_are_taken_and_its_other_fields_passed_over(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct options o;
    const struct setting items[] = {
        { name_of("bos_token_id"), INT(0) }, { name_of("transformers_version"), TEXT("5.24.0") },
        { name_of("pad_token_id"), INT(1) }, { name_of("max_length"), INT(200) },
        { name_of("top_k"), NOTHING },       { name_of("_from_model_config"), BOOL(true) },
        { name_of("num_beams"), INT(4) },    { name_of("use_cache"), BOOL(false) },
    };
    assert_int_equal(defaults(&o, items, 8, &err), 0);
    assert_true(o.bos_id == 0 && o.pad_id == 1 && o.num_beams == 4 && o.max_length == 200);
    assert_int_equal(o.start_id, 0); /* bos stands in */
    assert_int_equal(o.top_k, 50);
    assert_false(o.max_length_given);
}

static void a_models_own_start_wins_over_bos(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct options o;
    const struct setting items[] = { { name_of("decoder_start_token_id"), INT(2) },
                                     { name_of("bos_token_id"), INT(0) } };
    assert_int_equal(defaults(&o, items, 2, &err), 0);
    assert_int_equal(o.start_id, 2);
}

static void a_models_wish_that_is_not_built_is_refused_by_name(void **state)
{
    (void)state;
    const struct setting items[] = {
        { name_of("num_beam_groups"), INT(3) },
        { name_of("diversity_penalty"), REAL(.5) },
        { name_of("penalty_alpha"), REAL(.6) },
        { name_of("constraints"), LIST(INT(1)) },
        { name_of("force_words_ids"), LIST(LIST(INT(1))) },
        { name_of("dola_layers"), TEXT("high") },
        { name_of("low_memory"), BOOL(true) },
        { name_of("guidance_scale"), REAL(1.5) },
        { name_of("watermarking_config"), { .kind = VALUE_OBJECT } },
        { name_of("prompt_lookup_num_tokens"), INT(3) },
        { name_of("assistant_early_exit"), INT(2) },
        { name_of("token_healing"), BOOL(true) },
        { name_of("stop_strings"), LIST(TEXT("x")) },
        { name_of("max_time"), REAL(2) },
        { name_of("use_mtp"), BOOL(true) },
    };
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        struct error err = { 0 };
        struct options o;
        print_message("    %s\n", items[i].name);
        assert_int_equal(defaults(&o, &items[i], 1, &err), -1);
        assert_int_equal(err.code, ERR_UNSUPPORTED);
        assert_string_equal(err.param, items[i].name);
    }
}

/* Such names may stand in a config.json for something else. */
static void what_only_a_request_says_is_passed_over_in_a_folder(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct options o;
    const struct setting items[] = {
        { name_of("seed"), INT(-1) },
        { name_of("stop"), TEXT("x") },
        { name_of("source_lang"), TEXT("en") },
        { name_of("logprobs"), TEXT("all") },
        { name_of("output_attentions"), BOOL(true) },
        { name_of("allowed_token_ids"), LIST(INT(99)) },
    };
    assert_int_equal(defaults(&o, items, 6, &err), 0);
    assert_true(!o.output_attentions && !o.logprobs && !o.lists[LIST_ALLOWED]);
}

/* 0: not given. */
struct length_case {
    size_t request_new, request_length, model_new, model_length, prefix;
    size_t total;         /* expected; 0: refused */
    enum error_code code; /* then */
    const char *param;
};

static void lengths_are_resolved(void **state)
{
    (void)state;
    static const struct length_case cases[] = {
        { 0, 0, 0, 0, 1, 21, ERR_NONE, NULL },
        { 0, 0, 0, 0, 20, 32, ERR_NONE, NULL },  /* the default is capped by the positions */
        { 0, 0, 0, 100, 1, 26, ERR_NONE, NULL }, /* a model's by the limit of 25 too */
        { 0, 0, 100, 0, 10, 32, ERR_NONE, NULL },
        { 0, 0, 0, 12, 1, 12, ERR_NONE, NULL },
        { 5, 0, 0, 0, 1, 6, ERR_NONE, NULL },
        { 0, 5, 0, 0, 1, 5, ERR_NONE, NULL },
        { 3, 10, 0, 0, 1, 4, ERR_NONE, NULL },
        { 3, 0, 0, 12, 1, 4, ERR_NONE, NULL },
        { 0, 10, 3, 0, 1, 4, ERR_NONE, NULL }, /* as the reference: max_new_tokens wins */
        { 0, 32, 0, 0, 8, 32, ERR_NONE, NULL },
        { 0, 33, 0, 0, 8, 0, ERR_OUT_OF_RANGE, "parameters.max_length" },
        { 31, 0, 0, 0, 2, 0, ERR_OUT_OF_RANGE, "parameters.max_new_tokens" },
        { 26, 0, 0, 0, 1, 0, ERR_OVER_LIMIT, "parameters.max_new_tokens" },
        { 0, 27, 0, 0, 1, 0, ERR_OVER_LIMIT, "parameters.max_length" },
        { 0, 1, 0, 0, 1, 0, ERR_OUT_OF_RANGE, "parameters.max_length" },
        { 0, 3, 0, 0, 4, 0, ERR_OUT_OF_RANGE, "parameters.max_length" },
        { 0, 0, 0, 0, 32, 0, ERR_TOO_LONG, "decoder_input_ids" },
        { 2147483647, 0, 0, 0, 1, 0, ERR_OUT_OF_RANGE, "parameters.max_new_tokens" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct length_case *const c = &cases[i];
        struct error err = { 0 };
        struct options o = fresh();
        o.max_new_tokens = c->model_new ? c->model_new : SIZE_MAX;
        o.max_length = c->model_length ? c->model_length : SIZE_MAX;
        if (c->request_new)
            set(&o, "max_new_tokens", (struct value)INT((int64_t)c->request_new));
        if (c->request_length)
            set(&o, "max_length", (struct value)INT((int64_t)c->request_length));
        print_message("    case %zu\n", i);
        const int rc = options_resolve(&o, &limits, c->prefix, "parameters.", &err);
        assert_int_equal(rc, c->total ? 0 : -1);
        assert_int_equal(err.code, c->code);
        if (rc == 0) {
            assert_int_equal(o.max_length, c->total);
            assert_int_equal(o.max_new_tokens, c->total - c->prefix);
        } else {
            assert_string_equal(err.param, c->param);
        }
    }
}

static void a_decoder_without_positions_has_only_the_limit(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct option_limits endless = limits;
    struct options o = fresh();
    endless.positions_max = SIZE_MAX;
    o.max_length = 1000;
    assert_int_equal(options_resolve(&o, &endless, 5, "", &err), 0);
    assert_int_equal(o.max_length, 30);
}

static void min_new_tokens_wins_over_min_length(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct options o = fresh();
    o.min_length = 9;
    assert_int_equal(options_resolve(&o, &limits, 3, "", &err), 0);
    assert_int_equal(o.min_length, 9);
    o = fresh();
    o.min_length = 9;
    o.min_new_tokens = 0;
    assert_int_equal(options_resolve(&o, &limits, 3, "", &err), 0);
    assert_int_equal(o.min_length, 3);
}

static void combinations_are_checked(void **state)
{
    (void)state;
    const struct {
        const char *first;
        struct value first_value;
        const char *second;
        struct value second_value;
        enum error_code code;
        const char *param;
    } cases[] = {
        { "num_return_sequences", INT(3), "num_beams", INT(2), ERR_OUT_OF_RANGE,
          "num_return_sequences" },
        { "num_return_sequences", INT(2), "num_beams", INT(1), ERR_OUT_OF_RANGE,
          "num_return_sequences" },
        { "num_return_sequences", INT(3), "num_beams", INT(3), ERR_NONE, "" },
        { "num_return_sequences", INT(6), "do_sample", BOOL(true), ERR_NONE, "" },
        { "num_return_sequences", INT(7), "do_sample", BOOL(true), ERR_OVER_LIMIT,
          "num_return_sequences" },
        { "num_beams", INT(2), "do_sample", BOOL(true), ERR_UNSUPPORTED, "num_beams" },
        { "num_beams", INT(8), "do_sample", BOOL(false), ERR_NONE, "" },
        { "num_beams", INT(9), "do_sample", BOOL(false), ERR_OVER_LIMIT, "num_beams" },
        { "logprobs", INT(5), "num_beams", INT(1), ERR_NONE, "" },
        { "logprobs", INT(6), "num_beams", INT(1), ERR_OVER_LIMIT, "logprobs" },
        { "forced_bos_token_id", INT(39), "eos_token_id", INT(39), ERR_NONE, "" },
        { "forced_bos_token_id", INT(40), "eos_token_id", INT(1), ERR_TOKEN_OUT_OF_RANGE,
          "forced_bos_token_id" },
        { "decoder_start_token_id", INT(40), "eos_token_id", INT(1), ERR_TOKEN_OUT_OF_RANGE,
          "decoder_start_token_id" },
        { "decoder_start_token_id", NOTHING, "num_beams", INT(1), ERR_MISSING_FIELD,
          "decoder_start_token_id" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct options o = fresh();
        set(&o, cases[i].first, cases[i].first_value);
        set(&o, cases[i].second, cases[i].second_value);
        print_message("    case %zu\n", i);
        const int rc = options_resolve(&o, &limits, 1, "", &err);
        assert_int_equal(rc, cases[i].code == ERR_NONE ? 0 : -1);
        assert_int_equal(err.code, cases[i].code);
        assert_string_equal(err.param, cases[i].param);
    }
}

static void a_sampling_row_without_a_seed_gets_its_own(void **state)
{
    (void)state;
    uint64_t seeds[3];
    for (size_t i = 0; i < 3; i++) {
        struct error err = { 0 };
        struct options o = fresh();
        o.do_sample = true;
        o.seed_given = i == 2;
        o.seed = 77;
        assert_int_equal(options_resolve(&o, &limits, 1, "", &err), 0);
        assert_true(o.seed < UINT64_C(1) << 53);
        seeds[i] = o.seed;
    }
    assert_true(seeds[0] != seeds[1]);
    assert_int_equal(seeds[2], 77);
}

static void only_what_differs_is_described(void **state)
{
    (void)state;
    char text[512] = "";
    struct options o;
    options_init(&o);
    options_describe(&o, describe, text);
    assert_string_equal(text, "");
    o.max_length = 9;
    o.top_p = .9;
    o.early_stopping = EARLY_STOPPING_NEVER;
    o.skip_special_tokens = false;
    o.eos_ids[0] = 3;
    o.eos_ids[1] = 7;
    o.eos_count = 2;
    o.start_id = 0;
    options_describe(&o, describe, text);
    assert_string_equal(text, "max_length=9 early_stopping=never top_p=0.9 "
                              "decoder_start_token_id=0 eos_token_id=[2] "
                              "skip_special_tokens=false ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_the_tables),
        cmocka_unit_test(values_of_the_right_kind_are_taken),
        cmocka_unit_test(null_switches_an_option_off),
        cmocka_unit_test(wrong_values_are_refused_by_name),
        cmocka_unit_test(a_message_names_the_bound_that_was_passed),
        cmocka_unit_test(neutral_values_of_options_that_are_not_built_are_taken),
        cmocka_unit_test(a_models_defaults_are_taken_and_its_other_fields_passed_over),
        cmocka_unit_test(a_models_own_start_wins_over_bos),
        cmocka_unit_test(a_models_wish_that_is_not_built_is_refused_by_name),
        cmocka_unit_test(what_only_a_request_says_is_passed_over_in_a_folder),
        cmocka_unit_test(lengths_are_resolved),
        cmocka_unit_test(a_decoder_without_positions_has_only_the_limit),
        cmocka_unit_test(min_new_tokens_wins_over_min_length),
        cmocka_unit_test(combinations_are_checked),
        cmocka_unit_test(a_sampling_row_without_a_seed_gets_its_own),
        cmocka_unit_test(only_what_differs_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
