/* search_runs.h — whole searches over made-up logits, for the tests of search. */
#ifndef SEARCH_RUNS_H
#define SEARCH_RUNS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "any_kernels.h"
#include "search/search.h"

static const struct option_limits wide = { .vocabulary = 8,
                                           .positions_max = 32,
                                           .default_max_new_tokens = 256,
                                           .max_new_tokens = 4096,
                                           .beams_max = 16,
                                           .sequences_max = 20000,
                                           .top_logprobs_max = 64,
                                           .option_tokens_max = 1000 };

/* Fills one row from a history. */
typedef void logits_fn(const void *context, const int32_t *tokens, size_t length, float *row,
                       size_t V);

static inline void step(struct search *s, logits_fn *fill, const void *context, size_t V)
{
    static float logits[20000 * 8];
    struct error err = { 0 };
    assert_true(search_live(s) * V <= sizeof logits / sizeof logits[0]);
    for (size_t i = 0; i < search_live(s); i++)
        fill(context, search_tokens(s, i), search_length(s), logits + i * V, V);
    assert_int_equal(search_step(s, logits, &err), 0);
}

static inline struct search *start_from(const struct options *o, size_t V,
                                        const struct search_input *input)
{
    struct search_input complete = *input;
    struct search *s;
    struct error err = { 0 };
    complete.kernels = any_kernels();
    assert_int_equal(search_create(&s, o, V, &complete, &err), 0);
    return s;
}

static inline struct search *start(const struct options *o, size_t V, const int32_t *prefix,
                                   size_t count)
{
    return start_from(o, V, &(struct search_input){ .prefix = prefix, .prefix_count = count });
}

static inline struct search *run_from(const struct options *o, size_t V,
                                      const struct search_input *input, logits_fn *fill,
                                      const void *context)
{
    struct search *const s = start_from(o, V, input);
    while (!search_done(s))
        step(s, fill, context, V);
    assert_int_equal(search_live(s), 0);
    return s;
}

static inline struct search *run(const struct options *o, size_t V, const int32_t *prefix,
                                 size_t count, logits_fn *fill, const void *context)
{
    const struct search_input input = { .prefix = prefix, .prefix_count = count };
    return run_from(o, V, &input, fill, context);
}

/* Vectors that depend on nothing: start = eos = 2. */
static const float P[8] = { .01f, .01f, .30f, .01f, .01f, .40f, .20f, .06f };
static const float Q[8] = { .01f, .01f, .03f, .01f, .01f, .90f, .02f, .01f };

static inline void constant(const void *context, const int32_t *tokens, size_t length, float *row,
                            size_t V)
{
    (void)tokens;
    (void)length;
    for (size_t v = 0; v < V; v++)
        row[v] = logf(((const float *)context)[v]);
}

static inline struct options u_options(void)
{
    struct options o;
    options_init(&o);
    o.start_id = o.eos_ids[0] = 2;
    o.eos_count = 1;
    return o;
}

static inline void resolve(struct options *o, size_t prefix_count)
{
    struct error err = { 0 };
    const int rc = options_resolve(o, &wide, prefix_count, "parameters.", &err);
    if (rc < 0)
        fail_msg("%s", err.message);
}

static inline void expect(const struct search *s, size_t index, const char *tokens, double score)
{
    const struct sequence q = search_sequence(s, index);
    char text[128] = "";
    for (size_t i = 0; i < q.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "",
                 q.tokens[i]);
    if (tokens)
        assert_string_equal(text, tokens);
    if (isnan(score))
        assert_true(isnan((double)q.score));
    else
        assert_float_equal(q.score, score, 1e-5);
}

static inline struct search *run_u(struct options o, const float *vector)
{
    static struct options kept; /* the search borrows them */
    kept = o;
    resolve(&kept, 1);
    return run(&kept, 8, (int32_t[]){ 2 }, 1, constant, vector);
}

static inline uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352d;
    x ^= x >> 15;
    x *= 0x846ca68b;
    return x ^ (x >> 16);
}

struct hashed {
    uint32_t salt;
    int wild; /* some are no numbers: 1: −Inf; 2: NaN and +Inf too */
};

/* tools/golden_search.py has the same. */
static inline float hashed_logit(uint32_t bits, int wild)
{
    const float odd[3] = { NAN, INFINITY, -INFINITY };
    if (wild && bits < 0xc00)
        return wild == 1 ? -INFINITY : odd[bits / 0x400];
    return (float)bits / 8192 - 4;
}

static inline void hashed(const void *context, const int32_t *tokens, size_t length, float *row,
                          size_t V)
{
    const struct hashed *const h = context;
    uint32_t hash = mix(h->salt * 2654435761u + (uint32_t)length);
    for (size_t p = length < 2 ? 0 : length - 2; p < length; p++)
        hash = mix(hash ^ ((uint32_t)tokens[p] + 0x9e3779b9u));
    for (size_t v = 0; v < V; v++)
        row[v] = hashed_logit(mix(hash + (uint32_t)v) & 0xffff, h->wild);
    row[3] += 1.5f;
}

#endif
