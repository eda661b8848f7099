#include "rules.h"

#include "phrases.h"

static bool has_sequence_bias(const struct options *o)
{
    return o->lists[LIST_SEQUENCE_BIAS] != NULL;
}

static bool has_encoder_repetition_penalty(const struct options *o)
{
    return o->encoder_repetition_penalty != 1;
}

static bool has_repetition_penalty(const struct options *o)
{
    return o->repetition_penalty != 1;
}

static bool has_no_repeat_ngram(const struct options *o)
{
    return o->no_repeat_ngram_size > 0;
}

static bool has_encoder_no_repeat_ngram(const struct options *o)
{
    return o->encoder_no_repeat_ngram_size > 0;
}

static bool has_bad_words(const struct options *o)
{
    return o->lists[LIST_BAD_WORDS] != NULL;
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
    return o->forced_eos_count > 0;
}

static bool has_remove_invalid(const struct options *o)
{
    return o->remove_invalid_values;
}

static bool has_exponential_decay(const struct options *o)
{
    return o->decay_factor != 1 && o->eos_count > 0;
}

static bool has_suppress(const struct options *o)
{
    return o->lists[LIST_SUPPRESS] != NULL;
}

static bool has_begin_suppress(const struct options *o)
{
    return o->lists[LIST_BEGIN_SUPPRESS] != NULL;
}

static bool has_allowed_tokens(const struct options *o)
{
    return o->lists[LIST_ALLOWED] != NULL;
}

static bool has_temperature(const struct options *o)
{
    return o->do_sample && o->temperature != 1;
}

static bool has_top_h(const struct options *o)
{
    return o->do_sample && o->top_h > 0;
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

static bool has_typical(const struct options *o)
{
    return o->do_sample && o->typical_p < 1;
}

static bool has_epsilon(const struct options *o)
{
    return o->do_sample && o->epsilon_cutoff > 0;
}

static bool has_eta(const struct options *o)
{
    return o->do_sample && o->eta_cutoff > 0;
}

/* Only beams depend on the sum, which else is taken out where it matters: but in double, and of
 * the largest floats that would lose it. */
static bool has_renormalize(const struct options *o)
{
    return o->num_beams > 1 ? o->renormalize_logits : o->remove_invalid_values;
}

/* What a rule does to raw scores: how many it may lower. */
static size_t none(const struct options *o, size_t length, size_t source_count)
{
    (void)o, (void)length, (void)source_count;
    return 0;
}

static size_t any(const struct options *o, size_t length, size_t source_count)
{
    (void)o, (void)length, (void)source_count;
    return SIZE_MAX;
}

static size_t history(const struct options *o, size_t length, size_t source_count)
{
    (void)o, (void)source_count;
    return length;
}

static size_t penalized(const struct options *o, size_t length, size_t source_count)
{
    (void)source_count;
    return o->repetition_penalty >= 1 ? length : SIZE_MAX;
}

static size_t source(const struct options *o, size_t length, size_t source_count)
{
    (void)o, (void)length;
    return source_count;
}

static size_t ends(const struct options *o, size_t length, size_t source_count)
{
    (void)length, (void)source_count;
    return o->eos_count;
}

static size_t bad_words(const struct options *o, size_t length, size_t source_count)
{
    (void)length, (void)source_count;
    return o->lists[LIST_BAD_WORDS]->count;
}

static size_t suppressed(const struct options *o, size_t length, size_t source_count)
{
    (void)length, (void)source_count;
    return o->lists[LIST_SUPPRESS]->count;
}

static size_t begin_suppressed(const struct options *o, size_t length, size_t source_count)
{
    (void)length, (void)source_count;
    return o->lists[LIST_BEGIN_SUPPRESS]->count;
}

/* Warpers behind top_k see its survivors alone; without top_k nothing is screened. */
static const struct rule {
    bool (*active)(const struct options *options);
    void (*apply)(const struct rule_call *call);
    size_t (*lowered)(const struct options *options, size_t length, size_t source_count);
} table[] = {
    { has_sequence_bias, processor_sequence_bias, any },
    { has_encoder_repetition_penalty, processor_encoder_repetition_penalty, any },
    { has_repetition_penalty, processor_repetition_penalty, penalized },
    { has_no_repeat_ngram, processor_no_repeat_ngram, history },
    { has_encoder_no_repeat_ngram, processor_encoder_no_repeat_ngram, source },
    { has_bad_words, processor_bad_words, bad_words },
    { has_min_length, processor_min_length, ends },
    { has_forced_bos, processor_forced_bos, none },
    { has_forced_eos, processor_forced_eos, none },
    { has_remove_invalid, processor_remove_invalid, any },
    { has_exponential_decay, processor_exponential_decay, any },
    { has_suppress, processor_suppress, suppressed },
    { has_begin_suppress, processor_begin_suppress, begin_suppressed },
    { has_allowed_tokens, processor_allowed_tokens, any },
    { has_temperature, warper_temperature, none },
    { has_top_h, warper_top_h, any },
    { has_top_k, warper_top_k, none },
    { has_top_p, warper_top_p, none },
    { has_min_p, warper_min_p, none },
    { has_typical, warper_typical, none },
    { has_epsilon, warper_epsilon, none },
    { has_eta, warper_eta, none },
    { has_renormalize, warper_renormalize, none },
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

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

struct rules_scratch rules_scratch(const struct options *options, size_t V, size_t source_count)
{
    struct rules_scratch scratch = { 0 };
    if (has_repetition_penalty(options))
        scratch.floats = options->max_length;
    if (has_encoder_repetition_penalty(options))
        scratch.floats = larger(scratch.floats, source_count);
    if (has_allowed_tokens(options))
        scratch.floats =
            larger(scratch.floats, options->lists[LIST_ALLOWED]->count + options->eos_count);
    if (has_top_k(options))
        scratch.ranked = smaller(options->top_k, V);
    if (has_top_h(options))
        scratch.ranked = larger(scratch.ranked, smaller(TOP_H_CANDIDATES, V));
    if (has_top_p(options) || has_typical(options))
        scratch.weighed = V;
    return scratch;
}

void rules_apply(const struct rules *rules, const struct rule_call *call)
{
    for (size_t i = 0; i < rules->count; i++)
        rules->apply[i](call);
}

size_t rules_lowered(const struct options *options, size_t length, size_t source_count)
{
    size_t sum = 0;
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        const size_t lowered =
            table[i].active(options) ? table[i].lowered(options, length, source_count) : 0;
        if (__builtin_add_overflow(sum, lowered, &sum))
            return SIZE_MAX;
    }
    return sum;
}
