/* The engine with its workers: bits that do not depend on the batch, one answer for every request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine_service.h"

enum { REQUESTS = 48 };

static void same_floats(const float *a, const float *b, size_t count)
{
    assert_int_equal(!a, !b);
    if (a)
        assert_memory_equal(a, b, count * sizeof *a);
}

static void same_sequences(const struct row *a, const struct row *b)
{
    const size_t count = search_sequence_count(a->answer.search);
    assert_int_equal(count, search_sequence_count(b->answer.search));
    for (size_t i = 0; i < count; i++) {
        const struct sequence x = search_sequence(a->answer.search, i);
        const struct sequence y = search_sequence(b->answer.search, i);
        assert_int_equal(x.count, y.count);
        assert_int_equal(x.finish_reason, y.finish_reason);
        assert_memory_equal(x.tokens, y.tokens, x.count * sizeof *x.tokens);
        same_floats(&x.logprob, &y.logprob, 1);
        if (a->answer.sequence_attentions)
            same_floats(a->answer.sequence_attentions[i], b->answer.sequence_attentions[i],
                        2 * (a->prefix_count + x.count - (x.count > 0)) * a->sent_count);
    }
}

static void same_answers(const struct request *a, const struct request *b)
{
    assert_int_equal(a->error.code, ERR_NONE);
    assert_int_equal(b->error.code, ERR_NONE);
    for (size_t i = 0; i < a->row_count; i++) {
        const struct row *x = &a->rows[i], *y = &b->rows[i];
        const size_t sent = x->sent_count, T = x->target_count;
        const size_t vectors = a->pooling == POOLING_NONE ? sent : 1;
        same_floats(x->answer.embedding, y->answer.embedding, vectors * 4);
        same_floats(x->answer.encoder_attentions, y->answer.encoder_attentions, 2 * sent * sent);
        same_floats(x->answer.token_logprobs, y->answer.token_logprobs, T);
        same_floats(x->answer.decoder_attentions, y->answer.decoder_attentions, 2 * T * T);
        same_floats(x->answer.cross_attentions, y->answer.cross_attentions, 2 * T * sent);
        if (a->kind == REQUEST_GENERATE)
            same_sequences(x, y);
    }
}

static void answers_are_the_same_bits_alone_and_in_any_batch(void **state)
{
    (void)state;
    struct service alone, together;
    struct request *expected[REQUESTS], *requests[REQUESTS];
    atomic_int done_alone = 0, done = 0;
    start(&alone, &whole, plenty, false, true);
    start(&together, &pieces, plenty, false, true);
    for (int i = 0; i < REQUESTS; i++) {
        expected[i] = make_request(&alone, (uint32_t)i, &done_alone);
        requests[i] = make_request(&together, (uint32_t)i, &done);
        submit(&alone, expected[i]);
        wait_until(&done_alone, i + 1);
    }
    for (int i = 0; i < REQUESTS; i++)
        submit(&together, requests[(i * 31) % REQUESTS]);
    wait_until(&done, REQUESTS);
    while (engine_request_count(together.engine) > 0)
        usleep(1000);
    for (int i = 0; i < REQUESTS; i++) {
        same_answers(expected[i], requests[i]);
        request_destroy(&expected[i]);
        request_destroy(&requests[i]);
    }
    stop(&alone);
    stop(&together);
}

static void cancelled_requests_end_once_and_others_are_not_disturbed(void **state)
{
    (void)state;
    static const enum error_code reasons[] = { ERR_NONE, ERR_CLIENT_GONE, ERR_SHUTTING_DOWN };
    struct service s;
    struct request *requests[REQUESTS];
    atomic_int done = 0;
    int refused = 0;
    start(&s, &pieces, plenty, false, true);
    for (int i = 0; i < REQUESTS; i++) {
        requests[i] = make_request(&s, (uint32_t)i, &done);
        if (i % 3 == 0 && i % 2 == 0)
            requests[i]->deadline_ns = clock_ns() + (uint64_t)(i % 5) * NS_PER_MS;
        if (!submit_if_in_time(&s, requests[i])) /* a deadline that the queue cannot keep */
            requests[i]->error.code = ERR_DEADLINE, refused++;
        else if (i % 3 > 0)
            request_cancel(requests[i], reasons[i % 3]);
    }
    wait_until(&done, REQUESTS - refused);
    while (engine_request_count(s.engine) > 0)
        usleep(1000);
    for (int i = 0; i < REQUESTS; i++) {
        const enum error_code code = requests[i]->error.code;
        assert_true(requests[i]->state == REQUEST_DONE || requests[i]->state == REQUEST_REFUSED);
        assert_true(code == ERR_NONE || code == reasons[i % 3] || code == ERR_DEADLINE);
        assert_true(i % 3 > 0 || i % 2 == 0 || code == ERR_NONE);
        request_destroy(&requests[i]);
    }
    stop(&s);
}

static void a_deadline_gives_504_or_what_there_is(void **state)
{
    (void)state;
    struct service s;
    atomic_int done = 0;
    start(&s, &pieces, plenty, false, false);
    for (int partial = 0; partial < 2; partial++) {
        struct request *request = NULL;
        for (uint32_t seed = 0; !request || request->kind != REQUEST_GENERATE; seed++) {
            request_destroy(&request);
            request = make_request(&s, seed, &done);
        }
        request->partial = partial;
        request->deadline_ns = request->received_ns;
        submit(&s, request);
        /* The watcher's turn comes before the first step, or the row would be begun. */
        for (int i = 0; request->cancelled == ERR_NONE && i < 10000; i++)
            usleep(1000);
        engine_step(s.engine, 0, NULL);
        assert_int_equal(done, partial + 1);
        assert_int_equal(request->error.code, partial ? ERR_NONE : ERR_DEADLINE);
        assert_null(request->rows[0].answer.search); /* it was not begun */
        request_destroy(&request);
    }
    stop(&s);
}

/* A generate request with one row of one token that ends at `length`. */
static struct request *plain_request(const struct service *s, size_t prefix_count, size_t length,
                                     atomic_int *done)
{
    struct request *request = request_create(REQUEST_GENERATE, 1);
    struct row *row = &request->rows[0];
    struct error err = { 0 };
    row->tokens = mem_alloc(1, sizeof *row->tokens);
    row->places = mem_alloc(1, sizeof *row->places);
    row->positions = mem_alloc(1, sizeof *row->positions);
    row->token_count = row->sent_count = 1;
    row->prefix = mem_alloc(prefix_count, sizeof *row->prefix);
    row->prefix[0] = 2;
    row->prefix_count = prefix_count;
    assert_int_equal(registry_defaults(&row->options, s->model, &plenty, &err), 0);
    row->options.max_length = row->options.min_length = length;
    row->options.max_new_tokens = length - prefix_count;
    request->received_ns = clock_ns();
    request->deadline_ns = request->received_ns + 60 * NS_PER_S;
    request->done = on_done;
    request->context = done;
    return request;
}

static void a_long_prefix_does_not_hold_up_a_short_row(void **state)
{
    (void)state;
    struct service s;
    struct engine_config config = pieces;
    atomic_int long_done = 0, short_done = 0;
    config.workers = 1;
    start(&s, &config, plenty, false, false);
    struct request *lengthy = plain_request(&s, 15, 16, &long_done);
    struct request *brief = plain_request(&s, 1, 2, &short_done);
    submit(&s, lengthy);
    submit(&s, brief);
    for (int i = 0; i < 1000 && !short_done; i++)
        engine_step(s.engine, 0, NULL);
    assert_int_equal(short_done, 1);
    assert_int_equal(long_done, 0);
    for (int i = 0; i < 1000 && !long_done; i++)
        engine_step(s.engine, 0, NULL);
    assert_int_equal(long_done, 1);
    request_destroy(&lengthy);
    request_destroy(&brief);
    stop(&s);
}

static void weights_that_are_not_whole_are_not_answered(void **state)
{
    (void)state;
    struct service s;
    struct engine_config config = pieces;
    atomic_int done = 0;
    config.workers = 1;
    start(&s, &config, plenty, false, false);
    struct request *request = plain_request(&s, 1, 16, &done);
    const struct row *row = &request->rows[0];
    request->rows[0].options.output_attentions = true;
    request->partial = true;
    submit(&s, request);
    while (!row->answer.sequence_attentions)
        engine_step(s.engine, 0, NULL);
    engine_step(s.engine, 0, NULL); /* a piece of the review */
    request_cancel(request, ERR_DEADLINE);
    engine_step(s.engine, 0, NULL);
    assert_int_equal(done, 1);
    assert_int_equal(request->error.code, ERR_NONE);
    assert_int_equal(search_sequence(row->answer.search, 0).count, 15);
    assert_null(row->answer.sequence_attentions[0]);
    request_destroy(&request);
    stop(&s);
}

static void a_number_that_is_none_fails_its_request_alone(void **state)
{
    (void)state;
    struct service s;
    atomic_int done = 0;
    start(&s, &whole, plenty, true, true);
    struct request *bad = make_request(&s, 5, &done), *good = make_request(&s, 6, &done);
    bad->rows[0].tokens[0] = 4;
    submit(&s, bad);
    submit(&s, good);
    wait_until(&done, 2);
    while (engine_request_count(s.engine) > 0)
        usleep(1000);
    assert_int_equal(bad->error.code, ERR_NONFINITE);
    request_destroy(&bad);
    request_destroy(&good);
    stop(&s);
}

static void what_cannot_be_served_is_refused_and_stays_the_callers(void **state)
{
    (void)state;
    struct service s;
    atomic_int done = 0;
    struct limits limits = plenty;
    struct error err = { 0 };
    limits.queue_sequences = 64;
    start(&s, &pieces, limits, false, false);
    struct request *large = make_request(&s, 1, &done);
    large->kind = REQUEST_GENERATE;
    large->rows[0].options.max_length = 16;
    large->rows[0].options.num_beams = 64;
    assert_int_equal(engine_submit(s.engine, large, &err), -1);
    assert_int_equal(err.code, ERR_OVER_LIMIT);
    request_destroy(&large);
    engine_stop_accepting(s.engine);
    struct request *late = make_request(&s, 2, &done);
    err = (struct error){ 0 };
    assert_int_equal(engine_submit(s.engine, late, &err), -1);
    assert_int_equal(err.code, ERR_SHUTTING_DOWN);
    assert_int_equal(late->state, REQUEST_REFUSED);
    request_destroy(&late);
    assert_int_equal(done, 0);
    assert_int_equal(engine_request_count(s.engine), 0);
    stop(&s);
}

static void limits_that_cannot_hold_one_row_are_a_configuration_error(void **state)
{
    (void)state;
    struct service s;
    struct engine *engine;
    struct error err = { 0 };
    struct limits limits = plenty;
    limits.beams = 7;
    start(&s, &pieces, plenty, false, false);
    assert_int_equal(engine_open(&engine, s.model, &kernels, &pieces, &limits, s.metrics, s.wakeup,
                                 s.watcher, &err),
                     -1);
    assert_int_equal(err.code, ERR_CONFIG);
    assert_non_null(strstr(err.message, "limits.beams is 7"));
    stop(&s);
}

/* A pause before a burst is not the pace of its rows. */
static void after_a_pause_a_burst_does_not_seem_slow(void **state)
{
    (void)state;
    enum { PAUSE_US = 400000, BURST = 100 };
    struct service s;
    atomic_int done = 0;
    struct request *requests[BURST + 1];
    start(&s, &whole, plenty, false, false);
    for (int i = 0; i < BURST; i++) {
        requests[i] = make_request(&s, (uint32_t)i, &done);
        submit(&s, requests[i]);
        while (i == 0 && done == 0)
            engine_step(s.engine, 0, NULL);
        if (i == 0)
            usleep(PAUSE_US);
    }
    while (done < 2)
        engine_step(s.engine, 0, NULL);
    requests[BURST] = make_request(&s, BURST, &done);
    requests[BURST]->deadline_ns = clock_ns() + 10 * NS_PER_S;
    assert_true(submit_if_in_time(&s, requests[BURST]));
    while (done <= BURST)
        engine_step(s.engine, 0, NULL);
    for (int i = 0; i <= BURST; i++)
        request_destroy(&requests[i]);
    stop(&s);
}

static void every_failed_allocation_of_the_engine_is_clean(void **state)
{
    (void)state;
    struct service s;
    struct engine *engine = NULL;
    long failures = 0;
    start(&s, &pieces, plenty, false, false);
    for (;; failures++) {
        struct error err = { 0 };
        mem_fail_after(failures);
        const int rc = engine_open(&engine, s.model, &kernels, &pieces, &s.limits, s.metrics,
                                   s.wakeup, s.watcher, &err);
        mem_fail_after(-1);
        if (rc == 0)
            break;
        assert_int_equal(err.code, ERR_NO_MEMORY);
        assert_null(engine);
    }
    assert_true(failures > 10);
    engine_close(&engine);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_bits_alone_and_in_any_batch),
        cmocka_unit_test(cancelled_requests_end_once_and_others_are_not_disturbed),
        cmocka_unit_test(a_deadline_gives_504_or_what_there_is),
        cmocka_unit_test(a_long_prefix_does_not_hold_up_a_short_row),
        cmocka_unit_test(weights_that_are_not_whole_are_not_answered),
        cmocka_unit_test(a_number_that_is_none_fails_its_request_alone),
        cmocka_unit_test(what_cannot_be_served_is_refused_and_stays_the_callers),
        cmocka_unit_test(limits_that_cannot_hold_one_row_are_a_configuration_error),
        cmocka_unit_test(after_a_pause_a_burst_does_not_seem_slow),
        cmocka_unit_test(every_failed_allocation_of_the_engine_is_clean),
    };
    struct error err = { 0 };
    log_set_level(LOG_ERROR);
    if (kernels_init(&kernels, "", "own", &err) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
