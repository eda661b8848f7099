#include "blocks.h"

#include "base/team.h"
#include "positions.h"

void norm_rows(const struct pass *pass, const struct norm *norm, const float *x, size_t M, float *y)
{
    const struct model_config *c = &pass->model->config;
    const struct row_norm row = { .kind = c->norm_kind,
                                  .eps = (double)c->norm_eps,
                                  .weight = norm->weight,
                                  .bias = norm->bias,
                                  .n = c->width };
    for (size_t m = 0; m < M; m++)
        pass->kernels->normalize(&row, x + m * row.n, y + m * row.n);
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
    pass->kernels->axpy(1.0f, y, x, M * pass->model->config.width);
    if (pass->model->config.norm_position == NORM_POST)
        norm_rows(pass, norm, x, M, x);
}

/* Fewer are done before a helper could begin; members have whole cache lines and vectors. */
enum { SHARED_ACTIVATIONS_MIN = 1 << 13, ACTIVATIONS_STEP = 64 };

struct activations {
    const struct pass *pass;
    float *x;
    const float *factor; /* or NULL */
    size_t count;
};

static void share_activations(void *context, size_t member, size_t members)
{
    const struct activations *a = context;
    size_t first, end;
    team_share(a->count, ACTIVATIONS_STEP, member, members, &first, &end);
    if (first < end)
        a->pass->kernels->activate(a->pass->model->config.activation, a->x + first,
                                   a->factor ? a->factor + first : NULL, end - first);
}

void feed_forward(const struct pass *pass, const struct layer *layer, size_t F, float *x, size_t M)
{
    const struct model_config *c = &pass->model->config;
    const size_t mark = arena_mark(pass->arena);
    float *y = arena_take(pass->arena, M * c->width, sizeof *y);
    float *inner = arena_take(pass->arena, M * F, sizeof *inner);
    const float *input = sublayer_open(pass, &layer->ffn_norm, x, M, y);
    float *gate = c->gated ? arena_take(pass->arena, M * F, sizeof *gate) : NULL;
    const struct projection projections[] = { { &layer->ffn_in, input, inner },
                                              { &layer->ffn_gate, input, gate } };
    linear_group(pass, projections, c->gated ? 2 : 1, M);
    struct activations activations = { pass, inner, gate, M * F };
    team_run(M * F < SHARED_ACTIVATIONS_MIN ? NULL : pass->team, share_activations, &activations);
    linear(pass, &layer->ffn_out, inner, M, y);
    sublayer_close(pass, &layer->ffn_norm, x, y, M);
    arena_release(pass->arena, mark);
}
