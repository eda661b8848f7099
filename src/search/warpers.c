#include <math.h>

#include "rules.h"
#include "search/logits.h"

/* TemperatureLogitsWarper, taken relative to the best score: the distribution is the same and a
 * tiny temperature cannot overflow to +Inf. */
void warper_temperature(const struct rule_call *call)
{
    const float max = logits_max(call->scores, call->V);
    const float temperature = (float)call->options->temperature;
    if (max == -INFINITY)
        return;
    for (size_t v = 0; v < call->V; v++)
        call->scores[v] = (call->scores[v] - max) / temperature;
}

static void remove_below(const struct rule_call *call, double cutoff)
{
    for (size_t v = 0; v < call->V; v++)
        call->scores[v] = (double)call->scores[v] < cutoff ? -INFINITY : call->scores[v];
}

/* TopKLogitsWarper: scores equal to the k-th stay, so more than k may. */
void warper_top_k(const struct rule_call *call)
{
    const size_t k = call->options->top_k < call->V ? call->options->top_k : call->V;
    struct ranking ranking = { .items = call->ranked, .capacity = k };
    for (size_t v = 0; v < call->V; v++)
        ranking_offer(&ranking, call->scores[v], (uint32_t)v);
    remove_below(call, (double)ranking.items[0].score);
}

/* Whether a token stays when better ones have the probability `above`: it goes when it and all
 * worse ones sum to at most 1 − top_p.  The best one never goes. */
static bool stays(const struct options *options, double above)
{
    return above == 0 || (float)(1 - above) > (float)(1 - options->top_p);
}

static float median(float a, float b, float c)
{
    const float low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

static void swap(float *a, float *b)
{
    const float kept = *a;
    *a = *b;
    *b = kept;
}

/* Moves what is above the pivot to the front of [first, end) and what is below to the back.  What
 * equals it begins at *equal and ends before *below; *mass is the probability of what is above. */
static void part(float *scores, size_t first, size_t end, float pivot, double log_sum,
                 size_t *equal, size_t *below, double *mass)
{
    *equal = first;
    *below = end;
    *mass = 0;
    for (size_t i = first; i < *below;) {
        if (scores[i] > pivot) {
            *mass += exp((double)scores[i] - log_sum);
            swap(&scores[i++], &scores[(*equal)++]);
        } else if (scores[i] < pivot) {
            swap(&scores[i], &scores[--*below]);
        } else {
            i++;
        }
    }
}

/* The worst score of which a token stays, and in *above the probability of the better ones: a
 * quickselect by probability, linear where a sort is not.  Reorders `scores`. */
static float nucleus_edge(const struct options *options, float *scores, size_t count,
                          double log_sum, double *above)
{
    size_t first = 0, end = count;
    *above = 0;
    for (;;) {
        const float pivot =
            median(scores[first], scores[first + (end - first) / 2], scores[end - 1]);
        size_t equal, below;
        double mass;
        part(scores, first, end, pivot, log_sum, &equal, &below, &mass);
        if (equal > first && !stays(options, *above + mass)) {
            end = equal;
            continue;
        }
        *above += mass;
        mass = (double)(below - equal) * exp((double)pivot - log_sum);
        if (below == end || !stays(options, *above + mass))
            return pivot;
        *above += mass;
        first = below;
    }
}

/* TopPLogitsWarper.  (The reference's sort leaves the order of equal scores open; here the lower id
 * is the better one.) */
void warper_top_p(const struct rule_call *call)
{
    const double log_sum = logits_log_sum_exp(call->scores, call->V);
    size_t count = 0;
    for (size_t v = 0; v < call->V; v++)
        if (call->scores[v] > -INFINITY)
            call->scratch[count++] = call->scores[v];
    if (count == 0)
        return;
    double above;
    const float edge = nucleus_edge(call->options, call->scratch, count, log_sum, &above);
    const double step = exp((double)edge - log_sum);
    for (size_t v = 0; v < call->V; v++) {
        const bool at_edge = call->scores[v] == edge;
        if (call->scores[v] < edge || (at_edge && !stays(call->options, above)))
            call->scores[v] = -INFINITY;
        if (at_edge)
            above += step;
    }
}

/* MinPLogitsWarper: p < min_p · p_best, compared as logarithms. */
void warper_min_p(const struct rule_call *call)
{
    remove_below(call, (double)logits_max(call->scores, call->V) + log(call->options->min_p));
}
