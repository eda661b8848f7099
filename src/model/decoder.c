#include <string.h>

#include "attention.h"
#include "blocks.h"
#include "positions.h"
#include "screen.h"

/* Where the parts of a row's cache lie: for each layer the cross keys and values, then those of the
 * slots. */
struct cache_layer {
    struct attention_cache cross, self;
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
    const size_t tokens = cache->source_count + cache->slot_count, floats = token_floats(shape);
    float *base = cache->base + index * tokens * floats;
    return (struct cache_layer){ { base, cache->source_count },
                                 { base + cache->source_count * floats, cache->slot_count } };
}

void decoder_cross(const struct pass *pass, size_t index, const float *x,
                   const struct key_values *const *rows, size_t first, size_t end)
{
    const struct model_config *c = &pass->model->config;
    const struct stack_shape *shape = &c->decoder;
    const struct attention_weights *cross = &pass->model->decoder.layers[index].cross;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const size_t M = end - first, mark = arena_mark(pass->arena);
    float *k = arena_take(pass->arena, M * keys, sizeof *k);
    float *v = arena_take(pass->arena, M * values, sizeof *v);
    const struct projection projections[] = { { &cross->k, x + first * c->width, k },
                                              { &cross->v, x + first * c->width, v } };
    linear_group(pass, projections, 2, M);
    attention_prepare(c, shape, k, M);
    size_t begin = 0, i = 0;
    for (size_t token = first; token < end; token++) {
        for (; token >= begin + rows[i]->source_count; i++)
            begin += rows[i]->source_count;
        const struct attention_cache cache = cache_layer(shape, rows[i], index).cross;
        attention_store(shape, &cache, token - begin, k + (token - first) * keys,
                        v + (token - first) * values, (struct heads){ 0, shape->heads });
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

/* One attention sublayer over the new tokens of all segments. */
struct sublayer {
    const struct pass *pass;
    size_t index;
    bool cross;
    const struct segment *segments;
    size_t segment_count;
    const struct projected *at;
};

static struct attention_record query_record(const struct sublayer *s, const struct segment *segment)
{
    const size_t keys_max = s->cross ? segment->sent_count : segment->places;
    float *weights = s->cross ? segment->cross_weights : segment->self_weights;
    if (!weights)
        return (struct attention_record){ 0 };
    const size_t layer = s->pass->model->config.decoder.heads * segment->places * keys_max;
    return (struct attention_record){ .weights = weights + s->index * layer,
                                      .queries_max = segment->places,
                                      .keys_max = keys_max,
                                      .key_places = s->cross ? segment->source_places : NULL };
}

/* Of a segment's new token `i`, which is token `token` of the pass. */
static struct attention_query query(const struct sublayer *s, const struct segment *segment,
                                    size_t i, size_t token)
{
    const struct stack_shape *shape = &s->pass->model->config.decoder;
    const size_t place = segment->start + i;
    return (struct attention_query){
        .place = place,
        .q = s->at->q + token * shape->heads * shape->key_width,
        .path = s->cross ? NULL : segment->path,
        .count = s->cross ? segment->key_values->source_count : place + 1,
        .out = s->at->mixed + token * shape->heads * shape->value_width,
        .record = query_record(s, segment),
    };
}

/* Segments first … end−1, whose new tokens begin at `token`, are one row's: hypotheses that attend
 * to the same source and whose paths lead through the same slots. */
struct run {
    size_t first, end, token;
};

static struct run next_run(const struct sublayer *s, size_t first, size_t token)
{
    size_t end = first + 1;
    while (end < s->segment_count && s->segments[end].key_values == s->segments[first].key_values)
        end++;
    return (struct run){ first, end, token };
}

/* New keys and values join the cache, of all hypotheses before any of them attends. */
static void store_run(const struct sublayer *s, const struct run *run,
                      const struct attention_cache *cache, struct heads heads)
{
    const struct stack_shape *shape = &s->pass->model->config.decoder;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    size_t token = run->token;
    for (size_t i = run->first; i < run->end; i++) {
        const struct segment *segment = &s->segments[i];
        for (size_t j = segment->start; j < segment->start + segment->count; j++, token++)
            attention_store(shape, cache, (size_t)segment->path[j], s->at->k + token * keys,
                            s->at->v + token * values, heads);
    }
}

/* Returns where the next run's tokens begin. */
static size_t attend_run(const struct sublayer *s, const struct run *run, struct heads heads,
                         void *scratch)
{
    const struct model *model = s->pass->model;
    const struct layer *layer = &model->decoder.layers[s->index];
    const struct attention attention = { s->cross ? &layer->cross : &layer->self,
                                         &model->config.decoder,
                                         s->cross ? NULL : model->decoder.buckets };
    const struct cache_layer caches =
        cache_layer(&model->config.decoder, s->segments[run->first].key_values, s->index);
    const struct attention_cache *cache = s->cross ? &caches.cross : &caches.self;
    struct attention_query queries[ATTENTION_QUERIES];
    size_t count = 0, token = run->token;
    if (!s->cross)
        store_run(s, run, cache, heads);
    for (size_t i = run->first; i < run->end; i++) {
        for (size_t j = 0; j < s->segments[i].count; j++, token++) {
            queries[count++] = query(s, &s->segments[i], j, token);
            if (count == ATTENTION_QUERIES) {
                attention_queries(s->pass, &attention, cache, queries, count, heads, scratch);
                count = 0;
            }
        }
    }
    attention_queries(s->pass, &attention, cache, queries, count, heads, scratch);
    return token;
}

/* Items first … end−1: an item is a head of a run, see heads_among().  Threads may share items. */
static void attend_items(const struct sublayer *s, size_t first, size_t end, void *scratch)
{
    const size_t H = s->pass->model->config.decoder.heads;
    struct run run = { 0 };
    for (size_t i = 0, token = 0; run.end < s->segment_count; i++) {
        run = next_run(s, run.end, token);
        token = attend_run(s, &run, heads_among(i, H, first, end), scratch);
    }
}

/* The work of a sublayer, for a team. */
struct shared_attention {
    const struct sublayer *sublayer;
    size_t items;
    char *scratch;
    size_t member_bytes;
};

static void share_attention(void *context, size_t member, size_t members)
{
    const struct shared_attention *shared = context;
    size_t first, end;
    team_share(shared->items, 1, member, members, &first, &end);
    attend_items(shared->sublayer, first, end, shared->scratch + member * shared->member_bytes);
}

static size_t run_count(const struct sublayer *s)
{
    size_t count = 0;
    for (struct run run = { 0 }; run.end < s->segment_count; count++)
        run = next_run(s, run.end, 0);
    return count;
}

static void attend(const struct sublayer *s)
{
    enum { SHARED_SCORES_MIN = 1 << 10 }; /* fewer are done before a helper could begin */
    const struct pass *pass = s->pass;
    const struct stack_shape *shape = &pass->model->config.decoder;
    const size_t mark = arena_mark(pass->arena);
    size_t keys_max = 0, scores = 0;
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct segment *segment = &s->segments[i];
        const size_t keys =
            s->cross ? segment->key_values->source_count : segment->start + segment->count;
        keys_max = keys > keys_max ? keys : keys_max;
        scores += keys * segment->count * shape->heads;
    }
    struct team *team = scores < SHARED_SCORES_MIN ? NULL : pass->team;
    struct shared_attention shared = { .sublayer = s,
                                       .items = run_count(s) * shape->heads,
                                       .member_bytes = arena_need(
                                           attention_scratch_bytes(shape, keys_max), 1) };
    shared.scratch = arena_take(pass->arena, team_size(team) * shared.member_bytes, 1);
    team_run(team, share_attention, &shared);
    arena_release(pass->arena, mark);
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
    const struct projection projections[] = { { &layer->self.q, query_input, at.q },
                                              { &layer->self.k, key_input, at.k },
                                              { &layer->self.v, key_input, at.v } };
    linear_group(pass, projections, 3, M);
    attention_prepare(c, &c->decoder, at.q, M);
    attention_prepare(c, &c->decoder, at.k, M);
    attend(&(struct sublayer){ pass, index, false, segments, segment_count, &at });
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
    attend(&(struct sublayer){ pass, index, true, segments, segment_count, &at });
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

/* Rows that are screened, and the others, are computed in runs of their kind. */
void decoder_logits(const struct pass *pass, const float *x, size_t M, const size_t *needed,
                    float *logits)
{
    const struct model_config *c = &pass->model->config;
    const size_t V = c->target_vocabulary;
    for (size_t m = 0, end; m < M; m = end) {
        const bool screened = needed && screen_possible(pass, x + m * c->width, needed[m]);
        for (end = m + 1; end < M; end++)
            if (screened != (needed && screen_possible(pass, x + end * c->width, needed[end])))
                break;
        if (screened)
            screen_logits(pass, x + m * c->width, end - m, needed + m, logits + m * V);
        else
            linear(pass, &pass->model->output, x + m * c->width, end - m, logits + m * V);
    }
    if (c->output_scale != 1.0f)
        for (size_t i = 0; i < M * V; i++)
            logits[i] *= c->output_scale;
}

size_t decoder_token_products(const struct model_config *c, size_t keys)
{
    const struct stack_shape *shape = &c->decoder;
    const size_t k = shape->heads * shape->key_width, v = shape->heads * shape->value_width;
    const size_t layer = c->width * (3 * k + 3 * v) + keys * (k + v) +
                         c->width * shape->inner_width * (c->gated ? 3 : 2);
    return shape->layers * layer + c->width * c->target_vocabulary;
}
