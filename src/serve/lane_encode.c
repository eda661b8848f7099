/* The encoder pass of a lane, and the answers of /v1/encode. */
#include <string.h>

#include "base/clock.h"
#include "engine_internal.h"

/* False: the vector is not finite. */
static bool answer_encode(const struct pass *pass, struct row *row, const struct source_row *source,
                          const float *x)
{
    const struct request *request = row->request;
    const size_t dim = pooling_dim(pass->model, request->pooling);
    float *embedding = row->answer.embedding;
    if (request->pooling == POOLING_NONE) {
        for (size_t i = 0; i < source->count; i++)
            memcpy(embedding + (size_t)source->places[i] * dim, x + i * dim, dim * sizeof *x);
        return true;
    }
    pooling_vector(pass, request->pooling, request->normalize, source, x, embedding);
    return all_finite(embedding, dim);
}

static void fail_nonfinite(struct lane *lane, struct task *task)
{
    struct error error = { 0 };
    error_set(&error, ERR_NONFINITE, "the encoder's output for row %zu is not finite",
              task->row->index);
    lane_fail(lane, task, &error);
}

static void finish_row(struct lane *lane, const struct pass *pass, struct task *task,
                       const struct source_row *source, const float *x)
{
    struct row *row = task->row;
    const bool encode = row->request->kind == REQUEST_ENCODE;
    row->encoded_ns = clock_ns();
    bool finite = all_finite(x, source->count * pass->model->config.width);
    if (finite && encode && !request_is_off(row->request))
        finite = answer_encode(pass, row, source, x);
    if (!finite)
        fail_nonfinite(lane, task);
    if (request_is_off(row->request)) {
        lane_give_up_task(lane, task);
        return;
    }
    if (encode) {
        lane_end_task(lane, task);
        return;
    }
    task->phase = row->request->kind == REQUEST_GENERATE ? TASK_GENERATE : TASK_SCORE;
    lane->decoding[lane->decoding_count++] = task;
    struct error error = { 0 };
    const struct search_input input = { .kernels = lane->engine->kernels,
                                        .prefix = row->prefix,
                                        .prefix_count = row->prefix_count,
                                        .source = row->sent_ids,
                                        .source_count = row->sent_ids ? row->sent_count : 0 };
    if (task->phase == TASK_GENERATE &&
        search_create(&row->answer.search, &row->options,
                      lane->engine->model->config.target_vocabulary, &input, &error) < 0)
        lane_fail(lane, task, &error);
}

static void finish_pass(struct lane *lane, const struct pass *pass, struct encode_pass *encode)
{
    struct engine_metrics *metrics = &lane->engine->metrics;
    const size_t count = encode->row_count, D = pass->model->config.width;
    const float *x = encode->encoding.x;
    histogram_observe(metrics->encode_duration, (double)encode->ns / 1e9);
    counter_add(metrics->prompt_tokens, (double)encode->encoding.M);
    encode->row_count = 0;
    for (size_t i = encode->offset; i < encode->offset + count; i++) {
        const size_t tokens = lane->sources[i].count;
        histogram_observe(metrics->source_tokens, (double)tokens);
        finish_row(lane, pass, lane->encoding[i], &lane->sources[i], x);
        x += tokens * D;
    }
}

/* A piece takes about so long, half of it beside rows that are decoded, but has at least so many
 * tokens a thread, or a multiple: products of fewer would be slow, and keys and values are arranged
 * for each piece anew. */
enum { PIECE_MS = 5, PIECE_TOKENS = 64 };

static size_t piece_end(const struct pass *pass, const struct encode_pass *p)
{
    const struct encoding *e = &p->encoding;
    const size_t end =
        encoder_chunk(&pass->model->config, e, p->phase, p->next, p->products[p->phase]);
    const size_t unit = PIECE_TOKENS * team_size(pass->team), units = (end - p->next) / unit;
    const size_t count = unit * (units > 0 ? units : 1);
    return e->M - p->next < count ? e->M : p->next + count;
}

/* Learns from a piece how many multiplications the next one may have. */
static void fit_piece(const struct lane *lane, size_t *products, uint64_t ns)
{
    const uint64_t wanted_ns = PIECE_MS * NS_PER_MS / (lane->decoding_count > 0 ? 2 : 1);
    if (ns > 2 * wanted_ns)
        *products /= 2;
    else if (ns < wanted_ns / 2)
        *products *= 2;
    else
        *products = (size_t)((double)*products * (double)wanted_ns / (double)ns);
    if (*products < ENCODE_PRODUCTS_MIN)
        *products = ENCODE_PRODUCTS_MIN;
}

/* False: the pass has no more. */
static bool run_piece(struct lane *lane, const struct pass *pass, struct encode_pass *p)
{
    const struct model_config *c = &pass->model->config;
    const struct encoding *e = &p->encoding;
    const bool cross = p->layer >= c->encoder.layers;
    if (p->layer == 0 && p->phase == ENCODER_PROJECT && p->next == 0)
        encoder_embed(pass, e);
    size_t last = e->M, end;
    if (cross) {
        last = p->decoded_tokens;
        end = last - p->next < CROSS_TOKENS ? last : p->next + CROSS_TOKENS;
        decoder_cross(pass, p->layer - c->encoder.layers, e->x, lane->caches + p->offset, p->next,
                      end);
    } else {
        const uint64_t start = clock_ns();
        end = piece_end(pass, p);
        encoder_run(pass, p->layer, p->phase, e, p->next, end);
        if (end < last)
            fit_piece(lane, &p->products[p->phase], clock_ns() - start);
    }
    p->next = end;
    if (end < last)
        return true;
    p->next = 0;
    if (!cross && p->phase == ENCODER_PROJECT) {
        p->phase = ENCODER_TRANSFORM;
        return true;
    }
    p->phase = ENCODER_PROJECT;
    if (++p->layer == c->encoder.layers)
        encoder_finish(pass, e->x, e->M);
    return p->layer < c->encoder.layers + (p->decoded_count > 0 ? c->decoder.layers : 0);
}

/* The pass with the fewest tokens goes first, so that short rows do not wait for long ones; the one
 * with the most has as much time as all others together. */
static struct encode_pass *choose_pass(struct lane *lane, bool *largest)
{
    struct encode_pass *small = NULL, *large = NULL;
    for (size_t i = 0; i < ENCODE_PASSES; i++) {
        struct encode_pass *pass = &lane->passes[i];
        if (pass->row_count == 0)
            continue;
        if (!small || pass->encoding.M < small->encoding.M)
            small = pass;
        if (!large || pass->encoding.M >= large->encoding.M)
            large = pass;
    }
    *largest = small == large || lane->smaller_ns >= lane->largest_ns;
    return *largest ? large : small;
}

static size_t rows_encoding(const struct lane *lane)
{
    size_t rows = 0;
    for (size_t i = 0; i < ENCODE_PASSES; i++)
        rows += lane->passes[i].row_count;
    return rows;
}

/* Time for the encoder now, ns.  Rows that are decoded wait for it half as long as for their own
 * steps, or longer in proportion if fewer of them are decoded than encoded, on average, since a
 * piece may be longer; where there are none, every piece is followed by a look at what came in. */
static int64_t encode_credit(const struct lane *lane)
{
    if (lane->decoding_count == 0)
        return 0;
    const double share = (double)rows_encoding(lane) / (double)lane->decoding_count;
    const double wanted = (double)lane->decode_ns / 2 * (share > 1 ? share : 1);
    const int64_t most = (int64_t)(lane->engine->config.encode_ms * NS_PER_MS);
    const int64_t each = wanted < (double)most ? (int64_t)wanted : most;
    const int64_t debt = lane->encode_debt_ns < 3 * each ? lane->encode_debt_ns : 3 * each;
    return each - debt;
}

bool lane_encode(struct lane *lane)
{
    const struct pass pass = { lane->engine->model, lane->engine->kernels, &lane->scratch,
                               lane->team, false };
    int64_t credit = encode_credit(lane);
    bool encoded = false;
    while (credit >= 0) {
        bool largest;
        struct encode_pass *chosen = choose_pass(lane, &largest);
        if (!chosen)
            break;
        encoded = true;
        const uint64_t begin = clock_ns();
        const bool more = run_piece(lane, &pass, chosen);
        const uint64_t ns = clock_ns() - begin;
        chosen->ns += ns;
        credit -= (int64_t)ns;
        lane->smaller_ns = largest ? 0 : lane->smaller_ns + ns;
        if (largest)
            lane->largest_ns = ns;
        if (!more)
            finish_pass(lane, &pass, chosen);
    }
    lane->encode_debt_ns = credit < 0 ? -credit : 0;
    return encoded;
}
