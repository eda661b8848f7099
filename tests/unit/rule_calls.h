/* rule_calls.h — rules applied to made-up scores, for the tests of rules. */
#ifndef RULE_CALLS_H
#define RULE_CALLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "../../src/search/rules.h"
#include "any_kernels.h"

enum { V = 6, LARGE = 5000, LENGTH_MAX = 16 };

#define OFF (-INFINITY)

/* No rule is active; start and end token 2, one token of prefix. */
static inline struct options neutral(void)
{
    struct options o;
    options_init(&o);
    o.max_length = 10;
    o.max_new_tokens = 9;
    o.eos_ids[0] = 2;
    o.eos_count = 1;
    return o;
}

static inline size_t apply_to(const struct options *o, const int32_t *tokens, size_t length,
                              const int32_t *source, size_t source_count, float *scores,
                              size_t count)
{
    static float floats[LARGE];
    static struct ranked ranked[LARGE];
    static struct weighed weighed[LARGE];
    struct rules rules;
    const struct rule_call call = { .kernels = any_kernels(),
                                    .options = o,
                                    .tokens = tokens,
                                    .length = length,
                                    .source = source,
                                    .source_count = source_count,
                                    .scores = scores,
                                    .V = count,
                                    .floats = floats,
                                    .ranked = ranked,
                                    .weighed = weighed };
    const struct rules_scratch scratch = rules_scratch(o, count, source_count);
    assert_true(scratch.floats <= LARGE && scratch.ranked <= LARGE && scratch.weighed <= LARGE);
    rules_init(&rules, o);
    rules_apply(&rules, &call);
    return rules.count;
}

static inline size_t apply(const struct options *o, const int32_t *tokens, size_t length,
                           float *scores, size_t count)
{
    return apply_to(o, tokens, length, NULL, 0, scores, count);
}

static inline size_t left(const float *scores, size_t count)
{
    size_t n = 0;
    for (size_t v = 0; v < count; v++)
        n += scores[v] > OFF;
    return n;
}

#endif
