#include <string.h>

#include "attention.h"
#include "blocks.h"
#include "positions.h"

/* Where the parts of a row's cache lie: for each layer the cross keys (S, H·K) and values, then the
 * self keys (slots, H·K) and values. */
struct cache_layer {
    float *cross_keys, *cross_values, *self_keys, *self_values;
};

static size_t token_floats(const struct stack_shape *shape)
{
    return shape->heads * (shape->key_width + shape->value_width);
}

size_t key_values_floats(const struct model_config *config, size_t source_count, size_t slot_count)
{
    size_t tokens, floats;
    if (__builtin_add_overflow(source_count, slot_count, &tokens) ||
        __builtin_mul_overflow(tokens, token_floats(&config->decoder), &floats) ||
        __builtin_mul_overflow(floats, config->decoder.layers, &floats))
        return SIZE_MAX;
    return floats;
}

static struct cache_layer cache_layer(const struct stack_shape *shape,
                                      const struct key_values *cache, size_t index)
{
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const size_t tokens = cache->source_count + cache->slot_count;
    struct cache_layer at;
    at.cross_keys = cache->base + index * tokens * token_floats(shape);
    at.cross_values = at.cross_keys + cache->source_count * keys;
    at.self_keys = at.cross_values + cache->source_count * values;
    at.self_values = at.self_keys + cache->slot_count * keys;
    return at;
}

void decoder_cross(const struct pass *pass, size_t index, const float *x, size_t M,
                   const struct key_values *const *rows, size_t row_count)
{
    const struct stack_shape *shape = &pass->model->config.decoder;
    const struct attention_weights *cross = &pass->model->decoder.layers[index].cross;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const size_t mark = arena_mark(pass->arena);
    float *k = arena_take(pass->arena, M * keys, sizeof *k);
    float *v = arena_take(pass->arena, M * values, sizeof *v);
    linear(pass, &cross->k, x, M, k);
    linear(pass, &cross->v, x, M, v);
    attention_prepare(&pass->model->config, shape, k, M);
    size_t first = 0;
    for (size_t i = 0; i < row_count; first += rows[i]->source_count, i++) {
        const struct cache_layer cache = cache_layer(shape, rows[i], index);
        const size_t S = rows[i]->source_count;
        memcpy(cache.cross_keys, k + first * keys, S * keys * sizeof *k);
        memcpy(cache.cross_values, v + first * values, S * values * sizeof *v);
    }
    arena_release(pass->arena, mark);
}

/* Projections of one attention sublayer over M tokens. */
struct projected {
    float *y, *q, *k, *v, *mixed;
};

static struct projected take_projected(const struct pass *pass, size_t M)
{
    const struct stack_shape *shape = &pass->model->config.decoder;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    return (struct projected){
        .y = arena_take(pass->arena, M * pass->model->config.width, sizeof(float)),
        .q = arena_take(pass->arena, M * keys, sizeof(float)),
        .k = arena_take(pass->arena, M * keys, sizeof(float)),
        .v = arena_take(pass->arena, M * values, sizeof(float)),
        .mixed = arena_take(pass->arena, M * values, sizeof(float)),
    };
}

/* The new tokens of a segment join the cache, then each attends to itself and what lies before. */
static void segment_self(const struct pass *pass, size_t index, const struct segment *segment,
                         const struct projected *at, size_t first)
{
    const struct stack_shape *shape = &pass->model->config.decoder;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const struct cache_layer cache = cache_layer(shape, segment->key_values, index);
    const struct attention attention = { &pass->model->decoder.layers[index].self, shape,
                                         pass->model->decoder.buckets };
    struct attention_record record = { .queries_max = segment->places,
                                       .keys_max = segment->places };
    if (segment->self_weights)
        record.weights =
            segment->self_weights + index * shape->heads * segment->places * segment->places;
    for (size_t i = 0; i < segment->count; i++) {
        const size_t position = segment->start + i, token = first + i;
        const size_t slot = (size_t)segment->path[position];
        memcpy(cache.self_keys + slot * keys, at->k + token * keys, keys * sizeof(float));
        memcpy(cache.self_values + slot * values, at->v + token * values, values * sizeof(float));
        attention_query(pass, &attention,
                        &(struct attention_query){ .place = position,
                                                   .q = at->q + token * keys,
                                                   .keys = cache.self_keys,
                                                   .values = cache.self_values,
                                                   .path = segment->path,
                                                   .count = position + 1,
                                                   .out = at->mixed + token * values },
                        &record);
    }
}

static void segment_cross(const struct pass *pass, size_t index, const struct segment *segment,
                          const struct projected *at, size_t first)
{
    const struct stack_shape *shape = &pass->model->config.decoder;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const struct cache_layer cache = cache_layer(shape, segment->key_values, index);
    const struct attention attention = { &pass->model->decoder.layers[index].cross, shape, NULL };
    struct attention_record record = { .queries_max = segment->places,
                                       .keys_max = segment->sent_count,
                                       .key_places = segment->source_places };
    if (segment->cross_weights)
        record.weights =
            segment->cross_weights + index * shape->heads * segment->places * segment->sent_count;
    for (size_t i = 0; i < segment->count; i++) {
        const size_t token = first + i;
        attention_query(pass, &attention,
                        &(struct attention_query){ .place = segment->start + i,
                                                   .q = at->q + token * keys,
                                                   .keys = cache.cross_keys,
                                                   .values = cache.cross_values,
                                                   .count = segment->key_values->source_count,
                                                   .out = at->mixed + token * values },
                        &record);
    }
}

static void decoder_self(const struct pass *pass, size_t index, const struct segment *segments,
                         size_t segment_count, float *x, size_t M)
{
    const struct model_config *c = &pass->model->config;
    const struct layer *layer = &pass->model->decoder.layers[index];
    const size_t mark = arena_mark(pass->arena);
    const struct projected at = take_projected(pass, M);
    const float *query_input = sublayer_open(pass, &layer->self_norm, x, M, at.y);
    const float *key_input = c->norm_position == NORM_PRE_QUERY ? x : query_input;
    linear(pass, &layer->self.q, query_input, M, at.q);
    linear(pass, &layer->self.k, key_input, M, at.k);
    linear(pass, &layer->self.v, key_input, M, at.v);
    attention_prepare(c, &c->decoder, at.q, M);
    attention_prepare(c, &c->decoder, at.k, M);
    size_t first = 0;
    for (size_t i = 0; i < segment_count; first += segments[i].count, i++)
        segment_self(pass, index, &segments[i], &at, first);
    linear(pass, &layer->self.out, at.mixed, M, at.y);
    sublayer_close(pass, &layer->self_norm, x, at.y, M);
    arena_release(pass->arena, mark);
}

static void decoder_cross_attention(const struct pass *pass, size_t index,
                                    const struct segment *segments, size_t segment_count, float *x,
                                    size_t M)
{
    const struct layer *layer = &pass->model->decoder.layers[index];
    const size_t mark = arena_mark(pass->arena);
    const struct projected at = take_projected(pass, M);
    linear(pass, &layer->cross.q, sublayer_open(pass, &layer->cross_norm, x, M, at.y), M, at.q);
    attention_prepare(&pass->model->config, &pass->model->config.decoder, at.q, M);
    size_t first = 0;
    for (size_t i = 0; i < segment_count; first += segments[i].count, i++)
        segment_cross(pass, index, &segments[i], &at, first);
    linear(pass, &layer->cross.out, at.mixed, M, at.y);
    sublayer_close(pass, &layer->cross_norm, x, at.y, M);
    arena_release(pass->arena, mark);
}

/* The new tokens of a segment, one after another at x; returns the end of their states. */
static float *embed_segment(const struct pass *pass, const struct segment *segment, float *x)
{
    const struct model_config *c = &pass->model->config;
    for (size_t i = segment->start; i < segment->start + segment->count; i++, x += c->width)
        embed_token(pass, &pass->model->decoder, segment->tokens[i],
                    target_position(c, segment->tokens, i, segment->prefix_count), x);
    return x;
}

void decoder_forward(const struct pass *pass, const struct segment *segments, size_t segment_count,
                     float *x)
{
    const struct stack *stack = &pass->model->decoder;
    const struct model_config *c = &pass->model->config;
    float *end = x;
    for (size_t i = 0; i < segment_count; i++)
        end = embed_segment(pass, &segments[i], end);
    const size_t M = (size_t)(end - x) / c->width;
    for (size_t i = 0; i < stack->layer_count; i++) {
        decoder_self(pass, i, segments, segment_count, x, M);
        decoder_cross_attention(pass, i, segments, segment_count, x, M);
        feed_forward(pass, &stack->layers[i], c->decoder.inner_width, x, M);
    }
    if (stack->final_norm.weight)
        norm_rows(pass, &stack->final_norm, x, M, x);
}

void decoder_logits(const struct pass *pass, const float *x, size_t M, float *logits)
{
    const struct model_config *c = &pass->model->config;
    linear(pass, &pass->model->output, x, M, logits);
    if (c->output_scale != 1.0f)
        for (size_t i = 0; i < M * c->target_vocabulary; i++)
            logits[i] *= c->output_scale;
}

static size_t layer_scratch_bytes(const struct model_config *c, const struct stack_shape *shape,
                                  size_t M)
{
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const size_t projections = arena_need(M * c->width, sizeof(float)) +
                               2 * arena_need(M * keys, sizeof(float)) +
                               2 * arena_need(M * values, sizeof(float));
    const size_t inner = arena_need(M * c->width, sizeof(float)) +
                         (c->gated ? 2 : 1) * arena_need(M * shape->inner_width, sizeof(float));
    return projections > inner ? projections : inner;
}

size_t pass_scratch_bytes(const struct model_config *c, size_t M, size_t source_max,
                          size_t target_max)
{
    const size_t encoder = layer_scratch_bytes(c, &c->encoder, M);
    const size_t decoder = layer_scratch_bytes(c, &c->decoder, M);
    const size_t scores =
        attention_scratch_bytes(source_max > target_max ? source_max : target_max);
    return (encoder > decoder ? encoder : decoder) + scores + arena_need(c->width, sizeof(float));
}
