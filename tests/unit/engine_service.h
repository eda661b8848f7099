/* engine_service.h — an engine over a tiny model, with or without its workers, and requests for it
 * that a number makes. */
#ifndef TESTS_ENGINE_SERVICE_H
#define TESTS_ENGINE_SERVICE_H

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "model_folder.h"
#include "serve/registry.h"
#include "serve/watcher.h"
#include "serve/workers.h"

enum { LENGTH_MAX = 8 };

static struct kernels kernels;

struct service {
    struct folder folder;
    struct model *model;
    struct metrics *metrics;
    struct wakeup *wakeup;
    struct watcher *watcher;
    struct engine *engine;
    struct workers *workers;
    struct limits limits;
};

static const struct limits plenty = { .sequences = 64,
                                      .source_tokens = LENGTH_MAX,
                                      .target_tokens = 16,
                                      .beams = 4,
                                      .return_sequences = 4,
                                      .default_max_new_tokens = 8,
                                      .max_new_tokens = 16,
                                      .queue_sequences = 256,
                                      .request_timeout_ms = 60000 };

/* Everything runs in the smallest pieces that are allowed. */
static const struct engine_config pieces = { .workers = 3,
                                             .batch_sequences = 6,
                                             .batch_tokens = LENGTH_MAX,
                                             .step_tokens = 1,
                                             .encode_ms = 0,
                                             .threads = 1,
                                             .kv_cache_bytes = 1 << 16,
                                             .overtakes_max = 2 };
static const struct engine_config whole = { .workers = 1,
                                            .batch_sequences = 64,
                                            .batch_tokens = 512,
                                            .step_tokens = 64,
                                            .encode_ms = 10,
                                            .threads = 1,
                                            .kv_cache_bytes = 1 << 20,
                                            .overtakes_max = 2 };

static inline void start(struct service *s, const struct engine_config *config,
                         struct limits limits, bool nan, bool work)
{
    struct error err = { 0 };
    *s = (struct service){ .folder = folder_create(), .limits = limits };
    folder_weights(&s->folder, (struct folder_options){ .nan = nan });
    assert_int_equal(model_open(&s->model, s->folder.path, "tiny", &kernels, &err), 0);
    s->metrics = metrics_create();
    s->wakeup = wakeup_create();
    assert_int_equal(watcher_start(&s->watcher, &err), 0);
    if (engine_open(&s->engine, s->model, &kernels, config, &s->limits, s->metrics, s->wakeup,
                    s->watcher, &err) < 0)
        fail_msg("%s", err.message);
    if (work)
        assert_int_equal(workers_start(&s->workers, &s->engine, 1,
                                       (struct crew){ config->workers, 1 }, s->wakeup, s->metrics,
                                       &err),
                         0);
}

static inline void stop(struct service *s)
{
    workers_stop(&s->workers);
    engine_close(&s->engine);
    watcher_stop(&s->watcher);
    wakeup_destroy(&s->wakeup);
    metrics_destroy(s->metrics);
    model_close(&s->model);
    folder_remove(&s->folder);
}

static inline void on_done(struct request *request, void *context)
{
    (void)request;
    atomic_fetch_add((atomic_int *)context, 1);
}

static inline uint32_t next(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

static inline void fill_row(const struct service *s, struct row *row, uint32_t *state)
{
    const struct option_limits allowed = { .vocabulary = 6,
                                           .positions_max = 16,
                                           .default_max_new_tokens = 8,
                                           .max_new_tokens = 16,
                                           .beams_max = 4,
                                           .sequences_max = 4 };
    struct error err = { 0 };
    row->sent_count = 1 + next(state, LENGTH_MAX);
    row->tokens = mem_alloc(row->sent_count, sizeof *row->tokens);
    row->places = mem_alloc(row->sent_count, sizeof *row->places);
    row->positions = mem_alloc(row->sent_count, sizeof *row->positions);
    for (size_t i = 0; i < row->sent_count; i++) {
        if (i + 1 < row->sent_count && next(state, 4) == 0)
            continue;                                            /* masked */
        row->tokens[row->token_count] = (int32_t)next(state, 4); /* 4 may be NaN */
        row->places[row->token_count] = row->positions[row->token_count] = (int32_t)i;
        row->token_count++;
    }
    assert_int_equal(registry_defaults(&row->options, s->model, &plenty, &err), 0);
    row->options.num_beams = 1 + next(state, 3);
    row->options.min_length = 1 + next(state, 6);
    row->options.output_attentions = next(state, 3) == 0;
    row->options.do_sample = row->options.num_beams == 1 && next(state, 2) == 0;
    row->options.num_return_sequences =
        row->options.do_sample ? 1 + next(state, 4) : row->options.num_beams;
    row->options.seed = next(state, 100);
    row->options.seed_given = true;
    row->prefix_count = row->request->kind == REQUEST_SCORE ? 1 : 1 + next(state, 4);
    row->prefix = mem_alloc(row->prefix_count, sizeof *row->prefix);
    for (size_t i = 0; i < row->prefix_count; i++)
        row->prefix[i] = i == 0 ? 2 : (int32_t)next(state, 6);
    row->target_count = row->request->kind == REQUEST_SCORE ? 1 + next(state, 9) : 0;
    row->targets = mem_alloc(row->target_count, sizeof *row->targets);
    for (size_t i = 0; i < row->target_count; i++)
        row->targets[i] = (int32_t)next(state, 6);
    assert_int_equal(options_resolve(&row->options, &allowed, row->prefix_count, "", &err), 0);
}

/* Request number `seed`, always the same. */
static inline struct request *make_request(const struct service *s, uint32_t seed, atomic_int *done)
{
    uint32_t state = seed * 7919 + 1;
    struct request *request =
        request_create((enum request_kind)next(&state, 3), 1 + next(&state, 4));
    assert_non_null(request);
    request->pooling = (enum pooling)next(&state, 5);
    request->normalize = next(&state, 2) == 0;
    request->output_attentions = next(&state, 2) == 0;
    request->received_ns = clock_ns();
    request->deadline_ns = request->received_ns + 60 * NS_PER_S;
    request->done = on_done;
    request->context = done;
    for (size_t i = 0; i < request->row_count; i++)
        fill_row(s, &request->rows[i], &state);
    return request;
}

static inline void submit(struct service *s, struct request *request)
{
    struct error err = { 0 };
    if (engine_submit(s->engine, request, &err) < 0)
        fail_msg("%s", err.message);
}

/* False: with the rows before it the request would take longer than it has. */
static inline bool submit_if_in_time(struct service *s, struct request *request)
{
    struct error err = { 0 };
    if (engine_submit(s->engine, request, &err) == 0)
        return true;
    assert_int_equal(err.code, ERR_BUSY);
    assert_non_null(strstr(err.message, "rows wait"));
    return false;
}

static inline void wait_until(atomic_int *done, int count)
{
    const uint64_t limit = clock_ns() + 60 * NS_PER_S;
    while (*done < count && clock_ns() < limit)
        usleep(1000);
    assert_int_equal(*done, count);
}

#endif
