#include "search/logits.h"

#include <math.h>

#include "kernels/kernels.h"

/* Far below any model's score, far above the lowest float. */
#define REMOVED (-1e30f)

bool logits_usable(const struct kernels *kernels, const float *scores, size_t V)
{
    return isfinite(kernels->max(scores, V));
}

float logits_max(const struct kernels *kernels, const float *scores, size_t V)
{
    return kernels->max(scores, V);
}

/* From best to better: in scores of no order few are. */
size_t logits_argmax(const struct kernels *kernels, const float *scores, size_t V)
{
    size_t best = 0;
    for (size_t v = 0; v < V; v = kernels->find_above(scores, v + 1, V, 0.0f, scores[v]))
        best = v;
    return best;
}

double logits_log_sum_exp(const struct kernels *kernels, const float *scores, size_t V)
{
    const float max = kernels->max(scores, V);
    if (max == -INFINITY)
        return (double)max;
    return (double)max + log(kernels->sum_exp(scores, V, max));
}

/* The largest float swallows what is added to it, so the maximum goes first. */
void logits_log_softmax(const struct kernels *kernels, float *scores, size_t V)
{
    const float max = kernels->max(scores, V);
    kernels->subtract(scores, V, (double)max, log(kernels->sum_exp(scores, V, max)));
}

void logits_top(const struct kernels *kernels, const float *scores, size_t V, double log_sum,
                struct token_logprob *out, size_t count)
{
    size_t filled = 0;
    for (size_t v = 0; v < V; v++) {
        if (filled == count)
            v = kernels->find_above(scores, v, V, 0.0f, out[count - 1].logprob);
        if (v == V || scores[v] < REMOVED)
            continue;
        size_t place = filled < count ? filled++ : count - 1;
        for (; place > 0 && out[place - 1].logprob < scores[v]; place--)
            out[place] = out[place - 1];
        out[place] = (struct token_logprob){ .id = (int32_t)v, .logprob = scores[v] };
    }
    for (size_t i = 0; i < filled; i++)
        out[i].logprob = (float)((double)out[i].logprob - log_sum);
    for (size_t i = filled; i < count; i++)
        out[i] = (struct token_logprob){ .id = -1 };
}
