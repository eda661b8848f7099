#include "blocks.h"

#include <math.h>

#include "positions.h"

void linear(const struct pass *pass, const struct linear *linear, const float *x, size_t M,
            float *y)
{
    pass->kernels->gemm(&(struct gemm){ .x = x,
                                        .x_stride = linear->w.columns,
                                        .M = M,
                                        .w = linear->w,
                                        .bias = linear->bias,
                                        .y = y,
                                        .y_stride = linear->w.rows,
                                        .end = linear->w.rows });
}

/* y (D) = (x − center) · scale · weight + bias. */
static void scale_row(const struct norm *norm, const float *x, size_t D, float center, float scale,
                      float *y)
{
    if (!norm->bias) {
        for (size_t i = 0; i < D; i++)
            y[i] = (x[i] - center) * scale * norm->weight[i];
        return;
    }
    for (size_t i = 0; i < D; i++)
        y[i] = (x[i] - center) * scale * norm->weight[i] + norm->bias[i];
}

/* Mean and variance in double: a long row of equal numbers must not get a variance of rounding. */
void norm_rows(const struct pass *pass, const struct norm *norm, const float *x, size_t M, float *y)
{
    const size_t D = pass->model->config.width;
    const double eps = (double)pass->model->config.norm_eps;
    const enum norm_kind kind = pass->model->config.norm_kind;
    for (size_t m = 0; m < M; m++, x += D, y += D) {
        double sum = 0.0, squares = 0.0;
        for (size_t i = 0; i < D && kind != NORM_RMS; i++)
            sum += (double)x[i];
        const double mean = sum / (double)D;
        for (size_t i = 0; i < D; i++)
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double spread = kind == NORM_LAYER_UNBIASED ? sqrt(squares / (double)(D - 1)) + eps
                                                          : sqrt(squares / (double)D + eps);
        scale_row(norm, x, D, (float)mean, (float)(1.0 / spread), y);
    }
}

static float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

static float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static float silu(float x)
{
    return x / (1.0f + expf(-x));
}

static float gelu_quick(float x)
{
    return x * sigmoid(1.702f * x);
}

/* A NaN stays one. */
static float relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

static float relu6(float x)
{
    return x > 6.0f ? 6.0f : relu(x);
}

static float relu_squared(float x)
{
    return relu(x) * relu(x);
}

static inline void each(float (*function)(float), float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = function(x[i]);
}

void activate(enum activation activation, float *x, size_t count)
{
    switch (activation) {
    case ACTIVATION_RELU:
        each(relu, x, count);
        break;
    case ACTIVATION_GELU:
        each(gelu, x, count);
        break;
    case ACTIVATION_GELU_TANH:
        each(gelu_tanh, x, count);
        break;
    case ACTIVATION_SILU:
        each(silu, x, count);
        break;
    case ACTIVATION_GELU_QUICK:
        each(gelu_quick, x, count);
        break;
    case ACTIVATION_TANH:
        each(tanhf, x, count);
        break;
    case ACTIVATION_SIGMOID:
        each(sigmoid, x, count);
        break;
    case ACTIVATION_RELU6:
        each(relu6, x, count);
        break;
    case ACTIVATION_RELU_SQUARED:
        each(relu_squared, x, count);
        break;
    }
}

static const void *matrix_row(const struct matrix *matrix, size_t row)
{
    return (const char *)matrix->data + row * matrix->columns * dtype_bytes(matrix->dtype);
}

/* place (D) = what is added at `position`; computed where the table has no row. */
static void embed_position(const struct pass *pass, const struct stack *stack, size_t position,
                           float *place)
{
    const struct model_config *c = &pass->model->config;
    const size_t row = position + c->position_offset;
    if (row < stack->positions.rows)
        pass->kernels->widen(matrix_row(&stack->positions, row), stack->positions.dtype, place,
                             c->width);
    else
        sinusoids(c->position_kind, row, c->position_offset, place, c->width);
}

void embed_token(const struct pass *pass, const struct stack *stack, int32_t token, size_t position,
                 float *x)
{
    const struct model_config *c = &pass->model->config;
    const struct norm *norm = stack->embedding_norm.weight ? &stack->embedding_norm : NULL;
    const bool norm_first = c->embedding_norm_first && stack == &pass->model->decoder;
    const float scale = norm_first ? 1.0f : c->embedding_scale;
    const size_t D = c->width, mark = arena_mark(pass->arena);
    float *place = arena_take(pass->arena, D, sizeof *place);
    pass->kernels->widen(matrix_row(&stack->tokens, (size_t)token), stack->tokens.dtype, x, D);
    for (size_t i = 0; i < D; i++)
        x[i] = x[i] * scale + (stack->token_type ? stack->token_type[i] : 0.0f);
    if (norm && norm_first)
        norm_rows(pass, norm, x, 1, x);
    if (c->position_kind != POSITION_NONE) {
        embed_position(pass, stack, position, place);
        for (size_t i = 0; i < D; i++)
            x[i] += place[i];
    }
    if (norm && !norm_first)
        norm_rows(pass, norm, x, 1, x);
    arena_release(pass->arena, mark);
}

const float *sublayer_open(const struct pass *pass, const struct norm *norm, const float *x,
                           size_t M, float *normed)
{
    if (pass->model->config.norm_position == NORM_POST)
        return x;
    norm_rows(pass, norm, x, M, normed);
    return normed;
}

void sublayer_close(const struct pass *pass, const struct norm *norm, float *x, const float *y,
                    size_t M)
{
    const size_t count = M * pass->model->config.width;
    for (size_t i = 0; i < count; i++)
        x[i] += y[i];
    if (pass->model->config.norm_position == NORM_POST)
        norm_rows(pass, norm, x, M, x);
}

void feed_forward(const struct pass *pass, const struct layer *layer, size_t F, float *x, size_t M)
{
    const struct model_config *c = &pass->model->config;
    const size_t mark = arena_mark(pass->arena);
    float *y = arena_take(pass->arena, M * c->width, sizeof *y);
    float *inner = arena_take(pass->arena, M * F, sizeof *inner);
    const float *input = sublayer_open(pass, &layer->ffn_norm, x, M, y);
    linear(pass, &layer->ffn_in, input, M, inner);
    activate(c->activation, inner, M * F);
    if (c->gated) {
        float *gate = arena_take(pass->arena, M * F, sizeof *gate);
        linear(pass, &layer->ffn_gate, input, M, gate);
        for (size_t i = 0; i < M * F; i++)
            inner[i] *= gate[i];
    }
    linear(pass, &layer->ffn_out, inner, M, y);
    sublayer_close(pass, &layer->ffn_norm, x, y, M);
    arena_release(pass->arena, mark);
}
