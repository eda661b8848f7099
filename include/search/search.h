/* search.h — how the tokens of one row are chosen: greedy, beams or samples, over plain logits.
 *
 * The engine asks for the live hypotheses, runs the decoder over the last token of each, and hands
 * the logits back; the search applies the rules, chooses, and says which hypotheses live on.
 *
 * Nodes.  Hypotheses form a tree.  The token at position p that hypothesis i got is node p·width +
 * i, so node ids are also slots of the row's key/value cache: a hypothesis is a path of nodes, a
 * beam that moves copies indices, never keys or values.  Positions count from the decoder start
 * (0).
 *
 * One thread at a time. */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "search/logits.h"
#include "search/options.h"

struct search;

enum finish_reason { FINISH_EOS, FINISH_LENGTH, FINISH_TIMEOUT };
const char *finish_reason_name(enum finish_reason reason);

/* One answer.  Arrays are the search's, valid until search_destroy(). */
struct sequence {
    const int32_t *tokens; /* generated ones: no start, no prefix; the end token included */
    size_t count;
    const float *token_logprobs; /* (count); NULL unless options.logprobs */
    /* (count, options.top_logprobs), best first, unused places have id −1; NULL unless asked */
    const struct token_logprob *top_logprobs;
    float score;   /* the reference's sequences_scores; NaN unless beams */
    float logprob; /* sum of the token_logprobs; NaN if options.no_logprob */
    enum finish_reason finish_reason;
};

/* What a search starts from. */
struct search_input {
    const struct kernels *kernels; /* borrowed until search_destroy() */
    const int32_t *prefix; /* (prefix_count ≥ 1): decoder start and prefix, below the vocabulary */
    size_t prefix_count;
    const int32_t *source; /* (source_count): the source row as sent, for the rules over it */
    size_t source_count;   /* ids that the target vocabulary does not have are passed over */
};

/* Starts the search of a row.
 *   options   resolved for this prefix_count; borrowed until search_destroy()
 *   input     the prefix is copied, the source borrowed until search_destroy()
 *   errors    ERR_NO_MEMORY */
int search_create(struct search **out, const struct options *options, size_t vocabulary,
                  const struct search_input *input, struct error *err);
void search_destroy(struct search **search);

/* How many hypotheses live now (0 once done), and the length all of them have. */
size_t search_live(const struct search *search);
size_t search_length(const struct search *search);

/* Hypothesis `index`'s tokens and nodes, (search_length). */
const int32_t *search_tokens(const struct search *search, size_t index);
const int32_t *search_path(const struct search *search, size_t index);

/* How many of the best raw logits of each live hypothesis the next step must be given right,
 * whatever is equal to the last of them included; the others may be −Inf instead.  0: all of them,
 * since the step looks at the whole distribution. */
size_t search_needed(const struct search *search);

/* One step; allocates nothing.  `logits` is (live, vocabulary), raw, overwritten.  Row i belongs to
 * hypothesis i.  At the first step one hypothesis lives, also for beams and samples.
 * Errors: ERR_NONFINITE (NaN or +Inf in the logits, or −Inf alone, unless the options remove
 * invalid values), ERR_OUT_OF_RANGE (the options leave no token to choose).  After an error only
 * search_destroy() may follow. */
int search_step(struct search *search, float *logits, struct error *err);

bool search_done(const struct search *search);

/* Ends the search now: what lives becomes an answer with FINISH_TIMEOUT.  Beams: the best of the
 * finished and the living, scored alike.  Does nothing when the search is done. */
void search_stop(struct search *search);

/* After search_done(): options.num_return_sequences answers; beams: best first, samples: by number.
 */
size_t search_sequence_count(const struct search *search);
struct sequence search_sequence(const struct search *search, size_t index);

/* Bytes that search_create() allocates for such a row. */
size_t search_bytes(const struct options *options, size_t vocabulary, size_t source_count);

#endif
