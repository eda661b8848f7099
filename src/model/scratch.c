#include "scratch.h"

#include "attention.h"
#include "linear.h"
#include "screen.h"

static size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Of the largest group of products over M rows: q, k and v may have inputs of their own. */
static size_t products_scratch_bytes(const struct model_config *c, const struct stack_shape *shape,
                                     size_t M)
{
    const size_t widest = greater(shape->heads * shape->value_width, shape->inner_width);
    return greater(PROJECTIONS_MAX * linear_scratch_bytes(M, c->width),
                   linear_scratch_bytes(M, widest));
}

size_t layer_scratch_bytes(const struct model_config *c, const struct stack_shape *shape, size_t M)
{
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const size_t projections = arena_need(M * c->width, sizeof(float)) +
                               2 * arena_need(M * keys, sizeof(float)) +
                               2 * arena_need(M * values, sizeof(float));
    const size_t inner = arena_need(M * c->width, sizeof(float)) +
                         (c->gated ? 2 : 1) * arena_need(M * shape->inner_width, sizeof(float));
    return greater(projections, inner) + products_scratch_bytes(c, shape, M) +
           arena_need(c->width, sizeof(float));
}

size_t encoder_member_bytes(const struct model_config *c, size_t row_max)
{
    return layer_scratch_bytes(c, &c->encoder, MEMBER_TOKENS) +
           arena_need(attention_scratch_bytes(&c->encoder, row_max), 1);
}

size_t pass_scratch_bytes(const struct model_config *c, size_t M, size_t source_max,
                          size_t target_max, size_t members)
{
    const size_t keys_max = greater(source_max, target_max);
    const size_t decoder = layer_scratch_bytes(c, &c->decoder, M) + screen_scratch_bytes(c, M) +
                           members * arena_need(attention_scratch_bytes(&c->decoder, keys_max), 1);
    return greater(decoder, members * encoder_member_bytes(c, source_max));
}
