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
            embed_token(pass, stack, rows[i].tokens[j], (size_t)rows[i].places[j], next);
    if (stack->embedding_norm.weight)
        norm_rows(pass, &stack->embedding_norm, x, token_count(rows, row_count), x);
}

static void self_attention(const struct pass *pass, size_t index, const struct source_row *rows,
                           size_t row_count, size_t M, float *x)
{
    const struct model_config *c = &pass->model->config;
    const struct layer *layer = &pass->model->encoder.layers[index];
    const size_t keys = c->heads * c->key_width, values = c->heads * c->value_width;
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
    attention_prepare(c, q, M);
    attention_prepare(c, k, M);
    size_t first = 0;
    for (size_t i = 0; i < row_count; first += rows[i].count, i++) {
        const struct source_row *row = &rows[i];
        struct attention_record record = { .queries_max = row->sent_count,
                                           .keys_max = row->sent_count,
                                           .key_places = row->places };
        if (row->attentions)
            record.weights = row->attentions + index * c->heads * row->sent_count * row->sent_count;
        attention_row(pass, &layer->self, q + first * keys, k + first * keys, v + first * values,
                      row->count, mixed + first * values, &record, row->places);
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
    feed_forward(pass, &pass->model->encoder.layers[index], x, M);
}

void encoder_finish(const struct pass *pass, float *x, size_t M)
{
    const struct norm *norm = &pass->model->encoder.final_norm;
    if (norm->weight)
        norm_rows(pass, norm, x, M, x);
}
