/* logits.h — scores over a vocabulary, V ≥ 1: their sum, their best, their log-softmax.
 *
 * Sums are taken in double precision and in one fixed order.  −Inf is a token that a rule removed.
 * Pure functions, safe from any thread. */
#ifndef SEARCH_LOGITS_H
#define SEARCH_LOGITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernels;

struct token_logprob {
    int32_t id; /* −1: no token */
    float logprob;
};

/* No NaN, no +Inf, and at least one that is not −Inf. */
bool logits_usable(const struct kernels *kernels, const float *scores, size_t V);

/* The largest; −Inf when all are, NaN if one is. */
float logits_max(const struct kernels *kernels, const float *scores, size_t V);

/* The id of the largest; the lowest of equal ones. */
size_t logits_argmax(const struct kernels *kernels, const float *scores, size_t V);

/* ln Σ exp(scores); −Inf when all are.  Relative error of the sum below 1e-6. */
double logits_log_sum_exp(const struct kernels *kernels, const float *scores, size_t V);

/* scores −= their log_sum_exp; at least one must not be −Inf. */
void logits_log_softmax(const struct kernels *kernels, float *scores, size_t V);

/* The `count` ≥ 1 best, best first, the lower id first of equal ones; log-probability = score −
 * log_sum.  Tokens that a rule removed are left out, also where remove_invalid_values has made the
 * lowest float of their −Inf.  Places for which no token is left have id −1. */
void logits_top(const struct kernels *kernels, const float *scores, size_t V, double log_sum,
                struct token_logprob *out, size_t count);

#endif
