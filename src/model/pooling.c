/* The arithmetic of sentence.h: sums in double, so that a long row loses nothing. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "blocks.h"
#include "sentence_modules.h"

static const char *const names[] = {
    [POOLING_NONE] = "none",
    [POOLING_MEAN] = "mean",
    [POOLING_MAX] = "max",
    [POOLING_CLS] = "cls",
    [POOLING_LAST] = "last",
    [POOLING_MEAN_SQRT] = "mean_sqrt_len_tokens",
    [POOLING_WEIGHTED_MEAN] = "weightedmean",
};

const char *pooling_name(enum pooling pooling)
{
    assert(pooling < POOLING_FOLDER);
    return names[pooling];
}

size_t pooling_dim(const struct model *model, enum pooling pooling)
{
    return pooling == POOLING_FOLDER ? model->sentence->dim : model->config.width;
}

size_t pooling_scratch_bytes(const struct model *model)
{
    const size_t widest = model->sentence ? model->sentence->dim_max : 0;
    return arena_need(model->config.width, sizeof(double)) + 2 * arena_need(widest, sizeof(float)) +
           linear_scratch_bytes(1, widest);
}

/* vector = Σ weight · x / divisor. */
static void average(const struct pass *pass, enum pooling pooling, const struct source_row *row,
                    const float *x, float *vector)
{
    const size_t D = pass->model->config.width;
    const size_t mark = arena_mark(pass->arena);
    double *sum = arena_take(pass->arena, D, sizeof *sum), weights = 0.0;
    memset(sum, 0, D * sizeof *sum);
    for (size_t i = 0; i < row->count; i++, x += D) {
        const double weight =
            pooling == POOLING_WEIGHTED_MEAN ? row->places[i] - row->places[0] + 1 : 1;
        weights += weight;
        for (size_t d = 0; d < D; d++)
            sum[d] += weight * (double)x[d];
    }
    const double divisor = pooling == POOLING_MEAN_SQRT ? sqrt(weights) : weights;
    for (size_t d = 0; d < D; d++)
        vector[d] = (float)(sum[d] / divisor);
    arena_release(pass->arena, mark);
}

static void largest(const float *x, size_t count, size_t D, float *vector)
{
    memcpy(vector, x, D * sizeof *vector);
    for (size_t i = 1; i < count; i++)
        for (size_t d = 0; d < D; d++)
            vector[d] = x[i * D + d] > vector[d] ? x[i * D + d] : vector[d];
}

static void pool(const struct pass *pass, enum pooling pooling, const struct source_row *row,
                 const float *x, float *vector)
{
    const size_t D = pass->model->config.width;
    switch (pooling) {
    case POOLING_CLS:
        memcpy(vector, x, D * sizeof *vector);
        return;
    case POOLING_LAST:
        memcpy(vector, x + (row->count - 1) * D, D * sizeof *vector);
        return;
    case POOLING_MAX:
        largest(x, row->count, D, vector);
        return;
    case POOLING_MEAN:
    case POOLING_MEAN_SQRT:
    case POOLING_WEIGHTED_MEAN:
        average(pass, pooling, row, x, vector);
        return;
    case POOLING_NONE:
    case POOLING_FOLDER:
        break;
    }
    assert(!"a way to pool");
}

/* To unit L2 norm; a vector of zeros stays. */
static void normalize_vector(float *vector, size_t count)
{
    double squares = 0.0;
    for (size_t i = 0; i < count; i++)
        squares += (double)vector[i] * (double)vector[i];
    const double length = fmax(sqrt(squares), 1e-12); /* the reference's least length */
    for (size_t i = 0; i < count; i++)
        vector[i] = (float)((double)vector[i] / length);
}

static void normalize_layer(const struct norm *norm, float *vector, size_t count)
{
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += (double)vector[i];
    const double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += ((double)vector[i] - mean) * ((double)vector[i] - mean);
    const double scale = 1.0 / sqrt(squares / (double)count + 1e-5);
    for (size_t i = 0; i < count; i++)
        vector[i] = (float)(((double)vector[i] - mean) * scale) * norm->weight[i] + norm->bias[i];
}

/* The result is in `vector` or in `other`; returned is which. */
static float *run_step(const struct pass *pass, const struct sentence_step *step, float *vector,
                       float *other)
{
    switch (step->kind) {
    case STEP_NORMALIZE:
        normalize_vector(vector, step->in);
        return vector;
    case STEP_LAYER_NORM:
        normalize_layer(&step->norm, vector, step->in);
        return vector;
    case STEP_DENSE:
        linear(pass, &step->linear, vector, 1, other);
        if (step->activated)
            pass->kernels->activate(step->activation, other, NULL, step->out);
        return other;
    }
    return vector;
}

static void run_modules(const struct pass *pass, const struct source_row *row, const float *x,
                        float *vector)
{
    const struct sentence *sentence = pass->model->sentence;
    const size_t mark = arena_mark(pass->arena), D = pass->model->config.width;
    float *first = arena_take(pass->arena, sentence->dim_max, sizeof *first);
    float *second = arena_take(pass->arena, sentence->dim_max, sizeof *second);
    float *now = first;
    for (size_t i = 0; i < sentence->mode_count; i++)
        pool(pass, sentence->modes[i], row, x, first + i * D);
    for (size_t i = 0; i < sentence->step_count; i++)
        now = run_step(pass, &sentence->steps[i], now, now == first ? second : first);
    memcpy(vector, now, sentence->dim * sizeof *vector);
    arena_release(pass->arena, mark);
}

void pooling_vector(const struct pass *pass, enum pooling pooling, bool normalize,
                    const struct source_row *row, const float *x, float *vector)
{
    if (pooling == POOLING_FOLDER)
        run_modules(pass, row, x, vector);
    else
        pool(pass, pooling, row, x, vector);
    if (normalize)
        normalize_vector(vector, pooling_dim(pass->model, pooling));
}
