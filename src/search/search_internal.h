/* search_internal.h — the parts that greedy, sampling and beams share.
 *
 * The tree: node p·width + i is the token at position p of the hypothesis that was i-th then.  A
 * hypothesis is the chain of parents from its last node.  Scores of one step are taken row by row:
 * at the first step one row serves every hypothesis. */
#ifndef SEARCH_SEARCH_INTERNAL_H
#define SEARCH_SEARCH_INTERNAL_H

#include "rules.h"
#include "search/search.h"

static inline bool search_has_beams(const struct options *options)
{
    return options->num_beams > 1;
}

/* A token put behind a node: a candidate, or the end of a sequence. */
struct choice {
    int32_t node;  /* the last one before the token */
    int32_t token; /* −1: none, the sequence ends with the node */
    float logprob; /* of the token */
    float score;   /* beams */
    bool ended;    /* false: holds a place until a sequence ends */
    enum finish_reason reason;
};

struct search {
    const struct kernels *kernels; /* borrowed, as the options and the source */
    const struct options *options;
    const int32_t *source; /* (source_count) */
    size_t source_count;
    size_t V;
    size_t width;      /* hypotheses, at most */
    size_t max_length; /* start and prefix included */
    size_t prefix_count;
    struct rules rules;

    size_t length; /* of every live hypothesis */
    size_t live;
    bool done;

    /* the tree, (max_length, width) */
    int32_t *node_tokens, *node_parents;
    float *node_logprobs;
    struct token_logprob
        *node_tops; /* (max_length, width, top_logprobs): what could follow the node */

    /* live hypotheses */
    int32_t *tokens, *paths; /* (width, max_length) */
    int32_t *last;           /* (width): last node */
    size_t *numbers;         /* (width): samples: the sequence's number */
    float *scores;           /* (width): beams: sum of log-probabilities */
    double *log_sums;        /* (width): of the processed scores of a row */

    /* sequences that ended, (width): samples: by number; beams: best first */
    struct choice *ended;
    /* beams: (beam_candidates) of this step, and (width) to build the next `ended` in */
    struct choice *candidates, *merged;
    size_t candidate_count;

    /* scratch */
    float *floats;           /* (rules_scratch) */
    struct ranked *ranked;   /* (rules_scratch), or (beam_candidates) if that is more */
    struct weighed *weighed; /* (rules_scratch) */

    /* answers, (num_return_sequences, max_new_tokens) */
    int32_t *answer_tokens;
    float *answer_logprobs;
    struct token_logprob *answer_tops; /* (…, top_logprobs) */
    struct sequence *answers;          /* (num_return_sequences) */
};

/* Hypotheses that this step extends: the live ones, or at the first step every one that will be. */
size_t search_members(const struct search *s);
/* The row of logits that member `index` is extended by. */
size_t search_row(const struct search *s, size_t index);

/* Applies the rules to a row; keeps its best in the tree when they are wanted. */
void search_process_row(struct search *s, float *logits, size_t row);

bool search_is_eos(const struct search *s, int32_t token);
/* Whether the token ends its sequence, and why. */
bool search_ends(const struct search *s, int32_t token, enum finish_reason *reason);

/* The node of live hypothesis `index` at the position of this step. */
int32_t search_grow(struct search *s, size_t index, int32_t parent, int32_t token, float logprob);
/* After the step's nodes are in the tree: `live` hypotheses go on from `last`.  0: done. */
void search_advance(struct search *s, size_t live);

/* One kind of search each.  `logits` is (live, V), checked. */
int paths_step(struct search *s, float *logits, struct error *err);
void paths_stop(struct search *s);
void beams_start(struct search *s);
int beams_step(struct search *s, float *logits, struct error *err);
void beams_stop(struct search *s);
size_t beams_candidate_count(const struct options *options);

#endif
