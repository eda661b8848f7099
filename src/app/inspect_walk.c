/* The walk of shapes from token ids to logits, as tutorials draw it. */
#include "inspect.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/sentence.h"

struct walk {
    const struct model *model;
    const struct model_config *config;
    void (*each)(void *context, const struct walk_step *step);
    void *context;
    enum walk_part part;
    bool in_layer;
};

static const struct walk_side rows = { .letter = 'B' }, sources = { .letter = 'S' };

static struct walk_side tokens(const struct walk *walk)
{
    return (struct walk_side){ .letter = walk->part == WALK_DECODER ? 'T' : 'S' };
}

static struct walk_side size(size_t size)
{
    return (struct walk_side){ .size = size };
}

#define SHAPE(...)                                                                                 \
    (const struct walk_side[WALK_RANK_MAX])                                                        \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* The shape ends where its array, as written, does: no side is 0. */
__attribute__((format(printf, 4, 5))) static void take(const struct walk *walk, const char *name,
                                                       const struct walk_side sides[WALK_RANK_MAX],
                                                       const char *note, ...)
{
    struct walk_step step = { .part = walk->part, .in_layer = walk->in_layer, .name = name };
    for (; step.rank < WALK_RANK_MAX && (sides[step.rank].letter || sides[step.rank].size);
         step.rank++)
        step.shape[step.rank] = sides[step.rank];
    va_list args;
    va_start(args, note);
    vsnprintf(step.note, sizeof step.note, note, args);
    va_end(args);
    walk->each(walk->context, &step);
}

static void embedding(const struct walk *walk)
{
    const struct model_config *c = walk->config;
    const bool target = walk->part == WALK_DECODER;
    const struct stack *stack = target ? &walk->model->decoder : &walk->model->encoder;
    const struct sentence *sentence = walk->model->sentence;
    const struct inspect_name table = inspect_table_name(walk->model, stack->tokens.data);
    char scale[32] = "", cut[64] = "";
    if (sentence && sentence->tokens_max != SIZE_MAX && !target)
        snprintf(cut, sizeof cut, ", the first %zu of a row", sentence->tokens_max);
    take(walk, target ? "target ids" : "source ids", SHAPE(rows, tokens(walk)), "0 to %zu%s",
         (target ? c->target_vocabulary : c->source_vocabulary) - 1, cut);
    if (c->embedding_scale != 1.0f)
        snprintf(scale, sizeof scale, " × %.4g", (double)c->embedding_scale);
    take(walk, "embedding", SHAPE(rows, tokens(walk), size(c->width)), "%s%s%s%s%s",
         table.text[0] ? table.text : "rows of the table", scale,
         c->position_kind == POSITION_NONE ? "" : " + position",
         c->token_types ? " + token type 0" : "", c->embedding_norm ? ", norm" : "");
}

static void queries_keys_values(const struct walk *walk, const struct stack_shape *shape)
{
    const size_t H = shape->heads;
    const char *bias = walk->config->attention_bias ? "" : ", no biases";
    if (shape->key_width == shape->value_width) {
        take(walk, "q, k, v", SHAPE(rows, size(H), tokens(walk), size(shape->key_width)),
             "%zu heads%s", H, bias);
        return;
    }
    take(walk, "q, k", SHAPE(rows, size(H), tokens(walk), size(shape->key_width)), "%zu heads%s", H,
         bias);
    take(walk, "v", SHAPE(rows, size(H), tokens(walk), size(shape->value_width)), "%s", "");
}

/* The heads' values under their weights, side by side. */
static void attended(const struct walk *walk, const char *name, const struct stack_shape *shape)
{
    const size_t joined = shape->heads * shape->value_width, D = walk->config->width;
    char narrowed[40] = "";
    if (joined != D)
        snprintf(narrowed, sizeof narrowed, " to %zu", D);
    take(walk, name, SHAPE(rows, tokens(walk), size(joined)), "weights·v, heads joined, ·Wo%s",
         narrowed);
}

static void self_attention(const struct walk *walk, const struct stack_shape *shape)
{
    char scores[80];
    inspect_scores(walk->config, shape, walk->config->relative_buckets > 0, scores, sizeof scores);
    queries_keys_values(walk, shape);
    take(walk, "weights", SHAPE(rows, size(shape->heads), tokens(walk), tokens(walk)), "%s%s",
         scores, walk->part == WALK_DECODER ? ", causal" : "");
    attended(walk, "context", shape);
}

static void cross_attention(const struct walk *walk, const struct stack_shape *shape)
{
    const size_t H = shape->heads;
    char scores[80];
    inspect_scores(walk->config, shape, false, scores, sizeof scores);
    take(walk, "cross q", SHAPE(rows, size(H), tokens(walk), size(shape->key_width)), "%s", "");
    if (shape->key_width == shape->value_width) {
        take(walk, "cross k, v", SHAPE(rows, size(H), sources, size(shape->key_width)),
             "of the encoder's states, once");
    } else {
        take(walk, "cross k", SHAPE(rows, size(H), sources, size(shape->key_width)),
             "of the encoder's states, once");
        take(walk, "cross v", SHAPE(rows, size(H), sources, size(shape->value_width)), "%s", "");
    }
    take(walk, "cross weights", SHAPE(rows, size(H), tokens(walk), sources), "%s", scores);
    attended(walk, "cross context", shape);
}

static void walk_stack(struct walk *walk, const struct stack_shape *shape)
{
    const struct model_config *c = walk->config;
    char inner[80];
    inspect_feed_forward(c, inner, sizeof inner);
    walk->in_layer = false;
    embedding(walk);
    walk->in_layer = true;
    self_attention(walk, shape);
    if (walk->part == WALK_DECODER)
        cross_attention(walk, shape);
    take(walk, "feed-forward", SHAPE(rows, tokens(walk), size(shape->inner_width)), "%s", inner);
    walk->in_layer = false;
    take(walk, "states", SHAPE(rows, tokens(walk), size(c->width)), "%s",
         c->final_norm ? "after the last norm" : "");
}

static void logits(const struct walk *walk)
{
    const struct model *m = walk->model;
    const struct inspect_name table = inspect_table_name(m, m->output.w.data);
    const bool tied = m->output.w.data && (m->output.w.data == m->decoder.tokens.data ||
                                           m->output.w.data == m->encoder.tokens.data);
    char scale[32] = "";
    if (walk->config->output_scale != 1.0f)
        snprintf(scale, sizeof scale, " × %.4g", (double)walk->config->output_scale);
    take(walk, "logits", SHAPE(rows, tokens(walk), size(walk->config->target_vocabulary)),
         "%s%s%s%s", table.text[0] ? table.text : "the output", scale,
         m->output.bias ? " + bias" : "", tied ? ", tied to the embedding" : "");
}

static void modules(struct walk *walk)
{
    const struct sentence *sentence = walk->model->sentence;
    const size_t width = sentence->mode_count * walk->config->width;
    struct sentence_module module = { .width = width };
    char modes[WALK_NOTE_BYTES] = "";
    for (size_t i = 0; i < sentence->mode_count; i++)
        snprintf(modes + strlen(modes), sizeof modes - strlen(modes), "%s%s", i ? " and " : "",
                 pooling_name(sentence->modes[i]));
    walk->part = WALK_MODULES;
    take(walk, "Pooling", SHAPE(rows, size(width)), "%s over the tokens", modes);
    for (size_t i = 0; sentence_module(sentence, i, &module); i++)
        take(walk, module.name, SHAPE(rows, size(module.width)), "%s",
             module.activation ? module.activation : "");
    if (sentence->dim < module.width)
        take(walk, "cut", SHAPE(rows, size(sentence->dim)), "the first %zu numbers", sentence->dim);
    if (sentence->normalize)
        take(walk, "Normalize", SHAPE(rows, size(sentence->dim)), "to length 1");
}

void inspect_walk(const struct model *model,
                  void (*each)(void *context, const struct walk_step *step), void *context)
{
    struct walk walk = {
        .model = model, .config = &model->config, .each = each, .context = context
    };
    walk.part = WALK_ENCODER;
    walk_stack(&walk, &model->config.encoder);
    if (model->sentence)
        modules(&walk);
    if (!config_generates(&model->config))
        return;
    walk.part = WALK_DECODER;
    walk_stack(&walk, &model->config.decoder);
    logits(&walk);
}
