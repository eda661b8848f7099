/* options.h — the decoding options of one row, with the reference's names, ranges and defaults.
 *
 * One table (src/search/options_table.c) knows each option: name, kind, range, default.  Values
 * come as plain `struct value`s: the model's defaults first, then the request's.  Const once a row
 * is queued. */
#ifndef SEARCH_OPTIONS_H
#define SEARCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/value.h"

enum early_stopping { EARLY_STOPPING_FALSE, EARLY_STOPPING_TRUE, EARLY_STOPPING_NEVER };

enum { EOS_MAX = 16 };

/* Options that are lists of token ids, of words or of words with a bias. */
enum option_list {
    LIST_SEQUENCE_BIAS,
    LIST_BAD_WORDS,
    LIST_SUPPRESS,
    LIST_BEGIN_SUPPRESS,
    LIST_ALLOWED,
    LIST_COUNT
};

struct options {
    /* lengths; SIZE_MAX: not set, but for min_length */
    size_t max_new_tokens, max_length;
    bool max_new_tokens_given, max_length_given; /* by the request, not by the model */
    size_t min_new_tokens, min_length;           /* min_length 0: not set */

    /* beams */
    size_t num_beams;
    size_t num_return_sequences;
    double length_penalty;
    enum early_stopping early_stopping;

    /* sampling */
    bool do_sample;
    bool seed_given;
    uint64_t seed;
    double temperature;                /* 1: off */
    double top_h;                      /* 0: off */
    size_t top_k;                      /* 0: off */
    double top_p;                      /* 1: off */
    double min_p;                      /* 0: off */
    double typical_p;                  /* 1: off */
    double epsilon_cutoff, eta_cutoff; /* 0: off */

    /* rules */
    double repetition_penalty, encoder_repetition_penalty; /* 1: off */
    size_t no_repeat_ngram_size, encoder_no_repeat_ngram_size;
    struct phrases *lists[LIST_COUNT]; /* each held; NULL: none */
    int64_t decay_start;               /* exponential_decay_length_penalty */
    double decay_factor;               /* 1: off */
    bool remove_invalid_values, renormalize_logits;
    int32_t forced_bos_id; /* −1: off */
    int32_t forced_eos_ids[EOS_MAX];
    size_t forced_eos_count;
    int32_t start_id; /* decoder start, else bos; −1: none known */
    int32_t bos_id;   /* −1: none */
    int32_t eos_ids[EOS_MAX];
    size_t eos_count;
    int32_t pad_id; /* −1: none */

    /* what the answer carries */
    bool no_logprob;     /* not even the sum of the log-probabilities */
    bool logprobs;       /* token_logprobs wanted */
    size_t top_logprobs; /* the N best at each place; 0: none */
    bool skip_special_tokens;
    bool output_attentions;
};

/* What a row may ask for, from the model and the configuration. */
struct option_limits {
    size_t vocabulary;             /* of the target */
    size_t positions_max;          /* of the decoder; SIZE_MAX: no limit */
    size_t default_max_new_tokens; /* limits.default_max_new_tokens */
    size_t max_new_tokens;         /* limits.max_new_tokens */
    size_t beams_max;              /* limits.beams */
    size_t sequences_max;          /* limits.return_sequences */
    size_t top_logprobs_max;       /* limits.top_logprobs */
    size_t option_tokens_max;      /* limits.option_tokens: of one list */
};

/* The table's defaults.  A struct options that is all zero holds nothing either. */
void options_init(struct options *options);

/* Makes *copy, which holds nothing, equal to *options; lists are shared, not copied.  (A plain
 * assignment borrows them.) */
void options_copy(struct options *copy, const struct options *options);
/* Lets go of the lists. */
void options_clear(struct options *options);

/* Sets one option of a request by its name.  VALUE_NULL is the reference's None: the option is off,
 * also where the model or the table has a default (top_k: no limit; eos_token_id: none). `param` is
 * put before the name in an error ("parameters."). Errors: ERR_UNKNOWN_FIELD, ERR_UNSUPPORTED (a
 * reference's option not built yet), ERR_WRONG_TYPE, ERR_OUT_OF_RANGE, ERR_TOKEN_OUT_OF_RANGE,
 * ERR_OVER_LIMIT, ERR_NO_MEMORY; the options are then as before. */
int options_set(struct options *options, const char *name, const struct value *value,
                const struct option_limits *limits, const char *param, struct error *err);

/* The model's defaults: fields that are no options of the reference are passed over, nulls leave
 * the table's default; an option that is not built and is not at its neutral value is
 * ERR_UNSUPPORTED, so that no folder's wish is ignored silently. */
int options_set_defaults(struct options *options, const struct settings *defaults,
                         const struct option_limits *limits, struct error *err);

/* Checks the options together and against the limits, and resolves what is left open: afterwards
 * options->max_length is the total length (start and prefix of `prefix_count` ids included),
 * max_new_tokens = max_length − prefix_count, min_length holds min_new_tokens too, and a row that
 * samples without a seed has got a random one.  A default length, the model's or the table's, is
 * capped by the positions and the limit; a request's beyond the positions is ERR_OUT_OF_RANGE,
 * beyond a configured limit ERR_OVER_LIMIT.  An id outside the vocabulary is
 * ERR_TOKEN_OUT_OF_RANGE. */
int options_resolve(struct options *options, const struct option_limits *limits,
                    size_t prefix_count, const char *param, struct error *err);

/* How many hypotheses of the row can be alive at once: beams, or sequences when sampling. */
size_t options_width(const struct options *options);

/* The option's name and its resolved value for GET /v1/models: calls `each` for every option whose
 * value differs from the table's default.  A list for which there is no memory is null. */
void options_describe(const struct options *options,
                      void (*each)(void *context, const char *name, const struct value *value),
                      void *context);

#endif
