/* options_table.h — every generation option there is: its name, kind, range and default.
 *
 * Const; safe from any thread. */
#ifndef SEARCH_OPTIONS_TABLE_H
#define SEARCH_OPTIONS_TABLE_H

#include "search/options.h"

enum option_kind {
    KIND_COUNT,          /* size_t; −1 is SIZE_MAX */
    KIND_SEED,           /* uint64_t */
    KIND_REAL,           /* double */
    KIND_FLAG,           /* bool */
    KIND_TOKEN,          /* int32_t; −1: none */
    KIND_MODEL_TOKEN,    /* the same; the model's to say, not the request's */
    KIND_START,          /* the same; bos_id when there is none */
    KIND_FEW_TOKENS,     /* int32_t[EOS_MAX] and a count: an id or a list of ids */
    KIND_EARLY_STOPPING, /* true, false or "never" */
    KIND_LOGPROBS,       /* logprobs and top_logprobs: N; no_logprob: false */
    KIND_DECAY,          /* decay_start and decay_factor: [start, factor] */
    KIND_TOKEN_LIST,     /* struct phrases *: [id, …] */
    KIND_WORD_LIST,      /* the same: [[id, …], …] */
    KIND_BIAS_LIST,      /* the same: [[[id, …], bias], …] */
    KIND_NOT_BUILT       /* an option of the reference or of ours; `initial` is its neutral value */
};

/* Of a number that becomes a float, for errors. */
#define FINITE_RANGE "a number from -3.4e38 to 3.4e38"

/* What the number of KIND_LOGPROBS is for `false`. */
enum { LOGPROBS_FALSE = -2 };

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;
    double min, max;
    const char *range;  /* what min and max mean, for errors */
    double initial;     /* the table's default; lists begin empty */
    double off;         /* what null in a request means */
    size_t given;       /* offset of a flag: the request set it; 0: none */
    size_t count;       /* FEW_TOKENS: offset of how many there are */
    bool request_alone; /* ours, or of the answer: a model's folder does not say it */
    bool never_empty;   /* lists: an empty one is an error, not the option switched off */
};

/* NULL: there is no such option. */
const struct option *option_find(const char *name);

/* The table in its order; NULL from the end on. */
const struct option *option_at(size_t index);

static inline bool option_is_list(const struct option *option)
{
    return option->kind == KIND_TOKEN_LIST || option->kind == KIND_WORD_LIST ||
           option->kind == KIND_BIAS_LIST;
}

static inline bool option_is_token(const struct option *option)
{
    return option->kind == KIND_TOKEN || option->kind == KIND_MODEL_TOKEN ||
           option->kind == KIND_START || option->kind == KIND_FEW_TOKENS;
}

#endif
