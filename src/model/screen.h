/* screen.h — the best logits found by integers of 8 bits and then computed exactly.  Private to
 * src/model.
 *
 * Let w be a row of the output layer, h a state, w' and h' what rounding to int8 makes of them.
 *   |w·h − w'·h'| ≤ |w − w'| |h| + |w'| |h − h'|            (Cauchy and Schwarz, twice),
 * and these lengths are known: those of w from the packed file, those of h at each step.  Together
 * with a bound for the rounding of both sums this makes an interval around every w'·h'.  Rows whose
 * interval ends below the beginnings of the T highest cannot be among the T best; the others, a
 * handful, are computed from the stored weights in gemm()'s own order. */
#ifndef MODEL_SCREEN_H
#define MODEL_SCREEN_H

#include "model/forward.h"

/* Whether the `needed` best logits of a state x (D) can be found so. */
bool screen_possible(const struct pass *pass, const float *x, size_t needed);

/* Logits (M, V) of states x (M, D): the needed[m] best of row m are right, and so is what equals
 * them; most others are −Inf. */
void screen_logits(const struct pass *pass, const float *x, size_t M, const size_t *needed,
                   float *logits);

/* Scratch that it takes. */
size_t screen_scratch_bytes(const struct model_config *config, size_t M);

#endif
