/* draw.h — random numbers that depend on their place alone. */
#ifndef SEARCH_DRAW_H
#define SEARCH_DRAW_H

#include <stddef.h>
#include <stdint.h>

/* A number of [0, 1), 53 bits, for that step of that sequence under that seed.  No state: the
 * number does not depend on what else was drawn. */
double draw_uniform(uint64_t seed, uint64_t sequence, uint64_t step);

/* An id with probability exp(score − log_sum), `uniform` deciding.  Never one that was removed; at
 * least one must be left. */
size_t draw_token(const float *scores, size_t V, double log_sum, double uniform);

#endif
