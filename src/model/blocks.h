/* blocks.h — the parts that encoder and decoder layers are made of.  Private to src/model. */
#ifndef MODEL_BLOCKS_H
#define MODEL_BLOCKS_H

#include "linear.h"
#include "model/forward.h"

/* y (M, D) = the model's kind of norm of x (M, D), row by row; y may be x. */
void norm_rows(const struct pass *pass, const struct norm *norm, const float *x, size_t M,
               float *y);

/* x (D) = the token's embedding, scaled, plus that of its position, with the stack's norm. */
void embed_token(const struct pass *pass, const struct stack *stack, int32_t token, size_t position,
                 float *x);

/* A sublayer f around its residual, by the model's norm position:
 *   post: x = norm(x + f(x));  pre: x = x + f(norm(x)).
 * open gives what f gets: x itself, or its norm in `normed` (M, D); close adds y = f(…) (M, D). */
const float *sublayer_open(const struct pass *pass, const struct norm *norm, const float *x,
                           size_t M, float *normed);
void sublayer_close(const struct pass *pass, const struct norm *norm, float *x, const float *y,
                    size_t M);

/* The feed-forward sublayer of a layer, F wide inside, whole: x (M, D) in place. */
void feed_forward(const struct pass *pass, const struct layer *layer, size_t F, float *x, size_t M);

#endif
