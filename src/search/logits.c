#include "search/logits.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Independent lanes let the compiler use vectors without being allowed to reorder sums. */
enum { LANES = 16, BLOCK = 256 };

/* Far below any model's score, far above the lowest float. */
#define REMOVED (-1e30f)

bool logits_usable(const float *scores, size_t V)
{
    int bad = 0, finite = 0;
    for (size_t v = 0; v < V; v++) {
        bad |= !(scores[v] <= FLT_MAX);
        finite |= scores[v] >= -FLT_MAX;
    }
    return !bad && finite;
}

float logits_max(const float *scores, size_t V)
{
    float lanes[LANES];
    for (size_t j = 0; j < LANES; j++)
        lanes[j] = -INFINITY;
    size_t v = 0;
    for (; v + LANES <= V; v += LANES)
        for (size_t j = 0; j < LANES; j++)
            lanes[j] = scores[v + j] > lanes[j] ? scores[v + j] : lanes[j];
    for (; v < V; v++)
        lanes[0] = scores[v] > lanes[0] ? scores[v] : lanes[0];
    for (size_t j = 1; j < LANES; j++)
        lanes[0] = lanes[j] > lanes[0] ? lanes[j] : lanes[0];
    return lanes[0];
}

size_t logits_argmax(const float *scores, size_t V)
{
    const float max = logits_max(scores, V);
    size_t v = 0;
    while (v + 1 < V && scores[v] != max)
        v++;
    return v;
}

/* exp(x) for x ≤ 0, relative error below 3e-7; below −87 it stays at exp(−87), which no sum that
 * contains a 1 can notice.  Branch-free, so that loops over it become vectors. */
static inline float exp_nonpositive(float x)
{
    x = x < -87.0f ? -87.0f : x;
    const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* x / ln 2, rounded */
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;   /* ln 2 in two parts */
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t bits = ((int32_t)n + 127) * (1 << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* ln Σ exp(scores − max); max is not −Inf. */
static double log_sum_below(const float *scores, size_t V, float max)
{
    double lanes[LANES] = { 0 };
    for (size_t v = 0; v < V; v += BLOCK) {
        const size_t count = V - v < BLOCK ? V - v : BLOCK;
        float block[BLOCK] = { 0 };
        for (size_t j = 0; j < count; j++)
            block[j] = exp_nonpositive(scores[v + j] - max);
        for (size_t j = 0; j < BLOCK; j += LANES)
            for (size_t k = 0; k < LANES; k++)
                lanes[k] += (double)block[j + k];
    }
    double sum = 0;
    for (size_t j = 0; j < LANES; j++)
        sum += lanes[j];
    return log(sum);
}

double logits_log_sum_exp(const float *scores, size_t V)
{
    const float max = logits_max(scores, V);
    return max == -INFINITY ? (double)max : (double)max + log_sum_below(scores, V, max);
}

/* The largest float swallows what is added to it, so the maximum goes first. */
void logits_log_softmax(float *scores, size_t V)
{
    const float max = logits_max(scores, V);
    const double log_sum = log_sum_below(scores, V, max);
    for (size_t v = 0; v < V; v++)
        scores[v] = (float)((double)scores[v] - (double)max - log_sum);
}

void logits_top(const float *scores, size_t V, double log_sum, struct token_logprob *out,
                size_t count)
{
    size_t filled = 0;
    for (size_t v = 0; v < V; v++) {
        if (scores[v] < REMOVED || (filled == count && !(scores[v] > out[count - 1].logprob)))
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
