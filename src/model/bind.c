#include "bind.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "family.h"
#include "positions.h"
#include "weights.h"

/* What binding the tensors of one model needs. */
struct binder {
    struct model *model;
    const struct tensor_names *names;
    const char *prefix;       /* the one of names->prefixes that the file has */
    struct matrix *sinusoids; /* computed once for both stacks */
    size_t *wrong;            /* tensors at fault so far; nothing more is computed then */
    const struct kernels *kernels;
    struct error *err;
};

/* A tensor at fault does not end the binding: the others are looked at too, so that all are found.
 */
static int go_on(const struct binder *b, int rc)
{
    if (rc == 0 || b->err->code != ERR_BAD_MODEL)
        return rc;
    ++*b->wrong;
    return 0;
}

/* A name from the family's pattern. */
enum { NAME_BYTES = 256 };
struct name {
    char text[NAME_BYTES];
};

/* `pattern` with its signs filled in; cut if it does not fit, and then no tensor has the name. */
static struct name expand(const char *prefix, const char *pattern, bool decoder, size_t layer)
{
    struct name name;
    size_t length = (size_t)snprintf(name.text, sizeof name.text, "%s", prefix);
    for (; *pattern && length < NAME_BYTES - 1; pattern++) {
        int count = 1;
        const size_t room = NAME_BYTES - length;
        char *at = name.text + length;
        if (*pattern == '*')
            count = snprintf(at, room, "%s", decoder ? "decoder" : "encoder");
        else if (*pattern == '#')
            count = snprintf(at, room, "%zu", layer);
        else
            *at = *pattern == '@' ? (decoder ? '2' : '1') : *pattern;
        length += (size_t)count < room ? (size_t)count : room - 1;
    }
    name.text[length] = '\0';
    return name;
}

/* Cut as expand() cuts. */
static struct name join(const char *a, const char *b, const char *c)
{
    const char *const parts[] = { a, b, c };
    struct name name;
    size_t length = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const char *at = parts[i]; *at && length < NAME_BYTES - 1; at++)
            name.text[length++] = *at;
    name.text[length] = '\0';
    return name;
}

static bool has(const struct binder *b, const struct name *name)
{
    const struct name full = join(name->text, ".weight", "");
    return weights_has(b->model->weights, full.text);
}

static int bind_matrix(const struct binder *b, const char *name, size_t rows, size_t columns,
                       struct matrix *matrix)
{
    const struct name full = join(name, ".weight", "");
    return go_on(b, weights_matrix(b->model->weights, full.text, rows, columns, matrix, b->err));
}

static int bind_vector(const struct binder *b, const char *name, size_t count, const float **vector)
{
    return go_on(b, weights_vector(b->model->weights, name, count, b->kernels, vector, b->err));
}

/* The matrix of a linear layer. */
static int bind_weights(const struct binder *b, const char *name, size_t out, size_t in,
                        struct linear *linear)
{
    const struct name full = join(name, ".weight", "");
    return go_on(b, weights_linear(b->model->weights, full.text, out, in, &linear->w, b->err));
}

static int bind_linear(const struct binder *b, const char *name, size_t out, size_t in, bool bias,
                       struct linear *linear)
{
    const struct name full = join(name, ".bias", "");
    if (bind_weights(b, name, out, in, linear) < 0)
        return -1;
    return bias ? bind_vector(b, full.text, out, &linear->bias) : 0;
}

/* Checkpoints that came from TensorFlow say gamma and beta. */
static int bind_norm(const struct binder *b, const char *name, struct norm *norm)
{
    const struct name gamma = join(name, ".gamma", "");
    const bool old = weights_has(b->model->weights, gamma.text);
    const struct name weight = join(name, old ? ".gamma" : ".weight", "");
    const struct name bias = join(name, old ? ".beta" : ".bias", "");
    const size_t D = b->model->config.width;
    if (bind_vector(b, weight.text, D, &norm->weight) < 0)
        return -1;
    return b->model->config.norm_kind == NORM_RMS ? 0 : bind_vector(b, bias.text, D, &norm->bias);
}

static int bind_attention(const struct binder *b, const struct stack_shape *shape,
                          const char *prefix, const char *part, struct attention_weights *attention)
{
    const struct model_config *c = &b->model->config;
    const struct tensor_names *n = b->names;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const bool bias = c->attention_bias;
    const struct name q = join(prefix, part, n->q), k = join(prefix, part, n->k);
    const struct name v = join(prefix, part, n->v), out = join(prefix, part, n->out);
    if (bind_linear(b, q.text, keys, c->width, bias, &attention->q) < 0 ||
        bind_linear(b, k.text, keys, c->width, bias, &attention->k) < 0 ||
        bind_linear(b, v.text, values, c->width, bias, &attention->v) < 0 ||
        bind_linear(b, out.text, c->width, values, bias, &attention->out) < 0)
        return -1;
    if (c->attention_score != SCORE_ADDITIVE)
        return 0;
    const struct name score = join(prefix, part, n->score);
    return bind_vector(b, score.text, keys, &attention->score_weight);
}

static int bind_feed_forward(const struct binder *b, bool decoder, size_t index, size_t F,
                             struct layer *layer)
{
    const struct model_config *c = &b->model->config;
    const struct tensor_names *n = b->names;
    const struct name prefix = expand(b->prefix, n->layer, decoder, index);
    const struct name in = expand(prefix.text, n->ffn_in, decoder, index);
    const struct name gated_in = join(in.text, "_0", ""); /* beside the gate, "_1" */
    const struct name out = expand(prefix.text, n->ffn_out, decoder, index);
    const struct name norm = expand(prefix.text, n->ffn_norm, decoder, index);
    if (bind_linear(b, c->gated ? gated_in.text : in.text, F, c->width, c->ffn_bias,
                    &layer->ffn_in) < 0 ||
        bind_linear(b, out.text, c->width, F, c->ffn_bias, &layer->ffn_out) < 0 ||
        bind_norm(b, norm.text, &layer->ffn_norm) < 0)
        return -1;
    const struct name gate = join(in.text, "_1", "");
    return c->gated ? bind_linear(b, gate.text, F, c->width, c->ffn_bias, &layer->ffn_gate) : 0;
}

static int bind_buckets(const struct binder *b, bool decoder, struct stack *stack)
{
    const struct model_config *c = &b->model->config;
    if (c->relative_buckets == 0)
        return 0;
    const size_t count = 2 * c->relative_distance + 1;
    uint16_t *buckets =
        (void *)weights_scratch(b->model->weights, count * sizeof *buckets / sizeof(float) + 1);
    if (!buckets)
        return error_set(b->err, ERR_NO_MEMORY, "%zu relative positions", count);
    relative_buckets(c, decoder, buckets);
    stack->buckets = buckets;
    return 0;
}

/* The stored table is (buckets, H); ours has a head's numbers together. */
static int bind_relative(const struct binder *b, bool decoder, size_t index,
                         const struct stack *stack, struct layer *layer)
{
    const struct model_config *c = &b->model->config;
    const size_t H = decoder ? c->decoder.heads : c->encoder.heads, B = c->relative_buckets;
    if (B == 0)
        return 0;
    if (index > 0 && !c->relative_every_layer) {
        layer->self.relative = stack->layers[0].self.relative;
        return 0;
    }
    const struct name name = expand(b->prefix, b->names->relative, decoder, index);
    const struct name full = join(name.text, ".weight", "");
    const float *stored;
    if (bind_vector(b, full.text, B * H, &stored) < 0)
        return -1;
    if (*b->wrong > 0)
        return 0;
    float *table = weights_scratch(b->model->weights, B * H);
    if (!table)
        return error_set(b->err, ERR_NO_MEMORY, "%s", name.text);
    for (size_t i = 0; i < B * H; i++)
        table[i % H * B + i / H] = stored[i];
    layer->self.relative = table;
    return 0;
}

static int bind_layer(const struct binder *b, bool decoder, size_t index, struct stack *stack)
{
    const struct model_config *c = &b->model->config;
    const struct tensor_names *n = b->names;
    const struct stack_shape *shape = decoder ? &c->decoder : &c->encoder;
    struct layer *layer = &stack->layers[index];
    const struct name prefix = expand(b->prefix, n->layer, decoder, index);
    const struct name self_norm = join(prefix.text, n->self_norm, "");
    if (bind_attention(b, shape, prefix.text, n->self, &layer->self) < 0 ||
        bind_norm(b, self_norm.text, &layer->self_norm) < 0 ||
        bind_relative(b, decoder, index, stack, layer) < 0 ||
        bind_feed_forward(b, decoder, index, shape->inner_width, layer) < 0)
        return -1;
    if (!decoder)
        return 0;
    const struct name cross_norm = join(prefix.text, n->cross_norm, "");
    return bind_attention(b, shape, prefix.text, n->cross, &layer->cross) < 0
               ? -1
               : bind_norm(b, cross_norm.text, &layer->cross_norm);
}

/* A small file must not make the daemon compute for hours: positions beyond are computed when they
 * are met. */
enum { SINUSOIDS_MAX = 1 << 22 };

static int make_sinusoids(const struct binder *b, struct matrix *table)
{
    const struct model_config *c = &b->model->config;
    const size_t D = c->width, most = SINUSOIDS_MAX / D;
    const size_t rows = c->position_rows < most ? c->position_rows : most;
    float *values = weights_scratch(b->model->weights, rows * D);
    if (!values)
        return error_set(b->err, ERR_NO_MEMORY, "position table of %zu rows", rows);
    for (size_t p = 0; p < rows; p++)
        sinusoids(c->position_kind, p, c->position_offset, values + p * D, D);
    *table = (struct matrix){ values, DTYPE_F32, rows, D, LAYOUT_ROWS };
    return 0;
}

/* A stored table counts before a computed one: Marian's may be rounded, FSMT's trained.  M2M100's
 * old files have one under a name that nothing reads. */
static int bind_positions(const struct binder *b, bool decoder, struct matrix *table)
{
    const struct model_config *c = &b->model->config;
    if (c->position_kind == POSITION_NONE)
        return 0;
    const struct name name = expand(b->prefix, b->names->positions, decoder, 0);
    if (c->position_kind == POSITION_LEARNED || has(b, &name))
        return bind_matrix(b, name.text, c->position_rows, c->width, table);
    const struct name old = join(name.text, ".weights", "");
    weights_expect(b->model->weights, old.text);
    if (*b->wrong == 0 && !b->sinusoids->data && make_sinusoids(b, b->sinusoids) < 0)
        return -1;
    *table = *b->sinusoids;
    return 0;
}

static struct name output_name(const struct binder *b)
{
    return join(b->names->output_prefixed ? b->prefix : "", b->names->output, "");
}

/* The table of tokens under its own name or, where tables may be tied, under the others'. */
static int bind_tokens(const struct binder *b, bool decoder, struct matrix *table)
{
    const struct model_config *c = &b->model->config;
    const struct tensor_names *n = b->names;
    const size_t V = decoder ? c->target_vocabulary : c->source_vocabulary;
    const struct name own = expand(b->prefix, n->tokens, decoder, 0);
    const struct name shared = expand(b->prefix, n->shared ? n->shared : n->tokens, decoder, 0);
    const struct name other = expand(b->prefix, n->tokens, !decoder, 0);
    const struct name output = n->output ? output_name(b) : own;
    const struct name *const all[] = { &own, c->shared_embeddings ? &shared : NULL,
                                       c->shared_embeddings ? &other : NULL,
                                       c->tied_output && (decoder || c->shared_embeddings) ? &output
                                                                                           : NULL };
    const struct name *found = c->shared_embeddings ? &shared : &own; /* for the error */
    for (size_t i = sizeof all / sizeof *all; i-- > 0;) {
        if (!all[i])
            continue;
        const struct name copy = join(all[i]->text, ".weight", "");
        if (!weights_has_rows(b->model->weights, copy.text))
            continue;
        found = all[i];
        weights_expect(b->model->weights, copy.text);
    }
    return bind_matrix(b, found->text, V, c->width, table);
}

static int bind_token_type(const struct binder *b, const float **row)
{
    const struct model_config *c = &b->model->config;
    if (c->token_types == 0)
        return 0;
    const struct name name = join(b->prefix, b->names->token_types, ".weight");
    return bind_vector(b, name.text, c->token_types * c->width, row);
}

static int bind_stack(const struct binder *b, bool decoder, struct stack *stack)
{
    const struct model_config *c = &b->model->config;
    const size_t layers = decoder ? c->decoder.layers : c->encoder.layers;
    if (bind_tokens(b, decoder, &stack->tokens) < 0 || bind_token_type(b, &stack->token_type) < 0 ||
        bind_positions(b, decoder, &stack->positions) < 0 || bind_buckets(b, decoder, stack) < 0)
        return -1;
    const struct name embedding =
        expand(b->prefix, c->embedding_norm ? b->names->embedding_norm : "", decoder, 0);
    const struct name final =
        expand(b->prefix, c->final_norm ? b->names->final_norm : "", decoder, 0);
    if ((c->embedding_norm && bind_norm(b, embedding.text, &stack->embedding_norm) < 0) ||
        (c->final_norm && bind_norm(b, final.text, &stack->final_norm) < 0))
        return -1;
    stack->layers = mem_alloc(layers, sizeof *stack->layers);
    if (!stack->layers)
        return error_set(b->err, ERR_NO_MEMORY, "%zu layers", layers);
    stack->layer_count = layers;
    for (size_t i = 0; i < layers; i++)
        if (bind_layer(b, decoder, i, stack) < 0)
            return -1;
    return 0;
}

/* Where the output's rows are stored.  Tied ones are the shared table, even where the decoder has
 * a table of its own. */
static struct name output_source(const struct binder *b)
{
    const struct model_config *c = &b->model->config;
    const struct name own = output_name(b);
    if (!c->tied_output || !c->shared_embeddings || !b->names->shared || has(b, &own))
        return own;
    const struct name shared = join(b->prefix, b->names->shared, "");
    return has(b, &shared) ? shared : own;
}

static int bind_output(const struct binder *b)
{
    const struct model_config *c = &b->model->config;
    struct linear *output = &b->model->output;
    const size_t V = c->target_vocabulary;
    const struct name own = output_source(b);
    const char *bias = b->names->output_bias;
    const bool tied = c->tied_output && !has(b, &own);
    const char *tokens = weights_name(b->model->weights, b->model->decoder.tokens.data);
    const struct name name =
        tied ? join(tokens ? tokens : "", "", "") : join(own.text, ".weight", "");
    if (tied)
        b->model->output_rows = b->model->decoder.tokens;
    else if (weights_has_rows(b->model->weights, name.text) &&
             bind_matrix(b, own.text, V, c->width, &b->model->output_rows) < 0)
        return -1;
    const bool found = !tied || tokens; /* a tied table at fault was named already */
    if (found &&
        go_on(b, weights_linear(b->model->weights, name.text, V, c->width, &output->w, b->err)) < 0)
        return -1;
    if (b->model->output_rows.data)
        weights_screen(b->model->weights, name.text, V, c->width, &b->model->screen,
                       &b->model->screen_bounds);
    if (c->output_bias == OUTPUT_BIAS_NONE ||
        (c->output_bias == OUTPUT_BIAS_IF_STORED && !weights_has(b->model->weights, bias)))
        return 0;
    return bind_vector(b, bias, V, &output->bias);
}

/* The prefix under which the file has some of the first attention's matrices; the first if it has
 * none, for the error. */
static void choose_prefix(struct binder *b)
{
    const struct tensor_names *n = b->names;
    const char *const parts[] = { n->q, n->k, n->v, n->out };
    b->prefix = n->prefixes[0];
    for (size_t i = 0; i < sizeof n->prefixes / sizeof *n->prefixes && n->prefixes[i]; i++) {
        const struct name layer = expand(n->prefixes[i], n->layer, false, 0);
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++) {
            const struct name matrix = join(layer.text, n->self, parts[j]);
            if (has(b, &matrix)) {
                b->prefix = n->prefixes[i];
                return;
            }
        }
    }
}

static int bind_all(const struct binder *b)
{
    struct model *model = b->model;
    if (bind_stack(b, false, &model->encoder) < 0)
        return -1;
    if (!config_generates(&model->config))
        return 0;
    return bind_stack(b, true, &model->decoder) < 0 ? -1 : bind_output(b);
}

int model_bind(struct model *model, const struct kernels *kernels, struct error *err)
{
    struct matrix sinusoids = { 0 };
    size_t wrong = 0;
    struct binder b = { .model = model,
                        .names = family_find(model->config.family)->names,
                        .sinusoids = &sinusoids,
                        .wrong = &wrong,
                        .kernels = kernels,
                        .err = err };
    choose_prefix(&b);
    if (bind_all(&b) < 0)
        return -1;
    const size_t length = strlen(err->message);
    if (wrong > 1)
        snprintf(err->message + length, sizeof err->message - length,
                 "; %zu more are missing or wrong", wrong - 1);
    return wrong ? -1 : 0;
}
