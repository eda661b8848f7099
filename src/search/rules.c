#include "rules.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* RepetitionPenaltyLogitsProcessor: once for each token that occurs, however often.  All scores are
 * read before one is written, so a second occurrence writes the same value again. */
static void repetition_penalty(const struct rule_call *call)
{
    const float penalty = (float)call->options->repetition_penalty;
    for (size_t p = 0; p < call->length; p++)
        call->scratch[p] = call->scores[call->tokens[p]];
    for (size_t p = 0; p < call->length; p++) {
        const float score = call->scratch[p];
        const float scaled = score < 0 ? score * penalty : score / penalty;
        /* A wild penalty must not make an infinity; what a rule removed stays removed. */
        call->scores[call->tokens[p]] =
            score == -INFINITY ? score : fminf(fmaxf(scaled, -FLT_MAX), FLT_MAX);
    }
}

/* NoRepeatNGramLogitsProcessor: a token that would end an n-gram which is already there. */
static void no_repeat_ngram(const struct rule_call *call)
{
    const size_t n = call->options->no_repeat_ngram_size;
    if (call->length < n)
        return;
    const int32_t *const suffix = call->tokens + call->length - (n - 1);
    for (size_t p = 0; p + n <= call->length; p++)
        if (memcmp(call->tokens + p, suffix, (n - 1) * sizeof *suffix) == 0)
            call->scores[call->tokens[p + n - 1]] = -INFINITY;
}

/* MinLengthLogitsProcessor and MinNewTokensLengthLogitsProcessor: the resolved min_length is both.
 */
static void min_length(const struct rule_call *call)
{
    if (call->length >= call->options->min_length)
        return;
    for (size_t i = 0; i < call->options->eos_count; i++)
        call->scores[call->options->eos_ids[i]] = -INFINITY;
}

static void force(const struct rule_call *call, int32_t id)
{
    for (size_t v = 0; v < call->V; v++)
        call->scores[v] = -INFINITY;
    call->scores[id] = 0;
}

/* ForcedBOSTokenLogitsProcessor: behind the start alone; a prefix leaves no place for it. */
static void forced_bos(const struct rule_call *call)
{
    if (call->length == 1)
        force(call, call->options->forced_bos_id);
}

/* ForcedEOSTokenLogitsProcessor: at the last place there is. */
static void forced_eos(const struct rule_call *call)
{
    if (call->length + 1 == call->options->max_length)
        force(call, call->options->forced_eos_id);
}

static bool has_repetition_penalty(const struct options *o)
{
    return o->repetition_penalty != 1;
}

static bool has_no_repeat_ngram(const struct options *o)
{
    return o->no_repeat_ngram_size > 0;
}

static bool has_min_length(const struct options *o)
{
    return o->min_length > 0 && o->eos_count > 0;
}

static bool has_forced_bos(const struct options *o)
{
    return o->forced_bos_id >= 0;
}

static bool has_forced_eos(const struct options *o)
{
    return o->forced_eos_id >= 0;
}

static bool has_temperature(const struct options *o)
{
    return o->do_sample && o->temperature != 1;
}

static bool has_top_k(const struct options *o)
{
    return o->do_sample && o->top_k > 0;
}

static bool has_top_p(const struct options *o)
{
    return o->do_sample && o->top_p < 1;
}

static bool has_min_p(const struct options *o)
{
    return o->do_sample && o->min_p > 0;
}

static const struct rule {
    bool (*active)(const struct options *options);
    void (*apply)(const struct rule_call *call);
} table[] = {
    { has_repetition_penalty, repetition_penalty },
    { has_no_repeat_ngram, no_repeat_ngram },
    { has_min_length, min_length },
    { has_forced_bos, forced_bos },
    { has_forced_eos, forced_eos },
    { has_temperature, warper_temperature },
    { has_top_k, warper_top_k },
    { has_top_p, warper_top_p },
    { has_min_p, warper_min_p },
};

enum { TABLE_COUNT = sizeof table / sizeof table[0] };
_Static_assert(sizeof table / sizeof table[0] <= RULES_MAX, "struct rules holds every row");

void rules_init(struct rules *rules, const struct options *options)
{
    *rules = (struct rules){ 0 };
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (table[i].active(options))
            rules->apply[rules->count++] = table[i].apply;
}

size_t rules_scratch_count(const struct options *options, size_t V)
{
    const size_t history = has_repetition_penalty(options) ? options->max_length : 0;
    const size_t nucleus = has_top_p(options) ? V : 0;
    return history > nucleus ? history : nucleus;
}

size_t rules_ranked_count(const struct options *options, size_t V)
{
    if (!has_top_k(options))
        return 0;
    return options->top_k < V ? options->top_k : V;
}

void rules_apply(const struct rules *rules, const struct rule_call *call)
{
    for (size_t i = 0; i < rules->count; i++)
        rules->apply[i](call);
}
