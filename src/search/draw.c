#include "draw.h"

#include <math.h>

/* The finaliser of splitmix64: every bit of the input moves every bit of the output. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

double draw_uniform(uint64_t seed, uint64_t sequence, uint64_t step)
{
    return (double)(mix(mix(mix(seed) ^ sequence) ^ step) >> 11) * 0x1p-53;
}

size_t draw_token(const float *scores, size_t V, double log_sum, double uniform)
{
    double sum = 0;
    size_t last = 0;
    for (size_t v = 0; v < V; v++) {
        if (scores[v] == -INFINITY)
            continue;
        const double probability = exp((double)scores[v] - log_sum);
        last = probability > 0 ? v : last;
        sum += probability;
        if (sum > uniform)
            break;
    }
    /* Rounding can leave the sum a hair below 1. */
    return last;
}
