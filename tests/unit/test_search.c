/* Searches over made-up logits: endings, paths, memory, and what must not happen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/mem.h"
#include "search_runs.h"

static void logprobs_are_absent_unless_asked(void **state)
{
    (void)state;
    struct options o = u_options();
    o.max_new_tokens = 2;
    struct search *s = run_u(o, P);
    const struct sequence q = search_sequence(s, 0);
    assert_null(q.token_logprobs);
    assert_null(q.top_logprobs);
    assert_float_equal(q.logprob, 2 * log(.4), 1e-6);
    search_destroy(&s);
}

static void a_path_leads_through_every_token_of_its_hypothesis(void **state)
{
    (void)state;
    static struct options o;
    for (int beams = 0; beams < 2; beams++) {
        int32_t token_at[64 * 6];
        const struct hashed salt = { .salt = 5 };
        size_t most = 0, least = SIZE_MAX;
        o = u_options();
        o.do_sample = o.seed_given = !beams;
        o.num_return_sequences = 6;
        o.num_beams = beams ? 6 : 1;
        o.max_new_tokens = 20;
        o.eos_ids[0] = 3;
        resolve(&o, 2);
        struct search *s = start(&o, 8, (int32_t[]){ 2, 4 }, 2);
        assert_int_equal(search_live(s), 1);
        while (!search_done(s)) {
            const size_t last = search_length(s) - 1;
            for (size_t i = 0; i < search_live(s); i++) {
                assert_int_equal(search_path(s, i)[last], last * 6 + i);
                token_at[last * 6 + i] = search_tokens(s, i)[last];
            }
            for (size_t i = 0; i < search_live(s); i++)
                for (size_t p = 1; p <= last; p++) {
                    const int32_t node = search_path(s, i)[p];
                    assert_int_equal((size_t)node / 6, p);
                    assert_int_equal(token_at[node], search_tokens(s, i)[p]);
                }
            step(s, hashed, &salt, 8);
            if (!search_done(s)) {
                most = search_live(s) > most ? search_live(s) : most;
                least = search_live(s) < least ? search_live(s) : least;
            }
        }
        assert_true(most > 2);
        assert_true(beams ? least == 6 : least < most);
        search_destroy(&s);
    }
}

static void a_stopped_search_answers_with_what_there_is(void **state)
{
    (void)state;
    static const struct {
        size_t beams, samples, steps, count;
    } cases[] = { { 1, 0, 0, 0 }, { 1, 0, 3, 3 }, { 3, 0, 0, 0 },
                  { 3, 0, 3, 3 }, { 1, 4, 0, 0 }, { 1, 4, 2, 2 } };
    static struct options o;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        o = u_options();
        o.eos_count = 0;
        o.max_new_tokens = 9;
        o.num_beams = cases[i].beams;
        o.do_sample = o.seed_given = cases[i].samples > 0;
        o.num_return_sequences = o.do_sample ? cases[i].samples : cases[i].beams;
        o.logprobs = true;
        o.top_logprobs = 1;
        resolve(&o, 1);
        struct search *s = start(&o, 8, (int32_t[]){ 2 }, 1);
        for (size_t j = 0; j < cases[i].steps; j++)
            step(s, constant, P, 8);
        search_stop(s);
        search_stop(s);
        assert_true(search_done(s));
        assert_int_equal(search_live(s), 0);
        for (size_t j = 0; j < search_sequence_count(s); j++) {
            const struct sequence q = search_sequence(s, j);
            assert_int_equal(q.finish_reason, FINISH_TIMEOUT);
            assert_int_equal(q.count, cases[i].count);
            for (size_t t = 0; t < q.count; t++) {
                assert_float_equal(q.token_logprobs[t], logf(P[q.tokens[t]]), 1e-5);
                assert_int_equal(q.top_logprobs[t].id, 5);
            }
        }
        if (cases[i].beams > 1 && cases[i].steps > 0)
            expect(s, 0, "5 5 5", log(.4));
        search_destroy(&s);
    }
}

static void a_stopped_beam_search_keeps_what_had_ended(void **state)
{
    (void)state;
    static struct options o;
    o = u_options();
    o.max_new_tokens = 9;
    o.num_beams = o.num_return_sequences = 3;
    o.length_penalty = 0;
    resolve(&o, 1);
    struct search *s = start(&o, 8, (int32_t[]){ 2 }, 1);
    step(s, constant, P, 8);
    assert_false(search_done(s));
    search_stop(s);
    expect(s, 0, "5", log(.4));
    expect(s, 1, "2", log(.3));
    assert_int_equal(search_sequence(s, 0).finish_reason, FINISH_TIMEOUT);
    assert_int_equal(search_sequence(s, 1).finish_reason, FINISH_EOS);
    search_destroy(&s);
}

static void logits_that_are_not_finite_are_an_error(void **state)
{
    (void)state;
    static struct options o;
    for (size_t beams = 1; beams <= 2; beams++) {
        const float bad[] = { NAN, INFINITY, -NAN };
        for (size_t i = 0; i < 3; i++) {
            struct error err = { 0 };
            float row[8] = { 1, 2, 3, 4, 5, 6, -INFINITY, bad[i] };
            o = u_options();
            o.num_beams = beams;
            resolve(&o, 1);
            struct search *s = start(&o, 8, (int32_t[]){ 2 }, 1);
            assert_int_equal(search_step(s, row, &err), -1);
            assert_int_equal(err.code, ERR_NONFINITE);
            search_destroy(&s);
        }
    }
}

/* They count as 0, also where a bias was added. */
static void logits_that_are_not_finite_may_be_removed(void **state)
{
    (void)state;
    static struct options o;
    struct value six = { .kind = VALUE_INT, .integer = 6 };
    struct value pair[] = { { .kind = VALUE_LIST, .items = &six, .count = 1 },
                            { .kind = VALUE_REAL, .real = 2 } };
    struct value item = { .kind = VALUE_LIST, .items = pair, .count = 2 };
    const struct value bias = { .kind = VALUE_LIST, .items = &item, .count = 1 };
    for (size_t beams = 1; beams <= 2; beams++) {
        const float bad[] = { NAN, -INFINITY, -1e30f };
        for (size_t i = 0; i < 3; i++) {
            struct error err = { 0 };
            float row[8];
            for (size_t v = 0; v < 8; v++)
                row[v] = v == 5 && i == 2 ? 1 : bad[i];
            o = u_options();
            o.num_beams = beams;
            o.max_new_tokens = 1;
            o.remove_invalid_values = true;
            assert_int_equal(options_set(&o, "sequence_bias", &bias, &wide, "", &err), 0);
            resolve(&o, 1);
            struct search *s = start(&o, 8, (int32_t[]){ 2 }, 1);
            assert_int_equal(search_step(s, row, &err), 0);
            const struct sequence q = search_sequence(s, 0);
            assert_int_equal(q.tokens[0], i == 2 ? 5 : 0);
            assert_true(isfinite(q.logprob));
            search_destroy(&s);
            options_clear(&o);
        }
    }
}

static void rules_that_leave_no_token_are_an_error(void **state)
{
    (void)state;
    static struct options o;
    for (int kind = 0; kind < 3; kind++) {
        struct error err = { 0 };
        size_t steps = 0;
        o = u_options();
        o.num_beams = kind == 1 ? 2 : 1;
        o.do_sample = kind == 2;
        o.no_repeat_ngram_size = 1;
        o.eos_count = 0;
        resolve(&o, 1);
        struct search *s = start(&o, 8, (int32_t[]){ 2 }, 1);
        for (int rc = 0; rc == 0; steps++) {
            float logits[2 * 8];
            assert_false(search_done(s));
            for (size_t i = 0; i < search_live(s); i++)
                constant(P, NULL, 0, logits + i * 8, 8);
            rc = search_step(s, logits, &err);
        }
        assert_int_equal(steps, 8); /* seven tokens, then none */
        assert_int_equal(err.code, ERR_OUT_OF_RANGE);
        search_destroy(&s);
    }
}

static void extreme_options_give_finite_scores(void **state)
{
    (void)state;
    const double penalties[] = { 1e300, 100, -5, 0 };
    for (size_t i = 0; i < 4; i++) {
        struct options o = u_options();
        o.max_new_tokens = 6;
        o.num_beams = 3;
        o.forced_bos_id = 4;
        o.length_penalty = penalties[i];
        struct search *s = run_u(o, P);
        assert_false(isnan((double)search_sequence(s, 0).score));
        search_destroy(&s);
    }
    struct options o = u_options();
    o.max_new_tokens = 4;
    o.do_sample = true;
    o.temperature = 1e-37;
    struct search *s = run_u(o, Q);
    expect(s, 0, "5 5 5 5", NAN);
    assert_float_equal(search_sequence(s, 0).logprob, 0, 1e-6);
    search_destroy(&s);
}

static void more_candidates_than_tokens_is_no_overrun(void **state)
{
    (void)state;
    const float three[3] = { .2f, .3f, .5f };
    static struct options o;
    for (size_t beams = 2; beams <= 6; beams++) {
        o = u_options();
        o.eos_ids[0] = 1;
        o.num_beams = o.num_return_sequences = beams;
        o.max_new_tokens = 4;
        resolve(&o, 1);
        struct search *s = run(&o, 3, (int32_t[]){ 2 }, 1, constant, three);
        expect(s, 0, "2 2 2 2", log(.5));
        search_destroy(&s);
    }
}

static void a_failed_allocation_is_clean(void **state)
{
    (void)state;
    static struct options o;
    o = u_options();
    o.num_beams = 4;
    resolve(&o, 1);
    for (long n = 0;; n++) {
        struct error err = { 0 };
        struct search *s;
        mem_fail_after(n);
        const struct search_input input = { .kernels = any_kernels(),
                                            .prefix = (int32_t[]){ 2 },
                                            .prefix_count = 1 };
        const int rc = search_create(&s, &o, 8, &input, &err);
        mem_fail_after(-1);
        if (rc == 0) {
            assert_true(n > 0);
            search_destroy(&s);
            break;
        }
        assert_int_equal(err.code, ERR_NO_MEMORY);
        assert_null(s);
    }
}

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    mem_fail_after(1);
    struct options o = u_options();
    o.num_beams = 3;
    struct search *s = run_u(o, P);
    mem_fail_after(-1);
    search_destroy(&s);
}

static void an_admission_bound_grows_with_what_is_asked(void **state)
{
    (void)state;
    struct options o = u_options();
    resolve(&o, 1);
    const size_t greedy = search_bytes(&o, 8, 0);
    assert_true(greedy < 4096);
    o.num_beams = 4;
    assert_true(search_bytes(&o, 8, 0) > greedy);
    o.num_beams = 1;
    o.do_sample = true;
    o.top_p = .5;
    assert_true(search_bytes(&o, 100000, 0) >= 100000 * sizeof(float));
    o.top_p = 1;
    assert_int_equal(search_bytes(&o, 8, 1000), search_bytes(&o, 8, 0));
    o.encoder_repetition_penalty = 2;
    assert_true(search_bytes(&o, 8, 1000) >= 1000 * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logprobs_are_absent_unless_asked),
        cmocka_unit_test(a_path_leads_through_every_token_of_its_hypothesis),
        cmocka_unit_test(a_stopped_search_answers_with_what_there_is),
        cmocka_unit_test(a_stopped_beam_search_keeps_what_had_ended),
        cmocka_unit_test(logits_that_are_not_finite_are_an_error),
        cmocka_unit_test(logits_that_are_not_finite_may_be_removed),
        cmocka_unit_test(rules_that_leave_no_token_are_an_error),
        cmocka_unit_test(extreme_options_give_finite_scores),
        cmocka_unit_test(more_candidates_than_tokens_is_no_overrun),
        cmocka_unit_test(a_failed_allocation_is_clean),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(an_admission_bound_grows_with_what_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
