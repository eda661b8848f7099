/* Searches whose answers can be worked out by hand, over logits that depend on nothing. */
#include "search_runs.h"

static const float WANTS_END[8] = { .01f, .01f, .80f, .01f, .01f, .08f, .06f, .02f };

/* One case of the analytic checkpoint: start = eos = 2; tokens are the new ones. */
struct analytic {
    const char *name;
    const float *vector;
    size_t max_length, max_new_tokens, min_length, min_new_tokens, beams;
    double length_penalty, repetition_penalty;
    int32_t forced_bos, forced_eos, second_eos;
    const char *tokens;
    double score;
};

static const struct analytic analytic[] = {
    { "forced bos", P, 5, 0, 0, 0, 2, 1, 1, 3, -1, -1, "3 2", -0.60199 },
    { "no forced eos", Q, 5, 0, 0, 0, 1, 1, 1, -1, -1, -1, "5 5 5 5", NAN },
    { "forced eos", Q, 5, 0, 0, 0, 1, 1, 1, -1, 2, -1, "5 5 5 2", NAN },
    { "forced eos, beams", Q, 5, 0, 0, 0, 2, 1, 1, -1, 2, -1, "5 5 5 2", -0.07902 },
    { "max_new_tokens", Q, 0, 5, 0, 0, 1, 1, 1, -1, -1, -1, "5 5 5 5 5", NAN },
    { "both lengths", Q, 10, 3, 0, 0, 1, 1, 1, -1, -1, -1, "5 5 5", NAN },
    { "min_length", WANTS_END, 10, 0, 4, 0, 1, 1, 1, -1, -1, -1, "5 5 5 2", NAN },
    { "min_new_tokens", WANTS_END, 10, 0, 0, 4, 1, 1, 1, -1, -1, -1, "5 5 5 5 2", NAN },
    { "min_length, beams", P, 6, 0, 4, 0, 2, 0, 1, -1, -1, -1, "5 5 5 2", -3.95285 },
    { "no penalty", P, 7, 0, 0, 0, 2, 0, 1, -1, -1, -1, "2", -1.20397 },
    { "length_penalty 1", P, 7, 0, 0, 0, 2, 1, 1, -1, -1, -1, "5 5 5 5 5 5", -0.91629 },
    { "length_penalty 2", P, 7, 0, 0, 0, 2, 2, 1, -1, -1, -1, "5 5 5 5 5 5", -0.15272 },
    { "length_penalty -1", P, 7, 0, 0, 0, 2, -1, 1, -1, -1, -1, "2", -1.20397 },
    { "two ends", P, 7, 0, 0, 0, 1, 1, 1, -1, -1, 5, "5", NAN },
    { "repetition, greedy", P, 5, 0, 5, 0, 1, 1, 2, -1, -1, -1, "5 6 5 5", NAN },
    { "repetition, beams", P, 5, 0, 5, 0, 2, 0, 2, -1, -1, -1, NULL, -6.19089 },
};

static void answers_worked_out_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof analytic / sizeof analytic[0]; i++) {
        const struct analytic *const a = &analytic[i];
        struct options o = u_options();
        o.max_length = a->max_length ? a->max_length : SIZE_MAX;
        o.max_new_tokens = a->max_new_tokens ? a->max_new_tokens : SIZE_MAX;
        o.min_length = a->min_length;
        o.min_new_tokens = a->min_new_tokens ? a->min_new_tokens : SIZE_MAX;
        o.num_beams = a->beams;
        o.length_penalty = a->length_penalty;
        o.repetition_penalty = a->repetition_penalty;
        o.forced_bos_id = a->forced_bos;
        o.forced_eos_ids[0] = a->forced_eos;
        o.forced_eos_count = a->forced_eos >= 0;
        if (a->second_eos >= 0)
            o.eos_ids[o.eos_count++] = a->second_eos;
        print_message("    %s\n", a->name);
        struct search *s = run_u(o, a->vector);
        expect(s, 0, a->tokens, a->score);
        search_destroy(&s);
    }
}

static void the_second_beam_follows_the_first(void **state)
{
    (void)state;
    struct options o = u_options();
    o.max_length = 7;
    o.num_beams = o.num_return_sequences = 2;
    o.length_penalty = -1;
    struct search *s = run_u(o, P);
    assert_int_equal(search_sequence_count(s), 2);
    expect(s, 0, "2", -1.20397);
    expect(s, 1, "5 2", -4.24053);
    search_destroy(&s);
}

/* A list of one word, as if a request had set it. */
static void set_bad_word(struct options *o, struct value *ids, size_t count)
{
    struct error err = { 0 };
    struct value word = { .kind = VALUE_LIST, .items = ids, .count = count };
    const struct value words = { .kind = VALUE_LIST, .items = &word, .count = 1 };
    assert_int_equal(options_set(o, "bad_words_ids", &words, &wide, "", &err), 0);
}

static void a_bad_word_costs_beams_its_share_unless_they_are_renormalized(void **state)
{
    (void)state;
    struct value five[2] = { { .kind = VALUE_INT, .integer = 5 },
                             { .kind = VALUE_INT, .integer = 5 } };
    struct options o = u_options();
    o.max_length = 4;
    o.num_beams = o.num_return_sequences = 2;
    o.length_penalty = 0;
    set_bad_word(&o, five, 1);
    struct search *s = run_u(o, P);
    expect(s, 0, "2", -1.20397);
    expect(s, 1, "6 2", -2.81341);
    search_destroy(&s);
    o.renormalize_logits = true;
    s = run_u(o, P);
    expect(s, 0, "2", -0.69315);
    expect(s, 1, "6 2", -1.79176);
    search_destroy(&s);
    options_clear(&o);

    o = u_options();
    o.max_length = o.min_length = 6;
    set_bad_word(&o, five, 2);
    s = run_u(o, P);
    expect(s, 0, "5 6 5 6 5", NAN);
    search_destroy(&s);
    options_clear(&o);
}

static void a_row_without_a_length_ends_at_the_models_positions(void **state)
{
    (void)state;
    struct search *s = run_u(u_options(), Q);
    const struct sequence q = search_sequence(s, 0);
    assert_int_equal(q.count + 1, 32);
    assert_int_equal(q.finish_reason, FINISH_LENGTH);
    assert_float_equal(q.logprob, 31 * log(.9), 1e-4);
    search_destroy(&s);
}

static void equal_scores_give_the_lower_id(void **state)
{
    (void)state;
    static const float flat[8] = { .125f, .125f, .125f, .125f, .125f, .125f, .125f, .125f };
    for (size_t beams = 1; beams <= 2; beams++) {
        struct options o = u_options();
        o.max_new_tokens = 3;
        o.num_beams = beams;
        struct search *s = run_u(o, flat);
        expect(s, 0, "0 0 0", beams == 1 ? NAN : -log(8));
        search_destroy(&s);
    }
}

static void top_logprobs_leave_out_removed_tokens(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct options o = u_options();
        o.max_new_tokens = 2;
        o.forced_bos_id = 3;
        o.num_beams = 1 + i % 2;
        o.remove_invalid_values = i > 1; /* makes numbers of what is removed */
        o.logprobs = true;
        o.top_logprobs = 3;
        struct search *s = run_u(o, P);
        const struct sequence q = search_sequence(s, 0);
        assert_int_equal(q.count, 2);
        assert_int_equal(q.tokens[0], 3);
        assert_float_equal(q.token_logprobs[0], 0, 0);
        assert_int_equal(q.top_logprobs[0].id, 3);
        assert_int_equal(q.top_logprobs[1].id, -1);
        assert_int_equal(q.top_logprobs[2].id, -1);
        assert_int_equal(q.top_logprobs[3].id, 5);
        assert_int_equal(q.top_logprobs[4].id, 2);
        assert_int_equal(q.top_logprobs[5].id, 6);
        assert_float_equal(q.top_logprobs[5].logprob, log(.2), 1e-6);
        search_destroy(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_worked_out_by_hand),
        cmocka_unit_test(the_second_beam_follows_the_first),
        cmocka_unit_test(a_bad_word_costs_beams_its_share_unless_they_are_renormalized),
        cmocka_unit_test(a_row_without_a_length_ends_at_the_models_positions),
        cmocka_unit_test(equal_scores_give_the_lower_id),
        cmocka_unit_test(top_logprobs_leave_out_removed_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
