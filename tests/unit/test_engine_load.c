/* The engine, stepped by hand: what it expects of its own pace, and requests without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

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
    struct limits limits;
};

static void start(struct service *s)
{
    const struct engine_config config = { .workers = 1,
                                          .batch_sequences = 6,
                                          .batch_tokens = LENGTH_MAX,
                                          .step_tokens = 1,
                                          .threads = 1,
                                          .kv_cache_bytes = 1 << 16,
                                          .overtakes_max = 2 };
    struct error err = { 0 };
    *s = (struct service){ .folder = folder_create(),
                           .limits = { .sequences = 64,
                                       .source_tokens = LENGTH_MAX,
                                       .target_tokens = 16,
                                       .beams = 4,
                                       .return_sequences = 4,
                                       .default_max_new_tokens = 8,
                                       .max_new_tokens = 16,
                                       .queue_sequences = 256,
                                       .request_timeout_ms = 60000 } };
    folder_weights(&s->folder, (struct folder_options){ 0 });
    assert_int_equal(model_open(&s->model, s->folder.path, "tiny", &kernels, &err), 0);
    s->metrics = metrics_create();
    s->wakeup = wakeup_create();
    assert_int_equal(watcher_start(&s->watcher, &err), 0);
    assert_int_equal(engine_open(&s->engine, s->model, &kernels, &config, &s->limits, s->metrics,
                                 s->wakeup, s->watcher, &err),
                     0);
}

static void stop(struct service *s)
{
    engine_close(&s->engine);
    watcher_stop(&s->watcher);
    wakeup_destroy(&s->wakeup);
    metrics_destroy(s->metrics);
    model_close(&s->model);
    folder_remove(&s->folder);
}

static void on_done(struct request *request, void *context)
{
    (void)request;
    ++*(int *)context;
}

/* Rows of so many equal tokens each. */
static struct request *make_request(const struct service *s, enum request_kind kind, size_t rows,
                                    size_t tokens, uint64_t ms, int *done)
{
    struct request *request = request_create(kind, rows);
    struct error err = { 0 };
    request->pooling = POOLING_MEAN;
    request->received_ns = clock_ns();
    request->deadline_ns = request->received_ns + ms * NS_PER_MS;
    request->done = on_done;
    request->context = done;
    for (size_t i = 0; i < rows; i++) {
        struct row *row = &request->rows[i];
        row->tokens = mem_alloc(tokens, sizeof *row->tokens);
        row->places = mem_alloc(tokens, sizeof *row->places);
        row->positions = mem_alloc(tokens, sizeof *row->positions);
        row->token_count = row->sent_count = tokens;
        for (size_t j = 0; j < tokens; j++)
            row->places[j] = row->positions[j] = (int32_t)j;
        if (kind != REQUEST_GENERATE)
            continue;
        row->prefix = mem_alloc(1, sizeof *row->prefix);
        row->prefix[0] = 2;
        row->prefix_count = 1;
        assert_int_equal(registry_defaults(&row->options, s->model, &s->limits, &err), 0);
        row->options.num_beams = row->options.num_return_sequences = 3;
        row->options.output_attentions = true;
        row->options.max_length = 6;
        row->options.max_new_tokens = 5;
    }
    return request;
}

static void step_until(struct service *s, const int *done, int count)
{
    for (int i = 0; i < 10000 && *done < count; i++)
        engine_step(s->engine, 0, NULL);
    assert_int_equal(*done, count);
}

/* The clients' pause is none of the engine's pace. */
static void a_pause_makes_nobody_expect_a_long_wait(void **state)
{
    (void)state;
    struct service s;
    struct error err = { 0 };
    struct request *requests[6];
    int done = 0;
    start(&s);
    for (int i = 0; i < 2; i++) {
        requests[i] = make_request(&s, REQUEST_ENCODE, 64, 1, 60000, &done);
        assert_int_equal(engine_submit(s.engine, requests[i], &err), 0);
    }
    step_until(&s, &done, 2);
    usleep(500000); /* the pause itself */
    for (int i = 2; i < 5; i++) {
        requests[i] = make_request(&s, REQUEST_ENCODE, 64, 1, 60000, &done);
        assert_int_equal(engine_submit(s.engine, requests[i], &err), 0);
    }
    const struct row *first = &requests[2]->rows[0];
    for (int i = 0; i < 10000 && first->ended_ns == 0; i++)
        engine_step(s.engine, 0, NULL);
    assert_true(first->ended_ns != 0);
    requests[5] = make_request(&s, REQUEST_ENCODE, 1, 1, 1500, &done);
    if (engine_submit(s.engine, requests[5], &err) < 0)
        fail_msg("%s", err.message);
    step_until(&s, &done, 6);
    for (int i = 0; i < 6; i++)
        request_destroy(&requests[i]);
    stop(&s);
}

static void a_short_row_is_taken_beside_the_longest_one(void **state)
{
    (void)state;
    struct service s;
    struct error err = { 0 };
    int long_done = 0, short_done = 0;
    start(&s);
    struct request *lengthy = make_request(&s, REQUEST_ENCODE, 1, LENGTH_MAX, 60000, &long_done);
    assert_int_equal(engine_submit(s.engine, lengthy, &err), 0);
    struct request *brief = make_request(&s, REQUEST_ENCODE, 1, 1, 60000, &short_done);
    assert_int_equal(engine_submit(s.engine, brief, &err), 0);
    step_until(&s, &short_done, 1);
    step_until(&s, &long_done, 1);
    assert_true(brief->rows[0].taken_ns < lengthy->rows[0].ended_ns);
    request_destroy(&lengthy);
    request_destroy(&brief);
    stop(&s);
}

static void every_failed_allocation_of_a_request_ends_it_alone(void **state)
{
    (void)state;
    struct service s;
    long failures = 0;
    start(&s);
    for (bool failed = true; failed; failures++) {
        struct error err = { 0 };
        int done = 0;
        struct request *request = make_request(&s, REQUEST_GENERATE, 3, 1, 60000, &done);
        mem_fail_after(failures);
        if (engine_submit(s.engine, request, &err) < 0) {
            mem_fail_after(-1);
            assert_int_equal(err.code, ERR_NO_MEMORY);
        } else {
            step_until(&s, &done, 1);
            mem_fail_after(-1);
            failed = request->error.code != ERR_NONE;
            assert_true(!failed || request->error.code == ERR_NO_MEMORY);
        }
        while (engine_step(s.engine, 0, NULL))
            continue;
        assert_int_equal(engine_request_count(s.engine), 0);
        request_destroy(&request);
    }
    assert_true(failures > 10);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_makes_nobody_expect_a_long_wait),
        cmocka_unit_test(a_short_row_is_taken_beside_the_longest_one),
        cmocka_unit_test(every_failed_allocation_of_a_request_ends_it_alone),
    };
    struct error err = { 0 };
    log_set_level(LOG_ERROR);
    if (kernels_init(&kernels, "", "own", &err) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
