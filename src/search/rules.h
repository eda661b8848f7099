/* rules.h — what changes a row's scores before a token is chosen.
 *
 * One table (rules.c) holds every rule in the reference's order (_get_logits_processor): processors
 * first, then, only when sampling, warpers.  A rule that is not active is not called.
 * One thread at a time for each rule_call; a struct rules is const once filled. */
#ifndef SEARCH_RULES_H
#define SEARCH_RULES_H

#include "ranking.h"
#include "search/options.h"

/* A token where one warper orders them, best first. */
struct weighed {
    float key;  /* larger is better */
    float mass; /* its probability */
};

/* One hypothesis at one step. */
struct rule_call {
    const struct kernels *kernels;
    const struct options *options; /* resolved */
    const int32_t *tokens;         /* (length): start, prefix and generated */
    size_t length;
    const int32_t *source; /* (source_count): as sent */
    size_t source_count;
    float *scores; /* (V), changed in place; −Inf: removed */
    size_t V;
    /* scratch, as large as rules_scratch() says */
    float *floats;
    struct ranked *ranked;
    struct weighed *weighed;
};

enum { RULES_MAX = 24 };

struct rules {
    void (*apply[RULES_MAX])(const struct rule_call *call);
    size_t count;
};

/* The rules that `options` make active. */
void rules_init(struct rules *rules, const struct options *options);

/* How many places of each kind of scratch they need. */
struct rules_scratch {
    size_t floats, ranked, weighed;
};
struct rules_scratch rules_scratch(const struct options *options, size_t V, size_t source_count);

/* How many raw scores the active rules may lower at most when a hypothesis is `length` long; the
 * others stay as they are.  SIZE_MAX: they may raise some, or look at all. */
size_t rules_lowered(const struct options *options, size_t length, size_t source_count);

void rules_apply(const struct rules *rules, const struct rule_call *call);

/* Processors that rewrite the scores at ids of lists or of histories, in processors.c, and warpers,
 * in warpers.c; each is a reference class of its name, but for allowed_tokens, which is ours. */
void processor_sequence_bias(const struct rule_call *call);
void processor_encoder_repetition_penalty(const struct rule_call *call);
void processor_repetition_penalty(const struct rule_call *call);
void processor_no_repeat_ngram(const struct rule_call *call);
void processor_encoder_no_repeat_ngram(const struct rule_call *call);
void processor_bad_words(const struct rule_call *call);
void processor_min_length(const struct rule_call *call);
void processor_forced_bos(const struct rule_call *call);
void processor_forced_eos(const struct rule_call *call);
void processor_remove_invalid(const struct rule_call *call);
void processor_exponential_decay(const struct rule_call *call);
void processor_suppress(const struct rule_call *call);
void processor_begin_suppress(const struct rule_call *call);
void processor_allowed_tokens(const struct rule_call *call);

enum { TOP_H_CANDIDATES = 100 };

void warper_temperature(const struct rule_call *call);
void warper_top_h(const struct rule_call *call);
void warper_top_k(const struct rule_call *call);
void warper_top_p(const struct rule_call *call);
void warper_min_p(const struct rule_call *call);
void warper_typical(const struct rule_call *call);
void warper_epsilon(const struct rule_call *call);
void warper_eta(const struct rule_call *call);
void warper_renormalize(const struct rule_call *call);

#endif
