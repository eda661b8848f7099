/* Rules that narrow or flatten the distribution that a sample is drawn from. */
#include <math.h>

#include "rules.h"
#include "search/logits.h"

/* TemperatureLogitsWarper, taken relative to the best score: the distribution is the same and a
 * tiny temperature cannot overflow to +Inf. */
void warper_temperature(const struct rule_call *call)
{
    const float max = logits_max(call->kernels, call->scores, call->V);
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
    ranking_offer_row(&ranking, call->kernels, call->scores, call->V, 0.0f, 0);
    remove_below(call, (double)ranking.items[0].score);
}

/* −Σ p·ln p over what is not removed. */
static double entropy(const float *scores, size_t V, double log_sum)
{
    double sum = 0;
    for (size_t v = 0; v < V; v++) {
        const double probability = exp((double)scores[v] - log_sum);
        if (probability > 0)
            sum += probability * (log_sum - (double)scores[v]);
    }
    return sum;
}

/* TopHLogitsWarper: of the TOP_H_CANDIDATES best, as many as have no more than top_h of their
 * entropy; the best one always. */
void warper_top_h(const struct rule_call *call)
{
    const size_t most = TOP_H_CANDIDATES < call->V ? TOP_H_CANDIDATES : call->V;
    struct ranking ranking = { .items = call->ranked, .capacity = most };
    ranking_offer_row(&ranking, call->kernels, call->scores, call->V, 0.0f, 0);
    ranking_sort(&ranking);
    float best[TOP_H_CANDIDATES];
    for (size_t i = 0; i < most; i++)
        best[i] = ranking.items[i].score;
    const double log_sum = logits_log_sum_exp(call->kernels, best, most);
    const double bound = call->options->top_h * entropy(best, most, log_sum);
    double sum = 0;
    for (size_t v = 0; v < call->V; v++)
        call->scores[v] = -INFINITY;
    for (size_t i = 0; i < most && best[i] > -INFINITY; i++) {
        sum += entropy(&best[i], 1, log_sum);
        if (i > 0 && sum > bound)
            break;
        call->scores[ranking.items[i].id] = best[i];
    }
}

/* Whether a token stays when better ones have the probability `above`: it goes when it and all
 * worse ones sum to at most 1 − share.  The best one never goes. */
static bool stays(double share, double above)
{
    return above == 0 || (float)(1 - above) > (float)(1 - share);
}

static float median(float a, float b, float c)
{
    const float low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

static void swap(struct weighed *a, struct weighed *b)
{
    const struct weighed kept = *a;
    *a = *b;
    *b = kept;
}

/* Moves what is above the pivot to the front of [first, end) and what is below to the back.  What
 * equals it begins at *equal and ends before *below.  Both masses are probabilities. */
static void part(struct weighed *items, size_t first, size_t end, float pivot, size_t *equal,
                 size_t *below, double *above_mass, double *equal_mass)
{
    *equal = first;
    *below = end;
    *above_mass = *equal_mass = 0;
    for (size_t i = first; i < *below;) {
        if (items[i].key > pivot) {
            *above_mass += (double)items[i].mass;
            swap(&items[i++], &items[(*equal)++]);
        } else if (items[i].key < pivot) {
            swap(&items[i], &items[--*below]);
        } else {
            *equal_mass += (double)items[i++].mass;
        }
    }
}

/* The worst key of which a token stays, and in *above the probability of the better ones: a
 * quickselect by probability, linear where a sort is not.  Reorders `items`. */
static float edge_of_share(double share, struct weighed *items, size_t count, double *above)
{
    size_t first = 0, end = count;
    *above = 0;
    for (;;) {
        const float pivot =
            median(items[first].key, items[first + (end - first) / 2].key, items[end - 1].key);
        size_t equal, below;
        double above_mass, equal_mass;
        part(items, first, end, pivot, &equal, &below, &above_mass, &equal_mass);
        if (equal > first && !stays(share, *above + above_mass)) {
            end = equal;
            continue;
        }
        *above += above_mass;
        if (below == end || !stays(share, *above + equal_mass))
            return pivot;
        *above += equal_mass;
        first = below;
    }
}

/* TopPLogitsWarper.  (The reference's sort leaves the order of equal scores open; here the lower id
 * is the better one.) */
void warper_top_p(const struct rule_call *call)
{
    const double share = call->options->top_p;
    const double log_sum = logits_log_sum_exp(call->kernels, call->scores, call->V);
    size_t count = 0;
    for (size_t v = 0; v < call->V; v++)
        if (call->scores[v] > -INFINITY)
            call->weighed[count++] =
                (struct weighed){ .key = call->scores[v],
                                  .mass = (float)exp((double)call->scores[v] - log_sum) };
    if (count == 0)
        return;
    double above;
    const float edge = edge_of_share(share, call->weighed, count, &above);
    const double step = exp((double)edge - log_sum);
    for (size_t v = 0; v < call->V; v++) {
        const bool at_edge = call->scores[v] == edge;
        if (call->scores[v] < edge || (at_edge && !stays(share, above)))
            call->scores[v] = -INFINITY;
        if (at_edge)
            above += step;
    }
}

/* How far the token's surprise is from the expected one, negative: the nearest is the best. */
static float nearness(float score, double log_sum, double expected)
{
    return -fabsf((float)(log_sum - (double)score) - (float)expected);
}

/* TypicalLogitsWarper: the most typical tokens that together have typical_p, and all that are as
 * typical as the last of them. */
void warper_typical(const struct rule_call *call)
{
    const double log_sum = logits_log_sum_exp(call->kernels, call->scores, call->V);
    const double expected = entropy(call->scores, call->V, log_sum);
    size_t count = 0;
    for (size_t v = 0; v < call->V; v++)
        if (call->scores[v] > -INFINITY)
            call->weighed[count++] = (struct weighed){
                .key = nearness(call->scores[v], log_sum, expected),
                .mass = (float)exp((double)call->scores[v] - log_sum),
            };
    if (count == 0)
        return;
    double above;
    const float edge = edge_of_share(call->options->typical_p, call->weighed, count, &above);
    for (size_t v = 0; v < call->V; v++)
        if (nearness(call->scores[v], log_sum, expected) < edge)
            call->scores[v] = -INFINITY;
}

/* Tokens less probable than the cutoff go; the best one never does. */
static void remove_improbable(const struct rule_call *call, double log_sum, double log_cutoff)
{
    const double best = (double)logits_max(call->kernels, call->scores, call->V),
                 cutoff = log_sum + log_cutoff;
    remove_below(call, cutoff < best ? cutoff : best);
}

/* MinPLogitsWarper: p < min_p · p_best, compared as logarithms. */
void warper_min_p(const struct rule_call *call)
{
    remove_below(call, (double)logits_max(call->kernels, call->scores, call->V) +
                           log(call->options->min_p));
}

/* EpsilonLogitsWarper */
void warper_epsilon(const struct rule_call *call)
{
    remove_improbable(call, logits_log_sum_exp(call->kernels, call->scores, call->V),
                      log(call->options->epsilon_cutoff));
}

/* EtaLogitsWarper: min(ε, √ε · exp(−entropy)). */
void warper_eta(const struct rule_call *call)
{
    const double log_epsilon = log(call->options->eta_cutoff);
    const double log_sum = logits_log_sum_exp(call->kernels, call->scores, call->V);
    const double log_eta = log_epsilon / 2 - entropy(call->scores, call->V, log_sum);
    remove_improbable(call, log_sum, log_epsilon < log_eta ? log_epsilon : log_eta);
}

/* LogitNormalization */
void warper_renormalize(const struct rule_call *call)
{
    if (logits_max(call->kernels, call->scores, call->V) > -INFINITY)
        logits_log_softmax(call->kernels, call->scores, call->V);
}
