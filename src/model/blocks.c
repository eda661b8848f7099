#include "blocks.h"

#include <math.h>

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

/* Mean and variance in double: a long row of equal numbers must not get a variance of rounding. */
void norm_rows(const struct pass *pass, const struct norm *norm, const float *x, size_t M, float *y)
{
    const size_t D = pass->model->config.width;
    const double eps = (double)pass->model->config.norm_eps;
    const bool unbiased = pass->model->config.norm_kind == NORM_LAYER_UNBIASED;
    for (size_t m = 0; m < M; m++, x += D, y += D) {
        double sum = 0.0, squares = 0.0;
        for (size_t i = 0; i < D; i++)
            sum += (double)x[i];
        const double mean = sum / (double)D;
        for (size_t i = 0; i < D; i++)
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double spread =
            unbiased ? sqrt(squares / (double)(D - 1)) + eps : sqrt(squares / (double)D + eps);
        const float center = (float)mean, scale = (float)(1.0 / spread);
        for (size_t i = 0; i < D; i++)
            y[i] = (x[i] - center) * scale * norm->weight[i] + norm->bias[i];
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

void activate(enum activation activation, float *x, size_t count)
{
    switch (activation) {
    case ACTIVATION_RELU: /* a NaN stays one */
        for (size_t i = 0; i < count; i++)
            x[i] = x[i] < 0.0f ? 0.0f : x[i];
        break;
    case ACTIVATION_GELU:
        for (size_t i = 0; i < count; i++)
            x[i] = gelu(x[i]);
        break;
    case ACTIVATION_GELU_TANH:
        for (size_t i = 0; i < count; i++)
            x[i] = gelu_tanh(x[i]);
        break;
    case ACTIVATION_SILU:
        for (size_t i = 0; i < count; i++)
            x[i] = x[i] / (1.0f + expf(-x[i]));
        break;
    }
}

static const void *matrix_row(const struct matrix *matrix, size_t row)
{
    return (const char *)matrix->data + row * matrix->columns * dtype_bytes(matrix->dtype);
}

void embed_token(const struct pass *pass, const struct stack *stack, int32_t token, size_t position,
                 float *x)
{
    const size_t D = pass->model->config.width;
    const float scale = pass->model->config.embedding_scale;
    const size_t mark = arena_mark(pass->arena);
    float *place = arena_take(pass->arena, D, sizeof *place);
    pass->kernels->widen(matrix_row(&stack->tokens, (size_t)token), stack->tokens.dtype, x, D);
    if (stack->positions.data)
        pass->kernels->widen(matrix_row(&stack->positions, position), stack->positions.dtype, place,
                             D);
    for (size_t i = 0; i < D; i++)
        x[i] = x[i] * scale + (stack->positions.data ? place[i] : 0.0f);
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

void feed_forward(const struct pass *pass, const struct layer *layer, float *x, size_t M)
{
    const struct model_config *c = &pass->model->config;
    const size_t mark = arena_mark(pass->arena);
    float *y = arena_take(pass->arena, M * c->width, sizeof *y);
    float *inner = arena_take(pass->arena, M * c->inner_width, sizeof *inner);
    linear(pass, &layer->ffn_in, sublayer_open(pass, &layer->ffn_norm, x, M, y), M, inner);
    activate(c->activation, inner, M * c->inner_width);
    linear(pass, &layer->ffn_out, inner, M, y);
    sublayer_close(pass, &layer->ffn_norm, x, y, M);
    arena_release(pass->arena, mark);
}
