/* Rules that narrow a distribution, one by one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rule_calls.h"

static void rules_that_are_off_are_not_called(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[V] = { 1, 2, 3, 4, 5, 6 };
    assert_int_equal(apply(&o, (int32_t[]){ 0 }, 1, scores, V), 0);
    o.temperature = .5;
    o.top_h = .5;
    o.top_k = 1;
    o.top_p = .5;
    o.min_p = .5;
    o.typical_p = .5;
    o.epsilon_cutoff = .5;
    o.eta_cutoff = .5;
    o.renormalize_logits = true;
    assert_int_equal(apply(&o, (int32_t[]){ 0 }, 1, scores, V), 0); /* greedy: no warper */
    for (size_t v = 0; v < V; v++)
        assert_true(scores[v] == (float)(v + 1));
    o.do_sample = true;
    assert_int_equal(apply(&o, (int32_t[]){ 0 }, 1, scores, V), 8);
}

static void top_k_keeps_what_equals_the_kth(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[V] = { 1, 3, 2, 2, 2, 0 };
    o.do_sample = true;
    o.top_k = 2;
    apply(&o, (int32_t[]){ 0 }, 1, scores, V);
    assert_int_equal(left(scores, V), 4);
    assert_true(scores[0] == OFF && scores[5] == OFF);
}

static void warpers_keep_the_best_whatever_they_are_set_to(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[V] = { 1, 3, 2, 2, 2, 0 };
    o.do_sample = true;
    o.temperature = 1e-37;
    o.top_h = 1e-300;
    o.top_k = 1;
    o.top_p = 1e-300;
    o.min_p = 1;
    o.typical_p = 1e-300;
    o.epsilon_cutoff = o.eta_cutoff = .999;
    apply(&o, (int32_t[]){ 0 }, 1, scores, V);
    assert_int_equal(left(scores, V), 1);
    assert_true(scores[1] == 0);
}

static void warpers_pass_over_a_row_with_nothing_left(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[V] = { OFF, OFF, OFF, OFF, OFF, OFF };
    o.do_sample = true;
    o.temperature = 2;
    o.top_h = .5;
    o.top_k = 3;
    o.top_p = .5;
    o.min_p = .5;
    o.typical_p = .5;
    o.epsilon_cutoff = o.eta_cutoff = .5;
    apply(&o, (int32_t[]){ 0 }, 1, scores, V);
    for (size_t v = 0; v < V; v++)
        assert_true(scores[v] == OFF);
}

static int descending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static void top_p_over_a_flat_row_keeps_as_many_as_a_full_sort(void **state)
{
    (void)state;
    static float scores[LARGE], sorted[LARGE];
    for (int i = 1; i < 20; i++) {
        struct options o = neutral();
        double total = 0, sum = 0;
        size_t kept = 0;
        o.do_sample = true;
        o.top_k = 0;
        o.top_p = i * .05;
        for (size_t v = 0; v < LARGE; v++) {
            scores[v] = sorted[v] = (float)(v * 7919 % LARGE) / 4000;
            total += exp((double)scores[v]);
        }
        qsort(sorted, LARGE, sizeof *sorted, descending);
        while (sum < o.top_p * total)
            sum += exp((double)sorted[kept++]);
        apply(&o, (int32_t[]){ 0 }, 1, scores, LARGE);
        assert_in_range(left(scores, LARGE), kept - 1, kept + 1);
        for (size_t v = 0; v < LARGE; v++)
            assert_true(scores[v] == OFF || scores[v] >= sorted[kept]);
    }
}

static void top_p_cuts_through_equal_scores_at_the_higher_ids(void **state)
{
    (void)state;
    static const double top_p[] = { 1e-9, .1, .3, .5, .7, .9, .99 };
    static const size_t kept[] = { 1, 1, 2, 3, 4, 5, 5 };
    static const size_t order[] = { 0, 1, 3, 4, 5, 2 }; /* five equal ones, and one without hope */
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        struct options o = neutral();
        float scores[V] = { 2, 2, -50, 2, 2, 2 };
        o.do_sample = true;
        o.top_p = top_p[i];
        apply(&o, (int32_t[]){ 0 }, 1, scores, V);
        for (size_t j = 0; j < V; j++)
            assert_true(scores[order[j]] == (j < kept[i] ? 2 : OFF));
    }
}

/* ln of probabilities; 0: removed. */
static void to_scores(const float *probabilities, float *scores)
{
    for (size_t v = 0; v < V; v++)
        scores[v] = logf(probabilities[v]);
}

static void check_kept(const float *scores, const char *ids)
{
    char text[2 * V + 1] = "";
    for (size_t v = 0; v < V; v++)
        if (scores[v] > OFF)
            sprintf(text + strlen(text), "%s%zu", *text ? " " : "", v);
    assert_string_equal(text, ids);
}

/* Their entropy is 1.4424: typical is a probability near exp(−1.4424) = .2364. */
static const float spread[V] = { .4f, .3f, .15f, .08f, .05f, .02f };

struct warp_case {
    double top_h, typical_p, epsilon, eta;
    const char *kept;
};

static void warpers_by_entropy_and_probability_keep_what_the_papers_say(void **state)
{
    (void)state;
    static const struct warp_case warps[] = {
        { 0, 1, 0, 0, "0 1 2 3 4 5" },
        /* shares of the entropy, summed: .254 .505 .702 .842 .946 1 */
        { .2, 1, 0, 0, "0" },
        { .6, 1, 0, 0, "0 1" },
        { .72, 1, 0, 0, "0 1 2" },
        { .99, 1, 0, 0, "0 1 2 3 4" },
        /* the nearest to the entropy first: 1, 2, 0, 3, 4, 5 */
        { 0, .2, 0, 0, "1" },
        { 0, .31, 0, 0, "1 2" },
        { 0, .46, 0, 0, "0 1 2" },
        { 0, .86, 0, 0, "0 1 2 3" },
        { 0, 1, .04, 0, "0 1 2 3 4" },
        { 0, 1, .2, 0, "0 1" },
        { 0, 1, .9, 0, "0" },
        /* the cutoffs are .01 itself, √.25 · .2364 = .1182 and √.9 · .2364 = .2242 */
        { 0, 1, 0, .01, "0 1 2 3 4 5" },
        { 0, 1, 0, .25, "0 1 2" },
        { 0, 1, 0, .9, "0 1" },
    };
    for (size_t i = 0; i < sizeof warps / sizeof warps[0]; i++) {
        struct options o = neutral();
        float scores[V];
        o.do_sample = true;
        o.top_k = 0;
        o.top_h = warps[i].top_h;
        o.typical_p = warps[i].typical_p;
        o.epsilon_cutoff = warps[i].epsilon;
        o.eta_cutoff = warps[i].eta;
        to_scores(spread, scores);
        apply(&o, (int32_t[]){ 0 }, 1, scores, V);
        print_message("    case %zu\n", i);
        check_kept(scores, warps[i].kept);
    }
}

static void typical_keeps_all_that_are_as_typical_as_the_last(void **state)
{
    (void)state;
    const float equal[V] = { .2f, .2f, .2f, .2f, .1f, .1f };
    struct options o = neutral();
    float scores[V];
    o.do_sample = true;
    o.top_k = 0;
    o.typical_p = .3;
    to_scores(equal, scores);
    apply(&o, (int32_t[]){ 0 }, 1, scores, V);
    check_kept(scores, "0 1 2 3");
}

/* Beyond the hundred best nothing is looked at. */
static void top_h_looks_at_a_hundred_tokens(void **state)
{
    (void)state;
    static float scores[LARGE];
    struct options o = neutral();
    o.do_sample = true;
    o.top_k = 0;
    o.top_h = 1;
    for (size_t v = 0; v < LARGE; v++)
        scores[v] = v % 7 == 0 ? 1 : 0;
    apply(&o, (int32_t[]){ 0 }, 1, scores, LARGE);
    assert_in_range(left(scores, LARGE), 99, 100);
    for (size_t v = 0; v < LARGE; v++)
        assert_true(scores[v] == OFF || (v % 7 == 0 && v < 700));
}

static void renormalizing_makes_the_sum_one_again(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[V] = { logf(.4f), OFF, OFF, logf(.1f), OFF, OFF };
    o.num_beams = 2;
    o.renormalize_logits = true;
    apply(&o, (int32_t[]){ 0 }, 1, scores, V);
    assert_float_equal(scores[0], log(.8), 1e-6);
    assert_float_equal(scores[3], log(.2), 1e-6);
    assert_true(scores[1] == OFF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_that_are_off_are_not_called),
        cmocka_unit_test(top_k_keeps_what_equals_the_kth),
        cmocka_unit_test(warpers_keep_the_best_whatever_they_are_set_to),
        cmocka_unit_test(warpers_pass_over_a_row_with_nothing_left),
        cmocka_unit_test(top_p_over_a_flat_row_keeps_as_many_as_a_full_sort),
        cmocka_unit_test(top_p_cuts_through_equal_scores_at_the_higher_ids),
        cmocka_unit_test(warpers_by_entropy_and_probability_keep_what_the_papers_say),
        cmocka_unit_test(typical_keeps_all_that_are_as_typical_as_the_last),
        cmocka_unit_test(top_h_looks_at_a_hundred_tokens),
        cmocka_unit_test(renormalizing_makes_the_sum_one_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
