#include "kit_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kit_numbers.h"

/* Standard deviations of a chi-square that are still chance. */
#define CHI_SQUARE_SIGMAS 6.0

static bool within(double difference, double tolerance, const char *what, char *why,
                   size_t why_bytes)
{
    if (difference <= tolerance)
        return true;
    snprintf(why, why_bytes, "%s differ by %.3g (tolerance %g)", what, difference, tolerance);
    return false;
}

/* The field `name` of entry `i` of the answer's list `list`. */
static const json_t *entry(const json_t *answer, const char *list, size_t i, const char *name)
{
    return json_object_get(json_array_get(json_object_get(answer, list), i), name);
}

static bool has_rows(const json_t *answer, const char *list, size_t rows, char *why,
                     size_t why_bytes)
{
    const size_t there = json_array_size(json_object_get(answer, list));
    if (there == rows)
        return true;
    snprintf(why, why_bytes, "%zu entries in %s instead of %zu", there, list, rows);
    return false;
}

/* States of a row: those of its places with mask 1 are in `want`, the others are zero. */
static double row_difference(const json_t *got, const json_t *want, const json_t *mask)
{
    double worst = 0.0;
    size_t next = 0;
    if (json_array_size(got) != json_array_size(mask) || json_array_size(want) != kit_sum(mask))
        return INFINITY;
    for (size_t t = 0; t < json_array_size(mask); t++) {
        const json_t *state = json_array_get(got, t);
        if (json_integer_value(json_array_get(mask, t)))
            worst = fmax(worst, kit_difference(state, json_array_get(want, next++), NULL));
        else
            for (size_t d = 0; d < json_array_size(state); d++)
                if (json_number_value(json_array_get(state, d)) != 0.0)
                    return INFINITY;
    }
    return worst;
}

bool kit_judge_hidden(const struct kit_check *check, json_t *const *answers, char *why,
                      size_t why_bytes)
{
    const json_t *want = json_object_get(check->item, "last_hidden_state");
    const json_t *masks = json_object_get(check->item, "attention_mask");
    if (!has_rows(answers[0], "data", json_array_size(want), why, why_bytes))
        return false;
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(want); i++)
        worst = fmax(worst, row_difference(entry(answers[0], "data", i, "embedding"),
                                           json_array_get(want, i), json_array_get(masks, i)));
    return within(worst, KIT_HIDDEN_TOLERANCE, "states", why, why_bytes);
}

static double vector_difference(const json_t *got, const json_t *want, bool normalize)
{
    const size_t count = json_array_size(want);
    double *values = calloc(count, sizeof *values);
    if (!values)
        abort();
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        values[i] = json_number_value(json_array_get(want, i));
        sum += values[i] * values[i];
    }
    for (size_t i = 0; normalize && sum > 0.0 && i < count; i++)
        values[i] /= sqrt(sum);
    const double difference = kit_difference_plain(got, values, count);
    free(values);
    return difference;
}

bool kit_judge_pooled(const struct kit_check *check, json_t *const *answers, char *why,
                      size_t why_bytes)
{
    const json_t *want = json_object_get(json_object_get(check->item, "pooled"), check->pooling);
    if (!has_rows(answers[0], "data", json_array_size(want), why, why_bytes))
        return false;
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(want); i++)
        worst = fmax(worst, vector_difference(entry(answers[0], "data", i, "embedding"),
                                              json_array_get(want, i), check->normalize));
    return within(worst, KIT_HIDDEN_TOLERANCE, "vectors", why, why_bytes);
}

/* Weights of one row, [layer][head][query][key], the first `queries` × `keys` of each head. */
static double attention_difference(const json_t *got, const json_t *want, size_t queries,
                                   size_t keys)
{
    return kit_difference(got, want, (const size_t[]){ KIT_WHOLE, KIT_WHOLE, queries, keys });
}

bool kit_judge_encoder_attentions(const struct kit_check *check, json_t *const *answers, char *why,
                                  size_t why_bytes)
{
    const json_t *want = json_object_get(check->item, "encoder_attentions");
    const json_t *masks = json_object_get(check->item, "attention_mask");
    if (!has_rows(answers[0], "data", json_array_size(want), why, why_bytes))
        return false;
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(want); i++) {
        const size_t real = kit_sum(json_array_get(masks, i));
        worst = fmax(worst, attention_difference(entry(answers[0], "data", i, "attentions"),
                                                 json_array_get(want, i), real, real));
    }
    return within(worst, KIT_HIDDEN_TOLERANCE, "weights", why, why_bytes);
}

/* The log-probabilities of row `i` at the decoder places that the kit lists. */
static double score_difference(const json_t *item, size_t i, const json_t *got)
{
    const json_t *row = json_array_get(json_object_get(item, "decoder_input_ids"), i);
    const json_t *positions = json_object_get(item, "positions");
    const json_t *logits = json_array_get(json_object_get(item, "logits"), i);
    double worst = 0.0;
    if (json_array_size(got) != json_array_size(row) - 1)
        return INFINITY;
    for (size_t p = 0; p < json_array_size(positions); p++) {
        const size_t place = (size_t)json_integer_value(json_array_get(positions, p));
        if (place + 1 >= json_array_size(row))
            continue;
        const json_t *at = json_array_get(logits, p);
        const size_t target = (size_t)json_integer_value(json_array_get(row, place + 1));
        const double want = json_number_value(json_array_get(at, target)) - kit_log_sum_exp(at);
        const json_t *pair = json_array_get(got, place);
        const double value = json_is_number(pair) ? json_number_value(pair) : INFINITY;
        worst = fmax(worst, fabs(value - want) / fmax(1.0, fabs(want)));
    }
    return worst;
}

bool kit_judge_score(const struct kit_check *check, json_t *const *answers, char *why,
                     size_t why_bytes)
{
    const size_t rows = json_array_size(json_object_get(check->item, "input_ids"));
    if (!has_rows(answers[0], "outputs", rows, why, why_bytes))
        return false;
    double worst = 0.0;
    for (size_t i = 0; i < rows; i++)
        worst = fmax(worst, score_difference(check->item, i,
                                             entry(answers[0], "outputs", i, "token_logprobs")));
    return within(worst, KIT_SCORE_TOLERANCE, "log-probabilities", why, why_bytes);
}

bool kit_judge_decoder_attentions(const struct kit_check *check, json_t *const *answers, char *why,
                                  size_t why_bytes)
{
    const json_t *item = check->item;
    const json_t *self = json_object_get(item, "decoder_attentions");
    const json_t *cross = json_object_get(item, "cross_attentions");
    const json_t *masks = json_object_get(item, "attention_mask");
    const json_t *targets = json_object_get(item, "decoder_input_ids");
    if (!has_rows(answers[0], "outputs", json_array_size(self), why, why_bytes))
        return false;
    double worst = 0.0;
    for (size_t i = 0; i < json_array_size(self); i++) {
        /* The last id of the kit's row is a target only, so it has no place here. */
        const size_t places = json_array_size(json_array_get(targets, i)) - 1;
        const size_t real = kit_sum(json_array_get(masks, i));
        worst =
            fmax(worst, attention_difference(entry(answers[0], "outputs", i, "decoder_attentions"),
                                             json_array_get(self, i), places, places));
        worst =
            fmax(worst, attention_difference(entry(answers[0], "outputs", i, "cross_attentions"),
                                             json_array_get(cross, i), places, real));
    }
    return within(worst, KIT_HIDDEN_TOLERANCE, "weights", why, why_bytes);
}

/* Sequence `i` of the answer, rows one after another; NULL behind the last. */
static const json_t *sequence_at(const json_t *answer, size_t i)
{
    size_t row;
    const json_t *output;
    json_array_foreach (json_object_get(answer, "outputs"), row, output) {
        const json_t *sequences = json_object_get(output, "sequences");
        if (i < json_array_size(sequences))
            return json_array_get(sequences, i);
        i -= json_array_size(sequences);
    }
    return NULL;
}

static bool same_text(const json_t *got, const json_t *want, size_t i, const char *what, char *why,
                      size_t why_bytes)
{
    if (got && json_equal(got, want))
        return true;
    char *have = json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY);
    char *wish = json_dumps(want, JSON_COMPACT | JSON_ENCODE_ANY);
    snprintf(why, why_bytes, "sequence %zu: %s %.150s instead of %.150s", i, what,
             have ? have : "missing", wish ? wish : "?");
    free(have);
    free(wish);
    return false;
}

/* Scores of beams; log-probabilities after the rules for both, as the kit has them. */
static bool same_scores(const json_t *got, const json_t *item, size_t i, char *why,
                        size_t why_bytes)
{
    const json_t *score = json_array_get(json_object_get(item, "sequences_scores"), i);
    const json_t *logprobs = json_object_get(item, score ? "token_scores" : "token_logprobs");
    double worst =
        kit_difference(json_object_get(got, "token_logprobs"), json_array_get(logprobs, i), NULL);
    if (!within(worst, KIT_SCORE_TOLERANCE, "token_logprobs", why, why_bytes))
        return false;
    worst = score ? kit_difference(json_object_get(got, "score"), score, NULL) : 0.0;
    return within(worst, KIT_SCORE_TOLERANCE, "scores", why, why_bytes);
}

bool kit_judge_generate(const struct kit_check *check, json_t *const *answers, char *why,
                        size_t why_bytes)
{
    const json_t *wanted = json_object_get(check->item, "generated");
    const json_t *reasons = json_object_get(check->item, "finish_reason");
    const size_t count = json_array_size(wanted);
    for (size_t i = 0; i < count; i++) {
        const json_t *got = sequence_at(answers[0], i);
        if (!same_text(json_object_get(got, "token_ids"), json_array_get(wanted, i), i, "tokens",
                       why, why_bytes) ||
            !same_text(json_object_get(got, "finish_reason"), json_array_get(reasons, i), i,
                       "finish_reason", why, why_bytes) ||
            !same_scores(got, check->item, i, why, why_bytes))
            return false;
    }
    if (!sequence_at(answers[0], count))
        return true;
    snprintf(why, why_bytes, "more than %zu sequences", count);
    return false;
}

/* Counts the first token of every draw.  −1 when an answer has not KIT_DRAWS, or a token is none.
 */
static int count_draws(json_t *const *answers, size_t answer_count, size_t *counts, size_t V,
                       char *why, size_t why_bytes)
{
    for (size_t a = 0; a < answer_count; a++) {
        for (size_t i = 0; i < KIT_DRAWS; i++) {
            const json_t *ids = json_object_get(sequence_at(answers[a], i), "token_ids");
            const json_int_t id = json_integer_value(json_array_get(ids, 0));
            if (!json_array_size(ids) || id < 0 || (size_t)id >= V) {
                snprintf(why, why_bytes, "draw %zu has no token", i);
                return -1;
            }
            counts[id]++;
        }
    }
    return 0;
}

/* How far the counts are from the probabilities, in standard deviations of a chi-square; tokens
 * that are expected fewer than five times are one bin.  Infinite when a token with probability 0
 * was drawn. */
static double chi_square_sigmas(const size_t *counts, const json_t *probabilities, size_t draws)
{
    double chi = 0.0, freedom = -1.0, rare_expected = 0.0, rare_counted = 0.0;
    for (size_t v = 0; v < json_array_size(probabilities); v++) {
        const double p = json_number_value(json_array_get(probabilities, v));
        const double expected = p * (double)draws;
        if (counts[v] && p == 0.0)
            return INFINITY;
        if (expected >= 5.0) {
            chi += pow((double)counts[v] - expected, 2.0) / expected;
            freedom += 1.0;
        } else {
            rare_expected += expected;
            rare_counted += (double)counts[v];
        }
    }
    if (rare_expected >= 1.0) {
        chi += pow(rare_counted - rare_expected, 2.0) / rare_expected;
        freedom += 1.0;
    }
    return (chi - freedom) / sqrt(2.0 * fmax(1.0, freedom));
}

bool kit_judge_distribution(const struct kit_check *check, json_t *const *answers, char *why,
                            size_t why_bytes)
{
    const json_t *probabilities = json_object_get(check->item, "probs");
    const size_t V = json_array_size(probabilities);
    size_t *counts = calloc(V, sizeof *counts);
    if (!counts)
        abort();
    int rc = count_draws(answers, check->body_count, counts, V, why, why_bytes);
    if (rc == 0) {
        const double sigmas =
            chi_square_sigmas(counts, probabilities, check->body_count * KIT_DRAWS);
        if (sigmas >= CHI_SQUARE_SIGMAS) {
            snprintf(why, why_bytes, "the draws are %.1f standard deviations off", sigmas);
            rc = -1;
        }
    }
    free(counts);
    return rc == 0;
}
