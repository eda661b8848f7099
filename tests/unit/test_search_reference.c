/* The reference's own answers (tests/unit/data/search_golden.json, by tools/golden_search.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "search_runs.h"

enum { V_MAX = 64 };

static struct value value_of(json_t *json, struct value *items)
{
    struct value value = { .kind = VALUE_NULL };
    if (json_is_boolean(json))
        value = (struct value){ .kind = VALUE_BOOL, .boolean = json_is_true(json) };
    else if (json_is_integer(json))
        value = (struct value){ .kind = VALUE_INT, .integer = json_integer_value(json) };
    else if (json_is_real(json))
        value = (struct value){ .kind = VALUE_REAL, .real = json_real_value(json) };
    else if (json_is_string(json))
        value = (struct value){ .kind = VALUE_TEXT,
                                .text = (char *)(uintptr_t)json_string_value(json) };
    else if (json_is_array(json)) {
        value =
            (struct value){ .kind = VALUE_LIST, .items = items, .count = json_array_size(json) };
        for (size_t i = 0; i < value.count; i++)
            items[i] = value_of(json_array_get(json, i), NULL);
    }
    return value;
}

static void set_all(struct options *o, json_t *json)
{
    const char *name;
    json_t *item;
    json_object_foreach (json, name, item) {
        struct error err = { 0 };
        struct value items[EOS_MAX];
        const struct value value = value_of(item, items);
        if (options_set(o, name, &value, "parameters.", &err) < 0)
            fail_msg("%s", err.message);
    }
}

static double number(json_t *json, const char *name)
{
    return json_number_value(json_object_get(json, name));
}

static void compare(const struct search *s, json_t *expected, const char *text, bool beams)
{
    assert_int_equal(search_sequence_count(s), json_array_size(expected));
    for (size_t i = 0; i < json_array_size(expected); i++) {
        json_t *const e = json_array_get(expected, i);
        json_t *const tokens = json_object_get(e, "tokens");
        const struct sequence q = search_sequence(s, i);
        double sum = 0;
        if (q.count != json_array_size(tokens))
            fail_msg("sequence %zu has %zu tokens in %s", i, q.count, text);
        for (size_t j = 0; j < q.count; j++) {
            const double logprob =
                json_number_value(json_array_get(json_object_get(e, "logprobs"), j));
            if (q.tokens[j] != json_integer_value(json_array_get(tokens, j)))
                fail_msg("sequence %zu has %d at %zu in %s", i, q.tokens[j], j, text);
            assert_float_equal(q.token_logprobs[j], logprob, 2e-5);
            sum += (double)q.token_logprobs[j];
        }
        assert_float_equal(q.logprob, sum, 1e-5);
        if (beams)
            assert_float_equal(q.score, number(e, "score"), 2e-5 * (1 + fabs(number(e, "score"))));
    }
}

static json_t *golden(void)
{
    json_error_t error;
    json_t *const root = json_load_file("tests/unit/data/search_golden.json", 0, &error);
    if (!root)
        fail_msg("%s", error.text);
    return root;
}

static void the_reference_gives_the_same_answers(void **state)
{
    (void)state;
    json_t *const root = golden();
    json_t *const cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) >= 200);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *const c = json_array_get(cases, i);
        json_t *const prefix = json_object_get(c, "prefix");
        struct option_limits limits = wide;
        struct error err = { 0 };
        struct options o;
        int32_t ids[8];
        const size_t count = json_array_size(prefix);
        const uint32_t salt = (uint32_t)number(c, "salt");
        for (size_t j = 0; j < count; j++)
            ids[j] = (int32_t)json_integer_value(json_array_get(prefix, j));
        limits.vocabulary = (size_t)number(c, "vocabulary");
        options_init(&o);
        o.start_id = ids[0];
        o.logprobs = true;
        set_all(&o, json_object_get(c, "options"));
        assert_int_equal(options_resolve(&o, &limits, count, "parameters.", &err), 0);
        struct search *s = run(&o, limits.vocabulary, ids, count, hashed, &salt);
        char *const text = json_dumps(c, JSON_COMPACT);
        compare(s, json_object_get(c, "sequences"), text, o.num_beams > 1);
        free(text);
        search_destroy(&s);
    }
    json_decref(root);
}

struct scores {
    json_t *row;
};

static void from_json(const void *context, const int32_t *tokens, size_t length, float *row,
                      size_t V)
{
    (void)tokens;
    (void)length;
    for (size_t v = 0; v < V; v++)
        row[v] = (float)json_number_value(json_array_get(((const struct scores *)context)->row, v));
}

static void the_reference_keeps_the_same_tokens_when_sampling(void **state)
{
    (void)state;
    json_t *const root = golden();
    json_t *const warps = json_object_get(root, "warps");
    assert_true(json_array_size(warps) >= 50);
    for (size_t i = 0; i < json_array_size(warps); i++) {
        json_t *const w = json_array_get(warps, i);
        json_t *const expected = json_object_get(w, "logprobs");
        const struct scores scores = { .row = json_object_get(w, "scores") };
        const size_t V = json_array_size(expected);
        float logprobs[V_MAX];
        struct option_limits limits = wide;
        struct error err = { 0 };
        struct options o = u_options();
        limits.vocabulary = V;
        o.do_sample = o.logprobs = true;
        o.max_new_tokens = 1;
        o.top_logprobs = V;
        set_all(&o, json_object_get(w, "options"));
        assert_int_equal(options_resolve(&o, &limits, 1, "parameters.", &err), 0);
        struct search *s = run(&o, V, (int32_t[]){ 2 }, 1, from_json, &scores);
        for (size_t v = 0; v < V; v++)
            logprobs[v] = -INFINITY;
        for (size_t j = 0; j < V; j++) {
            const struct token_logprob *const top = &search_sequence(s, 0).top_logprobs[j];
            if (top->id >= 0)
                logprobs[top->id] = top->logprob;
        }
        for (size_t v = 0; v < V; v++) {
            json_t *const e = json_array_get(expected, v);
            if (json_is_null(e) != (logprobs[v] == -INFINITY))
                fail_msg("token %zu of warp %zu", v, i);
            if (!json_is_null(e))
                assert_float_equal(logprobs[v], json_number_value(e), 2e-5);
        }
        search_destroy(&s);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_gives_the_same_answers),
        cmocka_unit_test(the_reference_keeps_the_same_tokens_when_sampling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
