#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "family.h"
#include "weights.h"

/* What binding the tensors of one model needs. */
struct binder {
    struct model *model;
    const struct tensor_names *names;
    const struct kernels *kernels;
    struct error *err;
};

enum { NAME_BYTES = 256 };

/* `pattern` with its `*` and `#` filled in; cut if it does not fit, and then no tensor has the
 * name. */
static void expand(char name[NAME_BYTES], const char *pattern, const char *stack, size_t layer)
{
    size_t length = 0;
    for (; *pattern && length < NAME_BYTES - 1; pattern++) {
        int count = 1;
        const size_t room = NAME_BYTES - length;
        if (*pattern == '*')
            count = snprintf(name + length, room, "%s", stack);
        else if (*pattern == '#')
            count = snprintf(name + length, room, "%zu", layer);
        else
            name[length] = *pattern;
        length += (size_t)count < room ? (size_t)count : room - 1;
    }
    name[length] = '\0';
}

static int bind_matrix(const struct binder *b, const char *name, size_t rows, size_t columns,
                       struct matrix *matrix)
{
    char full[NAME_BYTES + 8];
    snprintf(full, sizeof full, "%s.weight", name);
    return weights_matrix(b->model->weights, full, rows, columns, matrix, b->err);
}

static int bind_linear(const struct binder *b, const char *prefix, const char *part,
                       const char *leaf, size_t out, size_t in, bool bias, struct linear *linear)
{
    char name[NAME_BYTES], full[NAME_BYTES + 8];
    snprintf(name, sizeof name, "%s%s%s", prefix, part, leaf);
    if (bind_matrix(b, name, out, in, &linear->w) < 0)
        return -1;
    snprintf(full, sizeof full, "%s.bias", name);
    return bias ? weights_vector(b->model->weights, full, out, b->kernels, &linear->bias, b->err)
                : 0;
}

static int bind_norm(const struct binder *b, const char *prefix, const char *leaf,
                     struct norm *norm)
{
    char full[NAME_BYTES];
    const size_t D = b->model->config.width;
    snprintf(full, sizeof full, "%s%s.weight", prefix, leaf);
    if (weights_vector(b->model->weights, full, D, b->kernels, &norm->weight, b->err) < 0)
        return -1;
    snprintf(full, sizeof full, "%s%s.bias", prefix, leaf);
    return weights_vector(b->model->weights, full, D, b->kernels, &norm->bias, b->err);
}

static int bind_attention(const struct binder *b, const char *prefix, const char *part,
                          struct attention_weights *attention)
{
    const struct model_config *c = &b->model->config;
    const size_t keys = c->heads * c->key_width, values = c->heads * c->value_width;
    const bool bias = c->attention_bias;
    const struct tensor_names *n = b->names;
    if (bind_linear(b, prefix, part, n->q, keys, c->width, bias, &attention->q) < 0 ||
        bind_linear(b, prefix, part, n->k, keys, c->width, bias, &attention->k) < 0 ||
        bind_linear(b, prefix, part, n->v, values, c->width, bias, &attention->v) < 0 ||
        bind_linear(b, prefix, part, n->out, c->width, values, bias, &attention->out) < 0)
        return -1;
    if (c->attention_score != SCORE_ADDITIVE)
        return 0;
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s%s", prefix, part, n->score);
    return weights_vector(b->model->weights, full, keys, b->kernels, &attention->score_weight,
                          b->err);
}

static int bind_layer(const struct binder *b, const char *stack, size_t index, bool decoder,
                      struct layer *layer)
{
    const struct model_config *c = &b->model->config;
    const struct tensor_names *n = b->names;
    char prefix[NAME_BYTES];
    expand(prefix, n->layer, stack, index);
    if (bind_attention(b, prefix, n->self, &layer->self) < 0 ||
        bind_norm(b, prefix, n->self_norm, &layer->self_norm) < 0)
        return -1;
    if (decoder && (bind_attention(b, prefix, n->cross, &layer->cross) < 0 ||
                    bind_norm(b, prefix, n->cross_norm, &layer->cross_norm) < 0))
        return -1;
    if (bind_linear(b, prefix, n->ffn_in, "", c->inner_width, c->width, c->ffn_bias,
                    &layer->ffn_in) < 0 ||
        bind_linear(b, prefix, n->ffn_out, "", c->width, c->inner_width, c->ffn_bias,
                    &layer->ffn_out) < 0)
        return -1;
    return bind_norm(b, prefix, n->ffn_norm, &layer->ffn_norm);
}

/* A small file must not make the daemon compute for hours. */
enum { SINUSOIDS_MAX = 1 << 26 };

/* PE[p, 2i] = sin(p / 10000^(2i/D)), PE[p, 2i+1] = cos(same); Vaswani et al. 2017, section 3.5. */
static int make_sinusoids(const struct binder *b, struct matrix *table)
{
    const size_t D = b->model->config.width, rows = b->model->config.positions_max;
    if (rows > SINUSOIDS_MAX / D)
        return error_set(b->err, ERR_BAD_MODEL,
                         "%s: a table of %zu positions, %zu wide, is more than the %d numbers that "
                         "are computed",
                         b->model->dir, rows, D, SINUSOIDS_MAX);
    float *values = weights_scratch(b->model->weights, rows * D);
    if (!values)
        return error_set(b->err, ERR_NO_MEMORY, "position table of %zu rows", rows);
    for (size_t i = 0; i < D; i++) {
        const double wavelength = pow(10000.0, (double)(i - i % 2) / (double)D);
        for (size_t p = 0; p < rows; p++) {
            const double angle = (double)p / wavelength;
            values[p * D + i] = (float)(i % 2 ? cos(angle) : sin(angle));
        }
    }
    *table = (struct matrix){ values, DTYPE_F32, rows, D };
    return 0;
}

static int bind_positions(const struct binder *b, const char *stack, struct matrix *table)
{
    const struct model_config *c = &b->model->config;
    char name[NAME_BYTES];
    if (c->position_kind == POSITION_NONE)
        return 0;
    if (c->position_kind == POSITION_LEARNED) {
        expand(name, b->names->positions, stack, 0);
        return bind_matrix(b, name, c->positions_max, c->width, table);
    }
    if (b->model->encoder.positions.data) { /* the decoder's table is the same */
        *table = b->model->encoder.positions;
        return 0;
    }
    return make_sinusoids(b, table);
}

static int bind_stack(const struct binder *b, const char *name, bool decoder, struct stack *stack)
{
    const struct model_config *c = &b->model->config;
    char full[NAME_BYTES];
    expand(full, c->shared_embeddings ? b->names->shared : b->names->tokens, name, 0);
    if (bind_matrix(b, full, decoder ? c->target_vocabulary : c->source_vocabulary, c->width,
                    &stack->tokens) < 0)
        return -1;
    expand(full, b->names->embedding_norm, name, 0);
    if (c->embedding_norm && bind_norm(b, full, "", &stack->embedding_norm) < 0)
        return -1;
    expand(full, b->names->final_norm, name, 0);
    if (c->final_norm && bind_norm(b, full, "", &stack->final_norm) < 0)
        return -1;
    const size_t layers = decoder ? c->decoder_layers : c->encoder_layers;
    stack->layers = mem_alloc(layers, sizeof *stack->layers);
    if (!stack->layers)
        return error_set(b->err, ERR_NO_MEMORY, "%zu layers", layers);
    stack->layer_count = layers;
    for (size_t i = 0; i < layers; i++)
        if (bind_layer(b, name, i, decoder, &stack->layers[i]) < 0)
            return -1;
    return bind_positions(b, name, &stack->positions);
}

static int bind_all(const struct binder *b)
{
    struct model *model = b->model;
    const struct model_config *c = &model->config;
    if (bind_stack(b, "encoder", false, &model->encoder) < 0 ||
        bind_stack(b, "decoder", true, &model->decoder) < 0)
        return -1;
    if (c->tied_output)
        model->output.w = model->decoder.tokens;
    else if (bind_linear(b, "", "", b->names->output, c->target_vocabulary, c->width,
                         c->output_bias, &model->output) < 0)
        return -1;
    return 0;
}

int model_open(struct model **out, const char *dir, const char *name, const struct kernels *kernels,
               struct error *err)
{
    *out = NULL;
    struct model *model = mem_alloc(1, sizeof *model);
    if (!model)
        return error_set(err, ERR_NO_MEMORY, "%s", dir);
    model->name = mem_text(name);
    model->dir = mem_text(dir);
    if (!model->name || !model->dir) {
        error_set(err, ERR_NO_MEMORY, "%s", dir);
        goto fail;
    }
    if (config_read(&model->config, &model->defaults, dir, err) < 0 ||
        weights_open(&model->weights, dir, err) < 0)
        goto fail;
    const struct binder binder = { model, &family_find(model->config.family)->names, kernels, err };
    if (bind_all(&binder) < 0)
        goto fail;
    weights_warn_unused(model->weights);
    model->dtype = weights_dtype(model->weights, &model->parameter_count);
    model->mapped_bytes = model->weights->tensors.mapped_bytes;
    model->copied_bytes = model->weights->copied_bytes;
    *out = model;
    return 0;

fail:
    model_close(&model);
    return -1;
}

void model_close(struct model **model)
{
    struct model *m = *model;
    *model = NULL;
    if (!m)
        return;
    mem_free(m->encoder.layers);
    mem_free(m->decoder.layers);
    weights_close(&m->weights);
    settings_free(&m->defaults);
    mem_free(m->name);
    mem_free(m->dir);
    mem_free(m);
}
