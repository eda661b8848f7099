/* Rules on histories, lengths and forced tokens, one by one, and the sums and rankings that all
 * rules stand on. */
#include <float.h>
#include <string.h>

#include "../../src/search/draw.h"
#include "rule_calls.h"
#include "search/logits.h"

struct rule_case {
    const char *name;
    double repetition_penalty;
    size_t ngram, min_length;
    int32_t forced_bos, forced_eos;
    size_t length;
    int32_t tokens[LENGTH_MAX];
    float before[V], after[V];
};

static const struct rule_case cases[] = {
    { "a penalty divides above zero and multiplies below, once",
      2,
      0,
      0,
      -1,
      -1,
      4,
      { 0, 1, 0, 2 },
      { 4, -4, 0, 3, -3, 1 },
      { 2, -8, 0, 3, -3, 1 } },
    { "a penalty below one rewards",
      .5,
      0,
      0,
      -1,
      -1,
      2,
      { 0, 1 },
      { 4, -4, 1, 1, 1, 1 },
      { 8, -2, 1, 1, 1, 1 } },
    { "a wild penalty makes no infinity",
      1e-38,
      0,
      0,
      -1,
      -1,
      2,
      { 0, 1 },
      { 10, OFF, 1, 1, 1, 1 },
      { FLT_MAX, OFF, 1, 1, 1, 1 } },
    { "a removed token stays removed",
      2,
      0,
      0,
      -1,
      -1,
      1,
      { 0 },
      { OFF, 1, 1, 1, 1, 1 },
      { OFF, 1, 1, 1, 1, 1 } },
    { "1-grams ban every token there is",
      1,
      1,
      0,
      -1,
      -1,
      2,
      { 0, 3 },
      { 1, 1, 1, 1, 1, 1 },
      { OFF, 1, 1, OFF, 1, 1 } },
    { "2-grams ban what followed the last token",
      1,
      2,
      0,
      -1,
      -1,
      5,
      { 0, 3, 0, 4, 0 },
      { 1, 1, 1, 1, 1, 1 },
      { 1, 1, 1, OFF, OFF, 1 } },
    { "a run bans itself",
      1,
      2,
      0,
      -1,
      -1,
      3,
      { 5, 5, 5 },
      { 1, 1, 1, 1, 1, 1 },
      { 1, 1, 1, 1, 1, OFF } },
    { "3-grams need the last two",
      1,
      3,
      0,
      -1,
      -1,
      6,
      { 0, 1, 3, 4, 0, 1 },
      { 1, 1, 1, 1, 1, 1 },
      { 1, 1, 1, OFF, 1, 1 } },
    { "3-grams with a different second to last ban nothing",
      1,
      3,
      0,
      -1,
      -1,
      6,
      { 0, 1, 3, 4, 5, 1 },
      { 1, 1, 1, 1, 1, 1 },
      { 1, 1, 1, 1, 1, 1 } },
    { "a history shorter than n bans nothing",
      1,
      3,
      0,
      -1,
      -1,
      2,
      { 0, 0 },
      { 1, 1, 1, 1, 1, 1 },
      { 1, 1, 1, 1, 1, 1 } },
    { "no end below the minimum",
      1,
      0,
      4,
      -1,
      -1,
      3,
      { 0, 0, 0 },
      { 1, 1, 1, 1, 1, 1 },
      { 1, 1, OFF, 1, 1, 1 } },
    { "an end from the minimum on",
      1,
      0,
      4,
      -1,
      -1,
      4,
      { 0, 0, 0, 0 },
      { 1, 1, 1, 1, 1, 1 },
      { 1, 1, 1, 1, 1, 1 } },
    { "the first token is forced",
      1,
      0,
      0,
      4,
      -1,
      1,
      { 0 },
      { 9, 9, 9, 9, 9, 9 },
      { OFF, OFF, OFF, OFF, 0, OFF } },
    { "behind a prefix nothing is forced",
      1,
      0,
      0,
      4,
      -1,
      2,
      { 0, 1 },
      { 9, 9, 9, 9, 9, 9 },
      { 9, 9, 9, 9, 9, 9 } },
    { "the last token is forced, also below the minimum",
      1,
      0,
      99,
      -1,
      2,
      9,
      { 0 },
      { 9, 9, 9, 9, 9, 9 },
      { OFF, OFF, 0, OFF, OFF, OFF } },
    { "the last but one is not",
      1,
      0,
      0,
      -1,
      2,
      8,
      { 0 },
      { 9, 9, 9, 9, 9, 9 },
      { 9, 9, 9, 9, 9, 9 } },
};

static void each_rule_does_what_the_reference_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rule_case *const c = &cases[i];
        struct options o = neutral();
        float scores[V];
        o.repetition_penalty = c->repetition_penalty;
        o.no_repeat_ngram_size = c->ngram;
        o.min_length = c->min_length;
        o.forced_bos_id = c->forced_bos;
        o.forced_eos_ids[0] = c->forced_eos;
        o.forced_eos_count = c->forced_eos >= 0;
        memcpy(scores, c->before, sizeof scores);
        apply(&o, c->tokens, c->length, scores, V);
        print_message("    %s\n", c->name);
        for (size_t v = 0; v < V; v++)
            assert_true(scores[v] == c->after[v]);
    }
}

static void every_end_token_is_held_back(void **state)
{
    (void)state;
    struct options o = neutral();
    float scores[V] = { 1, 1, 1, 1, 1, 1 };
    o.eos_ids[1] = 5;
    o.eos_count = 2;
    o.min_length = 3;
    apply(&o, (int32_t[]){ 0 }, 1, scores, V);
    assert_true(scores[2] == OFF && scores[5] == OFF);
    assert_true(scores[1] == 1);
}

/* Ten scores, five ids each: best score first, ascending ids within it. */
static void assert_best(struct ranking *r)
{
    ranking_sort(r);
    assert_int_equal(r->count, r->capacity);
    for (size_t i = 0; i < r->capacity; i++) {
        assert_true(r->items[i].score == (float)(9 - i / 5));
        assert_true(i % 5 == 0 || r->items[i].id > r->items[i - 1].id);
        assert_true(i % 5 != 0 || r->items[i].id < 10);
    }
}

static void a_ranking_is_a_sort_cut_short(void **state)
{
    (void)state;
    struct ranked items[50];
    float scores[50];
    for (uint32_t id = 0; id < 50; id++)
        scores[id] = (float)(id * 37 % 10);
    for (size_t capacity = 1; capacity <= 50; capacity++) {
        struct ranking one = { .items = items, .capacity = capacity };
        for (uint32_t id = 0; id < 50; id++)
            ranking_offer(&one, scores[id], id);
        assert_best(&one);
        struct ranking row = { .items = items, .capacity = capacity };
        for (uint32_t id = 0; id < 50; id += 25)
            ranking_offer_row(&row, any_kernels(), scores + id, 25, 0.0f, id);
        assert_best(&row);
    }
}

static void sums_of_exponentials_are_exact_to_float(void **state)
{
    (void)state;
    static float scores[LARGE];
    for (size_t count = 1; count < 200; count++) {
        double sum = 0;
        for (size_t v = 0; v < count; v++) {
            scores[v] = v % 11 == 3 ? OFF : -(float)(v * 7919 % 1009) / 8 - 300;
            sum += exp((double)scores[v] + 300);
        }
        assert_float_equal(logits_log_sum_exp(any_kernels(), scores, count), log(sum) - 300, 3e-5);
        float max = scores[0];
        for (size_t v = 0; v < count; v++)
            max = scores[v] > max ? scores[v] : max;
        assert_true(logits_max(any_kernels(), scores, count) == max);
        assert_true(scores[logits_argmax(any_kernels(), scores, count)] == max);
    }
    for (int i = 0; i < 8700; i++) {
        const float pair[2] = { 0, -(float)i / 100 };
        const double exact = log1p(exp((double)pair[1]));
        assert_true(fabs(logits_log_sum_exp(any_kernels(), pair, 2) - exact) <
                    3e-7 * exp((double)pair[1]) + 1e-15);
    }
    scores[0] = scores[1] = OFF;
    assert_true(logits_log_sum_exp(any_kernels(), scores, 2) == -INFINITY);
    assert_int_equal(logits_argmax(any_kernels(), (float[]){ 1, 2, 2, 1 }, 4), 1);
}

static void the_top_is_ordered_and_ends_with_no_token(void **state)
{
    (void)state;
    struct token_logprob top[5];
    const float scores[V] = { 1, OFF, 3, 1, 3, OFF };
    const int32_t ids[5] = { 2, 4, 0, 3, -1 };
    logits_top(any_kernels(), scores, V, 1, top, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(top[i].id, ids[i]);
    assert_float_equal(top[0].logprob, 2, 0);
    logits_top(any_kernels(), scores, V, 0, top, 1);
    assert_int_equal(top[0].id, 2);
    /* Of many: those that a ranking finds. */
    float many[500];
    struct ranked items[5];
    struct ranking best = { .items = items, .capacity = 5 };
    for (uint32_t v = 0; v < 500; v++)
        many[v] = v % 7 == 3 ? OFF : (float)(v * 7919 % 101);
    ranking_offer_row(&best, any_kernels(), many, 500, 0.0f, 0);
    ranking_sort(&best);
    logits_top(any_kernels(), many, 500, 0, top, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(top[i].id == (int32_t)items[i].id && top[i].logprob == items[i].score);
}

static void a_draw_never_gives_a_removed_token(void **state)
{
    (void)state;
    const float scores[V] = { OFF, OFF, logf(.5f), OFF, logf(.5f), OFF };
    assert_int_equal(draw_token(scores, V, 0, 0), 2);
    assert_int_equal(draw_token(scores, V, 0, .4999), 2);
    assert_int_equal(draw_token(scores, V, 0, .5001), 4);
    assert_int_equal(draw_token(scores, V, 0, 0x1.fffffffffffffp-1), 4);
    assert_int_equal(draw_token(scores, V, 1, .999), 4); /* a sum below the number drawn */
    const float lowest[V] = { OFF, OFF, logf(.5f), -FLT_MAX, logf(.5f), -FLT_MAX };
    assert_int_equal(draw_token(lowest, V, 1, .999), 4);
}

static void draws_are_uniform_and_differ_by_place(void **state)
{
    (void)state;
    double sum = 0, product = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        const double a = draw_uniform(1, i % 100, i / 100), b = draw_uniform(1, i / 100, i % 100);
        const double c = draw_uniform(1, i % 100, i / 100 + 1);
        assert_true(a >= 0 && a < 1);
        assert_true(i % 101 == 0 || a != b);
        sum += a;
        product += (a - .5) * (c - .5);
    }
    assert_float_equal(sum / 10000, .5, .01);
    assert_float_equal(product / 10000, 0, .003);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_does_what_the_reference_does),
        cmocka_unit_test(every_end_token_is_held_back),
        cmocka_unit_test(a_ranking_is_a_sort_cut_short),
        cmocka_unit_test(sums_of_exponentials_are_exact_to_float),
        cmocka_unit_test(the_top_is_ordered_and_ends_with_no_token),
        cmocka_unit_test(a_draw_never_gives_a_removed_token),
        cmocka_unit_test(draws_are_uniform_and_differ_by_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
