#include "serve/engine.h"

#include <assert.h>
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine_internal.h"
#include "serve/watcher.h"
#include "serve/workers.h"

int engine_check_config(const struct engine_config *config, const struct limits *limits,
                        struct error *err)
{
    const struct {
        const char *small, *large;
        size_t least, most;
    } rules[] = {
        { "limits.beams", "engine.batch_sequences", limits->beams, config->batch_sequences },
        { "limits.return_sequences", "engine.batch_sequences", limits->return_sequences,
          config->batch_sequences },
        { "limits.source_tokens", "engine.batch_tokens", limits->source_tokens,
          config->batch_tokens },
        { "limits.body_bytes", "limits.bodies_bytes", limits->body_bytes, limits->bodies_bytes },
        { "limits.response_bytes", "limits.answers_bytes", limits->response_bytes,
          limits->answers_bytes },
        { "limits.sequences", "limits.queue_sequences", limits->sequences,
          limits->queue_sequences },
        { "limits.default_max_new_tokens", "limits.max_new_tokens", limits->default_max_new_tokens,
          limits->max_new_tokens },
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].least > rules[i].most)
            return error_set(err, ERR_CONFIG, "%s is %zu, more than %s, which is %zu",
                             rules[i].small, rules[i].least, rules[i].large, rules[i].most);
    return 0;
}

int engine_open(struct engine **out, const struct model *model, const struct kernels *kernels,
                const struct engine_config *config, const struct limits *limits,
                struct metrics *metrics, struct wakeup *wakeup, struct watcher *watcher,
                struct error *err)
{
    *out = NULL;
    if (engine_check_config(config, limits, err) < 0)
        return -1;
    struct engine *engine = mem_alloc(1, sizeof *engine);
    if (!engine)
        return error_set(err, ERR_NO_MEMORY, "engine");
    engine->model = model;
    engine->kernels = kernels;
    engine->config = *config;
    engine->limits = limits;
    engine->wakeup = wakeup;
    engine->watcher = watcher;
    lane_memory_plan(&engine->memory, model, config, limits);
    if (queue_open(&engine->queue, limits->queue_sequences, config->overtakes_max, err) < 0) {
        mem_free(engine);
        return -1;
    }
    engine_metrics_init(&engine->metrics, metrics, model->name);
    engine->queue.waiting_gauge = engine->metrics.queue_sequences;
    engine->lanes = mem_alloc(config->workers, sizeof *engine->lanes);
    if (!engine->lanes) {
        error_set(err, ERR_NO_MEMORY, "lanes");
        goto fail;
    }
    for (size_t i = 0; i < config->workers; i++)
        if (lane_open(&engine->lanes[i], engine, err) < 0)
            goto fail;
    *out = engine;
    return 0;

fail:
    engine_close(&engine);
    return -1;
}

void engine_close(struct engine **engine)
{
    struct engine *e = *engine;
    *engine = NULL;
    if (!e)
        return;
    for (size_t i = 0; e->lanes && i < e->config.workers; i++)
        lane_close(&e->lanes[i]);
    mem_free(e->lanes);
    queue_free(&e->queue);
    mem_free(e);
}

/* The arrays of the row's answer whose size is known. */
static int prepare_answer(const struct model *model, struct row *row)
{
    const struct model_config *c = &model->config;
    const struct request *request = row->request;
    struct row_answer *answer = &row->answer;
    const size_t sent = row->sent_count, T = row->target_count;
    bool whole = true;
    if (request->kind == REQUEST_ENCODE) {
        const size_t vectors = request->pooling == POOLING_NONE ? sent : 1;
        answer->embedding =
            mem_alloc(vectors * pooling_dim(model, request->pooling), sizeof(float));
        whole = answer->embedding != NULL;
        if (request->output_attentions)
            whole =
                whole && (answer->encoder_attentions = mem_alloc(
                              c->encoder.layers * c->encoder.heads * sent * sent, sizeof(float)));
    } else if (request->kind == REQUEST_SCORE) {
        answer->token_logprobs = mem_alloc(T, sizeof(float));
        whole = answer->token_logprobs != NULL;
        if (request->top_logprobs > 0)
            whole = whole && (answer->top_logprobs = mem_alloc(T * request->top_logprobs,
                                                               sizeof *answer->top_logprobs));
        if (request->output_attentions) {
            const size_t heads = c->decoder.layers * c->decoder.heads;
            answer->decoder_attentions = mem_alloc(heads * T * T, sizeof(float));
            answer->cross_attentions = mem_alloc(heads * T * sent, sizeof(float));
            whole = whole && answer->decoder_attentions && answer->cross_attentions;
        }
    }
    return whole ? 0 : -1;
}

/* /v1/score feeds the start and all targets but the last: they become the row's prefix. */
static int prepare_targets(struct row *row)
{
    assert(row->prefix_count == 1 && row->target_count > 0);
    int32_t *prefix = mem_resize(row->prefix, row->target_count, sizeof *prefix);
    if (!prefix)
        return -1;
    for (size_t i = 1; i < row->target_count; i++)
        prefix[i] = row->targets[i - 1];
    row->prefix = prefix;
    row->prefix_count = row->target_count;
    return 0;
}

static int prepare_row(const struct engine *engine, struct row *row, struct error *err)
{
    const struct model_config *c = &engine->model->config;
    if (prepare_answer(engine->model, row) < 0 ||
        (row->request->kind == REQUEST_SCORE && prepare_targets(row) < 0))
        return error_set(err, ERR_NO_MEMORY, "no memory for the answer of row %zu", row->index);
    if (row->request->kind == REQUEST_ENCODE)
        return 0;
    const bool generate = row->request->kind == REQUEST_GENERATE;
    const size_t length = generate ? row->options.max_length : row->prefix_count;
    assert(length <= engine->memory.target_max);
    row->width = generate ? options_width(&row->options) : 1;
    row->slots = row->width * length;
    row->key_values = key_values_floats(c, row->token_count, row->slots);
    /* A review's inputs lie behind the cache, as wide as floats. */
    const size_t review = generate && row->options.output_attentions ? length : 0;
    const size_t room = engine->memory.cache_floats;
    if (review > room || row->key_values > room - review)
        return error_set(err, ERR_OVER_LIMIT,
                         "row %zu needs key/value cache for %zu hypotheses of %zu tokens; that is "
                         "more than the %zu bytes of a worker (engine.kv_cache_bytes)",
                         row->index, row->width, length, room * sizeof(float));
    row->key_values += review;
    return 0;
}

/* A moving average over about 16 values; the first one is taken as it is. */
static void average(_Atomic uint64_t *average, uint64_t value)
{
    const uint64_t old = atomic_load_explicit(average, memory_order_relaxed);
    atomic_store_explicit(average, old == 0 ? value : old - old / 16 + value / 16,
                          memory_order_relaxed);
}

/* Fewer rows at once say little about the pace of many, and are no crowd. */
enum { CROWD_ROWS = 8 };

/* By Little's law a request that comes now waits as many intervals as there are rows. */
static void publish_wait(struct engine *engine)
{
    gauge_set(engine->metrics.expected_wait,
              (double)(engine->row_count * engine->row_interval_ns) / 1e9);
}

/* What the next rows can expect.  The time between two ends counts only in a crowd, and not that
 * before this row came: else it is the clients' pace and not the engine's. */
static void observe_end(struct engine *engine, const struct row *row)
{
    const size_t rows = atomic_fetch_sub(&engine->row_count, 1);
    if (row->taken_ns == 0 || request_is_off(row->request))
        return; /* who is given up is soon done with */
    const uint64_t last = atomic_exchange(&engine->last_end_ns, row->ended_ns);
    if (rows < CROWD_ROWS)
        return;
    const uint64_t queued = row->request->queued_ns, since = queued > last ? queued : last;
    if (last != 0 && row->ended_ns > since)
        average(&engine->row_interval_ns, row->ended_ns - since);
}

/* A crowd of which no row ends in time teaches nothing by its ends, and the next one would fare the
 * same.  So a row whose time is over, with no row ended since it was taken, says that `rows` rows
 * are too many for a worker; twice what is certain, since the next ones shall end. */
void engine_observe_late(struct engine *engine, const struct row *row, size_t rows)
{
    if (row->request->cancelled != ERR_DEADLINE || rows < CROWD_ROWS ||
        engine->last_end_ns >= row->taken_ns)
        return;
    const uint64_t interval = 2 * (clock_ns() - row->taken_ns) / (rows * engine->config.workers);
    if (interval > engine->row_interval_ns)
        engine->row_interval_ns = interval;
}

/* A request that would end too late takes time from those that would not: better to say so now.  As
 * long as nothing is known of the pace, everything is let in. */
static int check_wait(struct engine *engine, const struct request *request, struct error *err)
{
    const size_t others = engine->row_count;
    const uint64_t ends_ns = (others + request->row_count) * engine->row_interval_ns;
    const uint64_t now = clock_ns();
    const uint64_t left_ns = request->deadline_ns > now ? request->deadline_ns - now : 0;
    if (others < CROWD_ROWS || ends_ns <= left_ns - left_ns / 4)
        return 0;
    return error_set(err, ERR_BUSY,
                     "%zu rows wait or run, so it would take about %.2f s; the request has %.2f s",
                     others, (double)ends_ns / 1e9, (double)left_ns / 1e9);
}

int engine_submit(struct engine *engine, struct request *request, struct error *err)
{
    if (check_wait(engine, request, err) < 0)
        goto refuse;
    for (size_t i = 0; i < request->row_count; i++)
        if (prepare_row(engine, &request->rows[i], err) < 0)
            goto refuse;
    request->queued_ns = clock_ns();
    atomic_fetch_add(&engine->request_count, 1);
    atomic_fetch_add(&engine->row_count, request->row_count);
    watcher_add(engine->watcher, request);
    if (queue_push(&engine->queue, request, err) < 0) {
        watcher_remove(engine->watcher, request);
        atomic_fetch_sub(&engine->request_count, 1);
        atomic_fetch_sub(&engine->row_count, request->row_count);
        goto refuse;
    }
    publish_wait(engine);
    wakeup_ring(engine->wakeup);
    return 0;

refuse:
    request_move(request, REQUEST_REFUSED);
    return -1;
}

void engine_stop_accepting(struct engine *engine)
{
    queue_close(&engine->queue);
}

bool engine_step(struct engine *engine, size_t worker, struct team *team)
{
    struct lane *lane = &engine->lanes[worker];
    lane->team = team;
    const bool dropped = lane_drop_off(lane);
    lane_admit(lane);
    const bool encoded = lane_encode(lane), decodes = lane->decoding_count > 0;
    if (decodes)
        lane_decode(lane);
    return dropped || encoded || decodes;
}

static void count_sequences(const struct engine_metrics *metrics, const struct row *row)
{
    size_t tokens = 0;
    if (!row->answer.search || !search_done(row->answer.search) || row->request->failed)
        return;
    for (size_t i = 0; i < search_sequence_count(row->answer.search); i++) {
        const struct sequence sequence = search_sequence(row->answer.search, i);
        tokens += sequence.count;
        counter_add(metrics->finished[sequence.finish_reason], 1.0);
        histogram_observe(metrics->sequence_tokens, (double)sequence.count);
    }
    counter_add(metrics->generated_tokens, (double)tokens);
    const size_t intervals = search_length(row->answer.search) - row->prefix_count;
    if (intervals > 0)
        histogram_observe(metrics->inter_token, (double)(row->last_token_ns - row->first_token_ns) /
                                                    1e9 / (double)intervals);
}

void engine_end_row(struct engine *engine, struct row *row)
{
    struct request *request = row->request;
    row->ended_ns = clock_ns();
    observe_end(engine, row);
    publish_wait(engine);
    count_sequences(&engine->metrics, row);
    if (atomic_fetch_sub(&request->rows_left, 1) > 1)
        return;
    watcher_remove(engine->watcher, request);
    if (request->error.code == ERR_DEADLINE || request->error.code == ERR_CLIENT_GONE ||
        request->error.code == ERR_SHUTTING_DOWN)
        engine_metrics_cancelled(&engine->metrics, request->error.code);
    request_move(request, REQUEST_DONE);
    request->done(request, request->context);
    atomic_fetch_sub(&engine->request_count, 1);
}

static void set_reason(struct error *error, const struct request *request, enum error_code reason)
{
    if (reason == ERR_DEADLINE)
        error_set(error, reason, "the deadline passed %llu ms after the request came in",
                  (unsigned long long)((request->deadline_ns - request->received_ns) / NS_PER_MS));
    else if (reason == ERR_CLIENT_GONE)
        error_set(error, reason, "the client left");
    else
        error_set(error, reason, "the daemon is shutting down and could not finish the request");
}

void engine_give_up_row(struct engine *engine, struct row *row)
{
    struct request *request = row->request;
    const enum error_code reason = request->cancelled;
    if (request->partial && reason == ERR_DEADLINE && !request->failed) {
        if (row->answer.search) /* else it was not begun and has no sequences */
            search_stop(row->answer.search);
    } else if (reason != ERR_NONE) {
        struct error error = { 0 };
        set_reason(&error, request, reason);
        request_fail(request, &error);
    }
    engine_end_row(engine, row);
}

void engine_publish(struct engine *engine)
{
    engine_metrics_publish(&engine->metrics, engine->model, &engine->config, engine->limits);
}

size_t engine_request_count(const struct engine *engine)
{
    return engine->request_count;
}

void engine_count_rejected(struct engine *engine, const char *reason)
{
    engine_metrics_rejected(&engine->metrics, reason);
}
