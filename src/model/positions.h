/* positions.h — what a token's place means: its position, its embedding, and the bias of a
 * distance.  Private to src/model. */
#ifndef MODEL_POSITIONS_H
#define MODEL_POSITIONS_H

#include "model/forward.h"

/* The position of the token at `index` of a hypothesis whose first `prefix_count` tokens were not
 * generated. */
size_t target_position(const struct model_config *config, const int32_t *tokens, size_t index,
                       size_t prefix_count);

/* row (D) = row `index` of the computed table of `kind`; its padding is row `pad_row`. */
void sinusoids(enum position_kind kind, size_t index, size_t pad_row, float *row, size_t D);

/* buckets (2R + 1) of struct stack; `causal`: keys lie before their query. */
void relative_buckets(const struct model_config *config, bool causal, uint16_t *buckets);

#endif
