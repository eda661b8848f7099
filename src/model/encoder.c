#include "attention.h"
#include "blocks.h"

static size_t token_count(const struct source_row *rows, size_t row_count)
{
    size_t M = 0;
    for (size_t i = 0; i < row_count; i++)
        M += rows[i].count;
    return M;
}

void encoder_embed(const struct pass *pass, const struct source_row *rows, size_t row_count,
                   float *x)
{
    const struct stack *stack = &pass->model->encoder;
    const size_t D = pass->model->config.width;
    float *next = x;
    for (size_t i = 0; i < row_count; i++)
        for (size_t j = 0; j < rows[i].count; j++, next += D)
            embed_token(pass, stack, rows[i].tokens[j], (size_t)rows[i].positions[j], next);
}

static void self_attention(const struct pass *pass, size_t index, const struct source_row *rows,
                           size_t row_count, size_t M, float *x)
{
    const struct model_config *c = &pass->model->config;
    const struct stack_shape *shape = &c->encoder;
    const struct layer *layer = &pass->model->encoder.layers[index];
    const struct attention attention = { &layer->self, shape, pass->model->encoder.buckets };
    const size_t keys = shape->heads * shape->key_width, values = shape->heads * shape->value_width;
    float *y = arena_take(pass->arena, M * c->width, sizeof *y);
    float *q = arena_take(pass->arena, M * keys, sizeof *q);
    float *k = arena_take(pass->arena, M * keys, sizeof *k);
    float *v = arena_take(pass->arena, M * values, sizeof *v);
    float *mixed = arena_take(pass->arena, M * values, sizeof *mixed);

    const float *query_input = sublayer_open(pass, &layer->self_norm, x, M, y);
    const float *key_input = c->norm_position == NORM_PRE_QUERY ? x : query_input;
    linear(pass, &layer->self.q, query_input, M, q);
    linear(pass, &layer->self.k, key_input, M, k);
    linear(pass, &layer->self.v, key_input, M, v);
    attention_prepare(c, shape, q, M);
    attention_prepare(c, shape, k, M);
    size_t first = 0;
    for (size_t i = 0; i < row_count; first += rows[i].count, i++) {
        const struct source_row *row = &rows[i];
        struct attention_record record = { .queries_max = row->sent_count,
                                           .keys_max = row->sent_count,
                                           .key_places = row->places };
        if (row->attentions)
            record.weights =
                row->attentions + index * shape->heads * row->sent_count * row->sent_count;
        attention_row(pass, &attention, q + first * keys, k + first * keys, v + first * values,
                      row->count, row->places, mixed + first * values, &record);
    }
    linear(pass, &layer->self.out, mixed, M, y);
    sublayer_close(pass, &layer->self_norm, x, y, M);
}

void encoder_layer(const struct pass *pass, size_t index, const struct source_row *rows,
                   size_t row_count, float *x)
{
    const size_t M = token_count(rows, row_count);
    const size_t mark = arena_mark(pass->arena);
    self_attention(pass, index, rows, row_count, M, x);
    arena_release(pass->arena, mark);
    feed_forward(pass, &pass->model->encoder.layers[index], pass->model->config.encoder.inner_width,
                 x, M);
}

void encoder_finish(const struct pass *pass, float *x, size_t M)
{
    const struct norm *norm = &pass->model->encoder.final_norm;
    if (norm->weight)
        norm_rows(pass, norm, x, M, x);
}
