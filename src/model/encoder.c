#include "attention.h"
#include "blocks.h"
#include "scratch.h"

/* A member's share of tokens is a multiple of so many, the rows of a tile. */
enum { SHARED_TOKENS = 8 };

size_t encoding_floats(const struct model_config *config, size_t M)
{
    const struct stack_shape *shape = &config->encoder;
    return M * shape->heads * (2 * shape->key_width + shape->value_width);
}

void encoding_place(struct encoding *encoding, const struct model_config *config, float *floats)
{
    const struct stack_shape *shape = &config->encoder;
    encoding->q = floats;
    encoding->k = encoding->q + encoding->M * shape->heads * shape->key_width;
    encoding->v = encoding->k + encoding->M * shape->heads * shape->key_width;
}

void encoder_embed(const struct pass *pass, const struct encoding *encoding)
{
    const size_t D = pass->model->config.width;
    float *x = encoding->x;
    for (size_t i = 0; i < encoding->row_count; i++) {
        const struct source_row *row = &encoding->rows[i];
        for (size_t j = 0; j < row->count; j++, x += D)
            embed_token(pass, &pass->model->encoder, row->tokens[j], (size_t)row->positions[j], x);
    }
}

/* Queries, keys and values of tokens first … end−1. */
static void project(const struct pass *pass, size_t index, const struct encoding *e, size_t first,
                    size_t end)
{
    const struct model_config *c = &pass->model->config;
    const struct stack_shape *shape = &c->encoder;
    const struct layer *layer = &pass->model->encoder.layers[index];
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const size_t M = end - first, mark = arena_mark(pass->arena);
    const float *x = e->x + first * c->width;
    float *normed = arena_take(pass->arena, M * c->width, sizeof *normed);
    float *q = e->q + first * keys, *k = e->k + first * keys;
    const float *query_input = sublayer_open(pass, &layer->self_norm, x, M, normed);
    const float *key_input = c->norm_position == NORM_PRE_QUERY ? x : query_input;
    const struct projection projections[] = { { &layer->self.q, query_input, q },
                                              { &layer->self.k, key_input, k },
                                              { &layer->self.v, key_input,
                                                e->v + first * values } };
    linear_group(pass, projections, 3, M);
    attention_prepare(c, shape, q, M);
    attention_prepare(c, shape, k, M);
    arena_release(pass->arena, mark);
}

static struct attention_record row_record(const struct pass *pass, size_t index,
                                          const struct source_row *row)
{
    const size_t layer = pass->model->config.encoder.heads * row->sent_count * row->sent_count;
    if (!row->attentions)
        return (struct attention_record){ 0 };
    return (struct attention_record){ .weights = row->attentions + index * layer,
                                      .queries_max = row->sent_count,
                                      .keys_max = row->sent_count,
                                      .key_places = row->places };
}

/* mixed (end − first, H·W) = what tokens first … end−1 attend to, each in its row. */
static void attend(const struct pass *pass, size_t index, const struct encoding *e, size_t first,
                   size_t end, float *mixed)
{
    const struct model *model = pass->model;
    const struct stack_shape *shape = &model->config.encoder;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    const struct attention attention = { &model->encoder.layers[index].self, shape,
                                         model->encoder.buckets };
    const size_t mark = arena_mark(pass->arena);
    for (size_t i = 0, token = 0; i < e->row_count && token < end; token += e->rows[i].count, i++) {
        const size_t S = e->rows[i].count;
        if (token + S <= first)
            continue;
        struct attention_row row = { .q = e->q + token * keys,
                                     .k = e->k + token * keys,
                                     .v = e->v + token * values,
                                     .S = S,
                                     .first = first > token ? first - token : 0,
                                     .end = end < token + S ? end - token : S,
                                     .places = e->rows[i].places,
                                     .record = row_record(pass, index, &e->rows[i]) };
        row.out = mixed + (token + row.first - first) * values;
        attention_row(pass, &attention, &row, (struct heads){ 0, shape->heads },
                      arena_take(pass->arena, attention_scratch_bytes(shape, S), 1));
        arena_release(pass->arena, mark);
    }
}

/* The rest of the layer: every token by itself, once all keys and values are there. */
static void transform(const struct pass *pass, size_t index, const struct encoding *e, size_t first,
                      size_t end)
{
    const struct model_config *c = &pass->model->config;
    const struct layer *layer = &pass->model->encoder.layers[index];
    const size_t values = c->encoder.heads * c->encoder.value_width;
    const size_t M = end - first, mark = arena_mark(pass->arena);
    float *x = e->x + first * c->width;
    float *mixed = arena_take(pass->arena, M * values, sizeof *mixed);
    float *y = arena_take(pass->arena, M * c->width, sizeof *y);
    attend(pass, index, e, first, end, mixed);
    linear(pass, &layer->self.out, mixed, M, y);
    sublayer_close(pass, &layer->self_norm, x, y, M);
    arena_release(pass->arena, mark);
    feed_forward(pass, layer, c->encoder.inner_width, x, M);
}

/* Tokens of a phase, shared by a team: each member has some to itself, and scratch of its own. */
struct shared_phase {
    const struct pass *pass;
    void (*phase)(const struct pass *pass, size_t index, const struct encoding *e, size_t first,
                  size_t end);
    size_t index;
    const struct encoding *encoding;
    size_t first, end;
    char *scratch;
    size_t member_bytes;
};

static void share_phase(void *context, size_t member, size_t members)
{
    const struct shared_phase *s = context;
    struct arena arena = { .base = s->scratch + member * s->member_bytes,
                           .size_bytes = s->member_bytes };
    struct pass pass = *s->pass;
    size_t first, end;
    pass.arena = &arena;
    pass.team = NULL;
    team_share(s->end - s->first, SHARED_TOKENS, member, members, &first, &end);
    for (first += s->first, end += s->first; first < end; first += MEMBER_TOKENS)
        s->phase(&pass, s->index, s->encoding, first,
                 end - first < MEMBER_TOKENS ? end : first + MEMBER_TOKENS);
}

static size_t longest_row(const struct encoding *e)
{
    size_t longest = 0;
    for (size_t i = 0; i < e->row_count; i++)
        longest = e->rows[i].count > longest ? e->rows[i].count : longest;
    return longest;
}

void encoder_run(const struct pass *pass, size_t index, enum encoder_phase phase,
                 const struct encoding *encoding, size_t first, size_t end)
{
    const size_t members = team_size(pass->team), mark = arena_mark(pass->arena);
    struct shared_phase s = { .pass = pass,
                              .phase = phase == ENCODER_PROJECT ? project : transform,
                              .index = index,
                              .encoding = encoding,
                              .first = first,
                              .end = end,
                              .member_bytes = encoder_member_bytes(&pass->model->config,
                                                                   longest_row(encoding)) };
    s.scratch = arena_take(pass->arena, members * s.member_bytes, 1);
    team_run(pass->team, share_phase, &s);
    arena_release(pass->arena, mark);
}

/* Multiplications for one token, of a row of S. */
static size_t token_products(const struct model_config *c, enum encoder_phase phase, size_t S)
{
    const struct stack_shape *shape = &c->encoder;
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    if (phase == ENCODER_PROJECT)
        return c->width * (2 * keys + values);
    return S * (keys + values) + c->width * values +
           c->width * shape->inner_width * (c->gated ? 3 : 2);
}

size_t encoder_chunk(const struct model_config *config, const struct encoding *encoding,
                     enum encoder_phase phase, size_t first, size_t products)
{
    size_t end = first, token = 0, spent = 0;
    for (size_t i = 0; i < encoding->row_count && spent < products; i++) {
        const size_t S = encoding->rows[i].count, each = token_products(config, phase, S);
        for (; end < token + S && spent < products; end++)
            spent += each;
        token += S;
    }
    return end;
}

void encoder_layer(const struct pass *pass, size_t index, const struct encoding *encoding)
{
    encoder_run(pass, index, ENCODER_PROJECT, encoding, 0, encoding->M);
    encoder_run(pass, index, ENCODER_TRANSFORM, encoding, 0, encoding->M);
}

void encoder_finish(const struct pass *pass, float *x, size_t M)
{
    const struct norm *norm = &pass->model->encoder.final_norm;
    if (norm->weight)
        norm_rows(pass, norm, x, M, x);
}
