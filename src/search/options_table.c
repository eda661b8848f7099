#include "options_table.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define COUNT_MAX 2147483647.0
#define SEED_MAX  9007199254740991.0 /* 2^53 − 1 */
#define BELOW_ONE (1 - DBL_EPSILON / 2)

#define AT(field) offsetof(struct options, field)

/* Parts of a row. */
#define OPTION(name_, kind_, field) .name = name_, .kind = kind_, .offset = AT(field)
#define LIST(name_, kind_, list)    OPTION(name_, kind_, lists) + (list) * sizeof(struct phrases *)
#define RANGE(min_, max_, text)     .min = min_, .max = max_, .range = text
#define DEFAULT(value)              .initial = value, .off = value
#define NOT_BUILT(name_, value)     .name = name_, .kind = KIND_NOT_BUILT, .initial = value
#define NONE                        DEFAULT(-1)

/* A limit is named as the end; options_resolve() checks it, with all options together. */
#define ONE_UP(end)  RANGE(1, COUNT_MAX, "an integer from 1 to " end)
#define ZERO_UP(end) RANGE(0, COUNT_MAX, "an integer from 0 to " end)
#define ANY_COUNT    "2147483647"
#define TOKEN_ID     RANGE(0, COUNT_MAX, "a token id")
#define FEW_IDS      RANGE(0, COUNT_MAX, "a token id or at most 16 of them")
#define FLAG         RANGE(0, 1, "true or false")
#define ABOVE_ZERO   RANGE(FLT_MIN, FLT_MAX, "a number above 0, from 1.2e-38 to 3.4e38")
#define ZERO_TO_ONE  RANGE(0, 1, "a number from 0 to 1")
#define SHARE        RANGE(DBL_MIN, 1, "a number above 0, at most 1")
#define CUTOFF       RANGE(0, BELOW_ONE, "a number from 0 to below 1")
#define ANY_REAL     RANGE(-FLT_MAX, FLT_MAX, FINITE_RANGE)

/* NAN as the neutral value of an option that is not built: only null, false and [] are neutral. */
static const struct option table[] = {
    { OPTION("max_new_tokens", KIND_COUNT, max_new_tokens), ONE_UP("limits.max_new_tokens"), NONE,
      .given = AT(max_new_tokens_given) },
    { OPTION("max_length", KIND_COUNT, max_length), ONE_UP(ANY_COUNT), NONE,
      .given = AT(max_length_given) },
    { OPTION("min_new_tokens", KIND_COUNT, min_new_tokens), ZERO_UP(ANY_COUNT), NONE },
    { OPTION("min_length", KIND_COUNT, min_length), ZERO_UP(ANY_COUNT), DEFAULT(0) },
    { OPTION("num_beams", KIND_COUNT, num_beams), ONE_UP("limits.beams"), DEFAULT(1) },
    { OPTION("num_return_sequences", KIND_COUNT, num_return_sequences),
      ONE_UP("limits.return_sequences"), DEFAULT(1) },
    { OPTION("length_penalty", KIND_REAL, length_penalty), ANY_REAL, DEFAULT(1) },
    { OPTION("early_stopping", KIND_EARLY_STOPPING, early_stopping),
      RANGE(0, 0, "true, false or \"never\""), DEFAULT(EARLY_STOPPING_FALSE) },
    { OPTION("do_sample", KIND_FLAG, do_sample), FLAG, DEFAULT(0) },
    { OPTION("seed", KIND_SEED, seed), RANGE(0, SEED_MAX, "an integer from 0 to 9007199254740991"),
      DEFAULT(0), .given = AT(seed_given), .request_alone = true },
    { OPTION("temperature", KIND_REAL, temperature), ABOVE_ZERO, DEFAULT(1) },
    { OPTION("top_h", KIND_REAL, top_h), SHARE, DEFAULT(0) },
    { OPTION("top_k", KIND_COUNT, top_k), ZERO_UP(ANY_COUNT), .initial = 50, .off = 0 },
    { OPTION("top_p", KIND_REAL, top_p), ZERO_TO_ONE, DEFAULT(1) },
    { OPTION("min_p", KIND_REAL, min_p), ZERO_TO_ONE, DEFAULT(0) },
    { OPTION("typical_p", KIND_REAL, typical_p), SHARE, DEFAULT(1) },
    { OPTION("epsilon_cutoff", KIND_REAL, epsilon_cutoff), CUTOFF, DEFAULT(0) },
    { OPTION("eta_cutoff", KIND_REAL, eta_cutoff), CUTOFF, DEFAULT(0) },
    { OPTION("repetition_penalty", KIND_REAL, repetition_penalty), ABOVE_ZERO, DEFAULT(1) },
    { OPTION("encoder_repetition_penalty", KIND_REAL, encoder_repetition_penalty), ABOVE_ZERO,
      DEFAULT(1) },
    { OPTION("no_repeat_ngram_size", KIND_COUNT, no_repeat_ngram_size), ZERO_UP(ANY_COUNT),
      DEFAULT(0) },
    { OPTION("encoder_no_repeat_ngram_size", KIND_COUNT, encoder_no_repeat_ngram_size),
      ZERO_UP(ANY_COUNT), DEFAULT(0) },
    { LIST("sequence_bias", KIND_BIAS_LIST, LIST_SEQUENCE_BIAS),
      .range = "a list of pairs [[token id, …], bias]" },
    { LIST("bad_words_ids", KIND_WORD_LIST, LIST_BAD_WORDS),
      .range = "a list of lists of token ids" },
    { LIST("suppress_tokens", KIND_TOKEN_LIST, LIST_SUPPRESS), .range = "a list of token ids" },
    { LIST("begin_suppress_tokens", KIND_TOKEN_LIST, LIST_BEGIN_SUPPRESS),
      .range = "a list of token ids" },
    { LIST("allowed_token_ids", KIND_TOKEN_LIST, LIST_ALLOWED), .range = "a list of token ids",
      .request_alone = true, .never_empty = true },
    { OPTION("exponential_decay_length_penalty", KIND_DECAY, decay_factor), ABOVE_ZERO,
      DEFAULT(1) },
    { OPTION("remove_invalid_values", KIND_FLAG, remove_invalid_values), FLAG, DEFAULT(0) },
    { OPTION("renormalize_logits", KIND_FLAG, renormalize_logits), FLAG, DEFAULT(0) },
    { OPTION("forced_bos_token_id", KIND_TOKEN, forced_bos_id), TOKEN_ID, NONE },
    { OPTION("forced_eos_token_id", KIND_FEW_TOKENS, forced_eos_ids), FEW_IDS, NONE,
      .count = AT(forced_eos_count) },
    { OPTION("decoder_start_token_id", KIND_START, start_id), TOKEN_ID, NONE },
    { OPTION("bos_token_id", KIND_MODEL_TOKEN, bos_id), TOKEN_ID, NONE },
    { OPTION("pad_token_id", KIND_MODEL_TOKEN, pad_id), TOKEN_ID, NONE },
    { OPTION("eos_token_id", KIND_FEW_TOKENS, eos_ids), FEW_IDS, NONE, .count = AT(eos_count) },
    { OPTION("logprobs", KIND_LOGPROBS, top_logprobs), ZERO_UP("limits.top_logprobs"), NONE,
      .request_alone = true },
    { OPTION("output_attentions", KIND_FLAG, output_attentions), FLAG, DEFAULT(0),
      .request_alone = true },
    { OPTION("skip_special_tokens", KIND_FLAG, skip_special_tokens), FLAG, DEFAULT(1),
      .request_alone = true },

    { NOT_BUILT("stop", NAN), .request_alone = true },
    { NOT_BUILT("source_lang", NAN), .request_alone = true },
    { NOT_BUILT("target_lang", NAN), .request_alone = true },
    { NOT_BUILT("stop_strings", NAN) },
    { NOT_BUILT("max_time", NAN) },
    { NOT_BUILT("num_beam_groups", 1) },
    { NOT_BUILT("diversity_penalty", 0) },
    { NOT_BUILT("penalty_alpha", 0) },
    { NOT_BUILT("dola_layers", NAN) },
    { NOT_BUILT("low_memory", NAN) },
    { NOT_BUILT("constraints", NAN) },
    { NOT_BUILT("force_words_ids", NAN) },
    { NOT_BUILT("guidance_scale", 1) },
    { NOT_BUILT("watermarking_config", NAN) },
    { NOT_BUILT("token_healing", NAN) },
    { NOT_BUILT("prompt_lookup_num_tokens", NAN) },
    { NOT_BUILT("assistant_early_exit", NAN) },
    { NOT_BUILT("use_mtp", NAN) },
};

enum { TABLE_COUNT = sizeof table / sizeof table[0] };

const struct option *option_find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const struct option *option_at(size_t index)
{
    return index < TABLE_COUNT ? &table[index] : NULL;
}
