/* linear.h — the products with a model's weights, shared by a team.  Private to src/model. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include "model/forward.h"

/* y (M, out) = x (M, in) · wᵀ + bias. */
struct projection {
    const struct linear *linear;
    const float *x;
    float *y;
};

enum { PROJECTIONS_MAX = 3 };

/* Several at once, of M rows each, at most PROJECTIONS_MAX; no y is another's x. */
void linear_group(const struct pass *pass, const struct projection *projections, size_t count,
                  size_t M);

/* One alone. */
void linear(const struct pass *pass, const struct linear *linear, const float *x, size_t M,
            float *y);

/* Scratch that either takes for M rows and at most `width` (together `widths`) inputs. */
size_t linear_scratch_bytes(size_t M, size_t width);

#endif
