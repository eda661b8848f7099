/* The reference's own answers (tests/unit/data/search_golden.json, by tools/golden_search.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "model/json.h"
#include "search_runs.h"

enum { V_MAX = 256, IDS_MAX = 32 };

static void set_all(struct options *o, json_t *json, const struct option_limits *limits)
{
    const char *name;
    json_t *item;
    json_object_foreach (json, name, item) {
        struct error err = { 0 };
        struct value value;
        assert_int_equal(json_to_value(item, &value, &err), 0);
        if (options_set(o, name, &value, limits, "parameters.", &err) < 0)
            fail_msg("%s", err.message);
        value_clear(&value);
    }
}

/* Prefix and source of a case. */
struct rows {
    int32_t prefix[IDS_MAX], source[IDS_MAX];
    struct search_input input;
};

static size_t read_ids(json_t *json, int32_t ids[IDS_MAX])
{
    const size_t count = json_array_size(json);
    assert_true(count <= IDS_MAX);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(json, i));
    return count;
}

static void read_rows(struct rows *rows, json_t *json)
{
    const size_t prefix_count = read_ids(json_object_get(json, "prefix"), rows->prefix);
    rows->input = (struct search_input){ .prefix = rows->prefix,
                                         .prefix_count = prefix_count,
                                         .source = rows->source,
                                         .source_count = read_ids(json_object_get(json, "source"),
                                                                  rows->source) };
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

/* One case of its file. */
static void check_case(json_t *c)
{
    struct option_limits limits = wide;
    struct error err = { 0 };
    struct options o;
    struct rows rows;
    const struct hashed hash = { .salt = (uint32_t)number(c, "salt"),
                                 .wild = (int)number(c, "wild") };
    char *const text = json_dumps(c, JSON_COMPACT);
    read_rows(&rows, c);
    limits.vocabulary = (size_t)number(c, "vocabulary");
    options_init(&o);
    o.start_id = rows.prefix[0];
    o.logprobs = true;
    set_all(&o, json_object_get(c, "options"), &limits);
    if (options_resolve(&o, &limits, rows.input.prefix_count, "parameters.", &err) < 0)
        fail_msg("%s in %s", err.message, text);
    struct search *s = run_from(&o, limits.vocabulary, &rows.input, hashed, &hash);
    compare(s, json_object_get(c, "sequences"), text, o.num_beams > 1);
    free(text);
    search_destroy(&s);
    options_clear(&o);
}

static void the_reference_gives_the_same_answers(void **state)
{
    (void)state;
    json_t *const root = golden();
    json_t *const cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) >= 300);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i));
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

/* One distribution of its file. */
static void check_warp(json_t *w, size_t index)
{
    json_t *const expected = json_object_get(w, "logprobs");
    const struct scores scores = { .row = json_object_get(w, "scores") };
    const size_t V = json_array_size(expected);
    float logprobs[V_MAX];
    struct option_limits limits = wide;
    struct error err = { 0 };
    struct options o = u_options();
    struct rows rows;
    assert_true(V <= V_MAX);
    read_rows(&rows, w);
    limits.vocabulary = V;
    limits.top_logprobs_max = V_MAX;
    o.do_sample = o.logprobs = true;
    o.max_new_tokens = 1;
    o.top_logprobs = V;
    o.eos_ids[0] = 3;
    set_all(&o, json_object_get(w, "options"), &limits);
    if (options_resolve(&o, &limits, rows.input.prefix_count, "parameters.", &err) < 0)
        fail_msg("%s in warp %zu", err.message, index);
    struct search *s = run_from(&o, V, &rows.input, from_json, &scores);
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
            fail_msg("token %zu of warp %zu", v, index);
        if (!json_is_null(e))
            assert_float_equal(logprobs[v], json_number_value(e), 2e-5);
    }
    search_destroy(&s);
    options_clear(&o);
}

static void the_reference_keeps_the_same_tokens_when_sampling(void **state)
{
    (void)state;
    json_t *const root = golden();
    json_t *const warps = json_object_get(root, "warps");
    assert_true(json_array_size(warps) >= 100);
    for (size_t i = 0; i < json_array_size(warps); i++)
        check_warp(json_array_get(warps, i), i);
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
