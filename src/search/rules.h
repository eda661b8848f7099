/* rules.h — what changes a row's scores before a token is chosen.
 *
 * One table (rules.c) holds every rule in the reference's order (_get_logits_processor): processors
 * first, then, only when sampling, warpers.  A rule that is not active is not called.
 * One thread at a time for each rule_call; a struct rules is const once filled. */
#ifndef SEARCH_RULES_H
#define SEARCH_RULES_H

#include "ranking.h"
#include "search/options.h"

/* One hypothesis at one step. */
struct rule_call {
    const struct options *options; /* resolved */
    const int32_t *tokens;         /* (length): start, prefix and generated */
    size_t length;
    float *scores; /* (V), changed in place; −Inf: removed */
    size_t V;
    float *scratch;        /* (rules_scratch_count) */
    struct ranked *ranked; /* scratch (rules_ranked_count) */
};

enum { RULES_MAX = 16 };

struct rules {
    void (*apply[RULES_MAX])(const struct rule_call *call);
    size_t count;
};

/* The rules that `options` make active. */
void rules_init(struct rules *rules, const struct options *options);

/* How many places of `scratch` and of `ranked` they need. */
size_t rules_scratch_count(const struct options *options, size_t V);
size_t rules_ranked_count(const struct options *options, size_t V);

void rules_apply(const struct rules *rules, const struct rule_call *call);

/* Warpers, in warpers.c; each is a reference class of its name. */
void warper_temperature(const struct rule_call *call);
void warper_top_k(const struct rule_call *call);
void warper_top_p(const struct rule_call *call);
void warper_min_p(const struct rule_call *call);

#endif
