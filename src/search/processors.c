/* Rules that hold for greedy, beams and sampling alike. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "phrases.h"
#include "rules.h"

/* A wild penalty or bias must not make an infinity; what a rule removed stays removed, and NaN is
 * left to remove_invalid_values. */
static float tame(float before, float after)
{
    if (before == -INFINITY)
        return before;
    return after > FLT_MAX ? FLT_MAX : after < -FLT_MAX ? -FLT_MAX : after;
}

/* Whether the phrase's last id would end it now. */
static bool would_end(const struct rule_call *call, const struct phrase *phrase)
{
    const size_t n = phrase->count - 1;
    return n == 0 || (n <= call->length && memcmp(call->tokens + call->length - n, phrase->ids,
                                                  n * sizeof *phrase->ids) == 0);
}

/* The phrases that end with the same id lie together: their biases are summed before one is added,
 * as the reference does. */
void processor_sequence_bias(const struct rule_call *call)
{
    const struct phrases *const phrases = call->options->lists[LIST_SEQUENCE_BIAS];
    for (size_t i = 0; i < phrases->count;) {
        const int32_t last = phrases->items[i].ids[phrases->items[i].count - 1];
        float bias = 0;
        for (; i < phrases->count; i++) {
            const struct phrase *const phrase = &phrases->items[i];
            if (phrase->ids[phrase->count - 1] != last)
                break;
            if (would_end(call, phrase))
                bias += phrase->bias;
        }
        call->scores[last] = tame(call->scores[last], call->scores[last] + bias);
    }
}

/* Once for each token that occurs, however often.  All scores are read before one is written, so a
 * second occurrence writes the same value again. */
static void penalize(const struct rule_call *call, const int32_t *ids, size_t count, float penalty)
{
    for (size_t p = 0; p < count; p++)
        if ((size_t)ids[p] < call->V)
            call->floats[p] = call->scores[ids[p]];
    for (size_t p = 0; p < count; p++) {
        const float score = call->floats[p];
        if ((size_t)ids[p] < call->V)
            call->scores[ids[p]] = tame(score, score < 0 ? score * penalty : score / penalty);
    }
}

/* The source as sent, padding included; the penalty is a reward. */
void processor_encoder_repetition_penalty(const struct rule_call *call)
{
    penalize(call, call->source, call->source_count,
             (float)(1 / call->options->encoder_repetition_penalty));
}

void processor_repetition_penalty(const struct rule_call *call)
{
    penalize(call, call->tokens, call->length, (float)call->options->repetition_penalty);
}

/* Removes what would end an n-gram that `ids` have already. */
static void remove_ngrams(const struct rule_call *call, const int32_t *ids, size_t count, size_t n)
{
    if (call->length + 1 < n)
        return;
    const int32_t *const suffix = call->tokens + call->length - (n - 1);
    for (size_t p = 0; p + n <= count; p++)
        if (memcmp(ids + p, suffix, (n - 1) * sizeof *suffix) == 0 &&
            (size_t)ids[p + n - 1] < call->V)
            call->scores[ids[p + n - 1]] = -INFINITY;
}

void processor_no_repeat_ngram(const struct rule_call *call)
{
    remove_ngrams(call, call->tokens, call->length, call->options->no_repeat_ngram_size);
}

void processor_encoder_no_repeat_ngram(const struct rule_call *call)
{
    remove_ngrams(call, call->source, call->source_count,
                  call->options->encoder_no_repeat_ngram_size);
}

static bool is_eos(const struct options *o, int32_t id)
{
    for (size_t i = 0; i < o->eos_count; i++)
        if (o->eos_ids[i] == id)
            return true;
    return false;
}

/* A word that is an end of sequence and nothing else is no bad word. */
void processor_bad_words(const struct rule_call *call)
{
    const struct phrases *const words = call->options->lists[LIST_BAD_WORDS];
    for (size_t i = 0; i < words->count; i++) {
        const struct phrase *const word = &words->items[i];
        const int32_t last = word->ids[word->count - 1];
        if (would_end(call, word) && !(word->count == 1 && is_eos(call->options, last)))
            call->scores[last] = -INFINITY;
    }
}

/* min_length and min_new_tokens: the resolved min_length is both. */
void processor_min_length(const struct rule_call *call)
{
    if (call->length >= call->options->min_length)
        return;
    for (size_t i = 0; i < call->options->eos_count; i++)
        call->scores[call->options->eos_ids[i]] = -INFINITY;
}

static void force(const struct rule_call *call, const int32_t *ids, size_t count)
{
    for (size_t v = 0; v < call->V; v++)
        call->scores[v] = -INFINITY;
    for (size_t i = 0; i < count; i++)
        call->scores[ids[i]] = 0;
}

/* Behind the start alone; a prefix leaves no place for it. */
void processor_forced_bos(const struct rule_call *call)
{
    if (call->length == 1)
        force(call, &call->options->forced_bos_id, 1);
}

/* At the last place there is. */
void processor_forced_eos(const struct rule_call *call)
{
    if (call->length + 1 == call->options->max_length)
        force(call, call->options->forced_eos_ids, call->options->forced_eos_count);
}

void processor_remove_invalid(const struct rule_call *call)
{
    for (size_t v = 0; v < call->V; v++) {
        const float score = call->scores[v];
        call->scores[v] = isnan(score) ? 0 : fminf(fmaxf(score, -FLT_MAX), FLT_MAX);
    }
}

/* Adds |score| · (factor^n − 1) to an end token's score, n from `start` new tokens on. */
void processor_exponential_decay(const struct rule_call *call)
{
    const struct options *const o = call->options;
    const int64_t generated = (int64_t)(call->length - (o->max_length - o->max_new_tokens));
    if (generated <= o->decay_start)
        return;
    const double power = pow(o->decay_factor, (double)(generated - o->decay_start));
    const float share = (float)fmin(power - 1, (double)FLT_MAX);
    float rewarded[EOS_MAX];
    for (size_t i = 0; i < o->eos_count; i++) {
        const float score = call->scores[o->eos_ids[i]];
        rewarded[i] = isfinite(score) ? tame(score, score + fabsf(score) * share) : score;
    }
    for (size_t i = 0; i < o->eos_count; i++)
        call->scores[o->eos_ids[i]] = rewarded[i];
}

static void remove_tokens(const struct rule_call *call, const struct phrases *tokens)
{
    for (size_t i = 0; i < tokens->count; i++)
        call->scores[tokens->items[i].ids[0]] = -INFINITY;
}

void processor_suppress(const struct rule_call *call)
{
    remove_tokens(call, call->options->lists[LIST_SUPPRESS]);
}

/* At the first place that is free to choose. */
void processor_begin_suppress(const struct rule_call *call)
{
    const struct options *const o = call->options;
    const size_t prefix_count = o->max_length - o->max_new_tokens;
    const bool forced = prefix_count == 1 && o->forced_bos_id >= 0;
    if (call->length == prefix_count + forced)
        remove_tokens(call, o->lists[LIST_BEGIN_SUPPRESS]);
}

void processor_allowed_tokens(const struct rule_call *call)
{
    const struct options *const o = call->options;
    const struct phrases *const allowed = o->lists[LIST_ALLOWED];
    float *const end_scores = call->floats + allowed->count;
    for (size_t i = 0; i < allowed->count; i++)
        call->floats[i] = call->scores[allowed->items[i].ids[0]];
    for (size_t i = 0; i < o->eos_count; i++)
        end_scores[i] = call->scores[o->eos_ids[i]];
    for (size_t v = 0; v < call->V; v++)
        call->scores[v] = -INFINITY;
    for (size_t i = 0; i < allowed->count; i++)
        call->scores[allowed->items[i].ids[0]] = call->floats[i];
    for (size_t i = 0; i < o->eos_count; i++)
        call->scores[o->eos_ids[i]] = end_scores[i];
}
