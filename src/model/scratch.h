/* scratch.h — how much scratch the parts of a pass take.  Private to src/model. */
#ifndef MODEL_SCRATCH_H
#define MODEL_SCRATCH_H

#include "model/forward.h"

/* Activations of one layer over M tokens, and what its largest group of products takes. */
size_t layer_scratch_bytes(const struct model_config *config, const struct stack_shape *shape,
                           size_t M);

/* Of one member in encoder_run(), for rows of at most `row_max` tokens. */
enum { MEMBER_TOKENS = 128 }; /* that it transforms at once: enough for fast products */
size_t encoder_member_bytes(const struct model_config *config, size_t row_max);

#endif
