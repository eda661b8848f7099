/* The engine, stepped by hand: what it expects of its own pace, and requests without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "engine_service.h"

static const struct engine_config small = { .workers = 1,
                                            .batch_sequences = 6,
                                            .batch_tokens = LENGTH_MAX,
                                            .step_tokens = 1,
                                            .threads = 1,
                                            .kv_cache_bytes = 1 << 16,
                                            .overtakes_max = 2 };

/* Of the model; in a longer row they repeat. */
enum { POSITIONS = 16 };

/* Rows of so many equal tokens each. */
static struct request *plain_request(const struct service *s, enum request_kind kind, size_t rows,
                                     size_t tokens, uint64_t ms, atomic_int *done)
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
            row->places[j] = (int32_t)j, row->positions[j] = (int32_t)j % POSITIONS;
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

static void step_until(struct service *s, const atomic_int *done, int count)
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
    atomic_int done = 0;
    start(&s, &small, plenty, false, false);
    for (int i = 0; i < 2; i++) {
        requests[i] = plain_request(&s, REQUEST_ENCODE, 64, 1, 60000, &done);
        assert_int_equal(engine_submit(s.engine, requests[i], &err), 0);
    }
    step_until(&s, &done, 2);
    usleep(500000); /* the pause itself */
    for (int i = 2; i < 5; i++) {
        requests[i] = plain_request(&s, REQUEST_ENCODE, 64, 1, 60000, &done);
        assert_int_equal(engine_submit(s.engine, requests[i], &err), 0);
    }
    const struct row *first = &requests[2]->rows[0];
    for (int i = 0; i < 10000 && first->ended_ns == 0; i++)
        engine_step(s.engine, 0, NULL);
    assert_true(first->ended_ns != 0);
    requests[5] = plain_request(&s, REQUEST_ENCODE, 1, 1, 1500, &done);
    if (engine_submit(s.engine, requests[5], &err) < 0)
        fail_msg("%s", err.message);
    step_until(&s, &done, 6);
    for (int i = 0; i < 6; i++)
        request_destroy(&requests[i]);
    stop(&s);
}

/* All of them are in the lane when their time is over. */
static void a_crowd_that_was_late_as_a_whole_lets_the_next_one_be_refused(void **state)
{
    (void)state;
    enum { ROWS = 16, MS = 200 };
    struct service s;
    struct error err = { 0 };
    struct engine_config config = small;
    atomic_int done = 0;
    config.batch_sequences = 3 * ROWS;
    config.kv_cache_bytes = 1 << 22;
    start(&s, &config, plenty, false, false);
    struct request *crowd = plain_request(&s, REQUEST_GENERATE, ROWS, 1, MS, &done);
    assert_int_equal(engine_submit(s.engine, crowd, &err), 0);
    while (crowd->rows[ROWS - 1].taken_ns == 0)
        engine_step(s.engine, 0, NULL);
    usleep(2 * MS * 1000);
    step_until(&s, &done, 1);
    assert_int_equal(crowd->error.code, ERR_DEADLINE);
    struct request *few = plain_request(&s, REQUEST_GENERATE, ROWS / 2, 1, MS, &done);
    assert_int_equal(engine_submit(s.engine, few, &err), 0);
    struct request *more = plain_request(&s, REQUEST_GENERATE, 1, 1, MS, &done);
    assert_int_equal(engine_submit(s.engine, more, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    step_until(&s, &done, 2);
    request_destroy(&crowd);
    request_destroy(&few);
    request_destroy(&more);
    stop(&s);
}

static void a_short_row_is_taken_beside_the_longest_one(void **state)
{
    (void)state;
    struct service s;
    struct error err = { 0 };
    atomic_int long_done = 0, short_done = 0;
    start(&s, &small, plenty, false, false);
    struct request *lengthy = plain_request(&s, REQUEST_ENCODE, 1, LENGTH_MAX, 60000, &long_done);
    assert_int_equal(engine_submit(s.engine, lengthy, &err), 0);
    struct request *brief = plain_request(&s, REQUEST_ENCODE, 1, 1, 60000, &short_done);
    assert_int_equal(engine_submit(s.engine, brief, &err), 0);
    step_until(&s, &short_done, 1);
    step_until(&s, &long_done, 1);
    assert_true(brief->rows[0].taken_ns < lengthy->rows[0].ended_ns);
    request_destroy(&lengthy);
    request_destroy(&brief);
    stop(&s);
}

/* There is room for all of them in one pass, but then the short one would end with the others.  One
 * of those has its turns beside it, and may end. */
static void a_short_row_does_not_wait_for_the_long_ones_that_came_first(void **state)
{
    (void)state;
    enum { LONG = 4, TOKENS = 2000 };
    struct service s;
    struct error err = { 0 };
    struct request *lengthy[LONG];
    struct limits limits = plenty;
    struct engine_config config = small;
    atomic_int long_done = 0, short_done = 0;
    limits.source_tokens = TOKENS;
    config.batch_tokens = 2 * LONG * TOKENS;
    start(&s, &config, limits, false, false);
    for (int i = 0; i < LONG; i++) {
        lengthy[i] = plain_request(&s, REQUEST_ENCODE, 1, TOKENS, 60000, &long_done);
        assert_int_equal(engine_submit(s.engine, lengthy[i], &err), 0);
    }
    struct request *brief = plain_request(&s, REQUEST_ENCODE, 1, 1, 60000, &short_done);
    assert_int_equal(engine_submit(s.engine, brief, &err), 0);
    step_until(&s, &short_done, 1);
    assert_true(long_done <= 1);
    step_until(&s, &long_done, LONG);
    for (int i = 0; i < LONG; i++)
        request_destroy(&lengthy[i]);
    request_destroy(&brief);
    stop(&s);
}

static void every_failed_allocation_of_a_request_ends_it_alone(void **state)
{
    (void)state;
    struct service s;
    long failures = 0;
    start(&s, &small, plenty, false, false);
    for (bool failed = true; failed; failures++) {
        struct error err = { 0 };
        atomic_int done = 0;
        struct request *request = plain_request(&s, REQUEST_GENERATE, 3, 1, 60000, &done);
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
        cmocka_unit_test(a_crowd_that_was_late_as_a_whole_lets_the_next_one_be_refused),
        cmocka_unit_test(a_pause_makes_nobody_expect_a_long_wait),
        cmocka_unit_test(a_short_row_is_taken_beside_the_longest_one),
        cmocka_unit_test(a_short_row_does_not_wait_for_the_long_ones_that_came_first),
        cmocka_unit_test(every_failed_allocation_of_a_request_ends_it_alone),
    };
    struct error err = { 0 };
    log_set_level(LOG_ERROR);
    if (kernels_init(&kernels, "", "own", &err) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
