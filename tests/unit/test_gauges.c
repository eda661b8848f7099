/* What the metrics of an engine say while it works, and when nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "engine_service.h"

enum { REQUESTS = 300, QUEUE_ROWS = 24 };

#define MODEL "model=\"tiny\""

static double gauge(const struct service *s, const char *name)
{
    return gauge_value(metrics_gauge(s->metrics, name, "", MODEL));
}

static double counter(const struct service *s, const char *name, const char *labels)
{
    return counter_value(metrics_counter(s->metrics, name, "", labels));
}

static void check_rest(const struct service *s)
{
    assert_true(gauge(s, "seqd_queue_sequences") == 0);
    assert_true(gauge(s, "seqd_active_sequences") == 0);
    assert_true(gauge(s, "seqd_kv_cache_bytes") == 0);
}

struct look {
    const struct service *service;
    atomic_bool enough;
    atomic_int looks, beyond; /* how often a gauge was below 0 or above its limit */
};

static void *look(void *context)
{
    struct look *l = context;
    const struct engine_config *config = &pieces;
    const double rows =
        (double)((config->batch_sequences + config->batch_tokens) * config->workers);
    while (!l->enough) {
        const double waiting = gauge(l->service, "seqd_queue_sequences");
        const double active = gauge(l->service, "seqd_active_sequences");
        const double bytes = gauge(l->service, "seqd_kv_cache_bytes");
        l->beyond += waiting < 0 || waiting > QUEUE_ROWS || active < 0 || active > rows ||
                     bytes < 0 || bytes > (double)config->kv_cache_bytes;
        l->looks++;
    }
    return NULL;
}

/* A request meets its end, a client that leaves, a deadline, a stop, or a number that is none, and
 * may be content with a partial answer.  False: it was refused. */
static bool submit_one(struct service *s, struct request *request, uint32_t *state)
{
    struct error err = { 0 };
    const uint32_t fate = next(state, 6);
    request->partial = next(state, 2) == 0;
    if (fate == 1)
        request->deadline_ns = clock_ns() + next(state, 3000) * 1000;
    if (fate == 2)
        request->rows[0].tokens[0] = 4; /* it is no number */
    if (engine_submit(s->engine, request, &err) < 0) {
        assert_int_equal(err.code, ERR_BUSY);
        return false;
    }
    if (fate > 3)
        usleep(next(state, 1000));
    if (fate == 3 || fate == 4)
        request_cancel(request, fate == 3 ? ERR_CLIENT_GONE : ERR_SHUTTING_DOWN);
    return true;
}

/* One that is taken.  Where the queue is full another is made, so that slow workers see every fate
 * too. */
static struct request *submit_taken(struct service *s, int number, atomic_int *done,
                                    uint32_t *state)
{
    struct request *request = make_request(s, (uint32_t)number, done);
    while (!submit_one(s, request, state)) {
        request_destroy(&request);
        usleep(100);
        request = make_request(s, (uint32_t)number, done);
    }
    return request;
}

static void check_counters(const struct service *s, struct request *const requests[])
{
    double ended[ERROR_CODE_COUNT] = { 0 };
    for (int i = 0; i < REQUESTS; i++)
        ended[requests[i]->error.code]++;
    const char *const name = "seqd_requests_cancelled_total";
    assert_true(ended[ERR_NONE] > 0 && ended[ERR_NONFINITE] > 0 && ended[ERR_CLIENT_GONE] > 0);
    assert_true(counter(s, name, MODEL ",reason=\"deadline\"") == ended[ERR_DEADLINE]);
    assert_true(counter(s, name, MODEL ",reason=\"client_gone\"") == ended[ERR_CLIENT_GONE]);
    assert_true(counter(s, name, MODEL ",reason=\"shutdown\"") == ended[ERR_SHUTTING_DOWN]);
    assert_true(counter(s, "seqd_nonfinite_outputs_total", MODEL) >= ended[ERR_NONFINITE]);
}

static void check_workers(const struct service *s, double started)
{
    double busy = 0;
    for (size_t i = 0; i < pieces.workers; i++) {
        char label[32];
        snprintf(label, sizeof label, "worker=\"%zu\"", i);
        const double last = gauge_value(
            metrics_gauge(s->metrics, "seqd_worker_last_step_timestamp_seconds", "", label));
        assert_true(last >= started && last <= clock_unix_seconds());
        busy += counter(s, "seqd_worker_busy_seconds_total", label);
    }
    assert_true(busy > 0 && busy <= (clock_unix_seconds() - started) * (double)pieces.workers);
}

static void gauges_keep_their_limits_and_are_0_at_rest_whatever_became_of_the_requests(void **state)
{
    (void)state;
    struct service s;
    struct request *requests[REQUESTS];
    struct limits limits = plenty;
    atomic_int done = 0;
    uint32_t random = 7;
    pthread_t thread;
    const double started = clock_unix_seconds();
    limits.queue_sequences = QUEUE_ROWS;
    limits.sequences = 4;
    start(&s, &pieces, limits, true, true);
    struct look l = { .service = &s };
    assert_int_equal(pthread_create(&thread, NULL, look, &l), 0);
    while (l.looks == 0)
        usleep(100);
    for (int i = 0; i < REQUESTS; i++)
        requests[i] = submit_taken(&s, i, &done, &random);
    wait_until(&done, REQUESTS);
    while (engine_request_count(s.engine) > 0)
        usleep(1000);
    check_rest(&s);
    l.enough = true;
    pthread_join(thread, NULL);
    assert_int_equal(l.beyond, 0);
    check_counters(&s, requests);
    check_workers(&s, started);
    for (int i = 0; i < REQUESTS; i++)
        request_destroy(&requests[i]);
    stop(&s);
}

/* As while a configuration is read again: two engines of one name. */
static void two_engines_of_a_name_add_up_and_the_published_one_tells_the_limits(void **state)
{
    (void)state;
    struct service s;
    struct engine *next_engine;
    struct error err = { 0 };
    struct limits limits = plenty;
    atomic_int done = 0;
    start(&s, &whole, plenty, false, false);
    engine_publish(s.engine);
    limits.queue_sequences = 77;
    assert_int_equal(engine_open(&next_engine, s.model, &kernels, &whole, &limits, s.metrics,
                                 s.wakeup, s.watcher, &err),
                     0);
    struct request *first = make_request(&s, 1, &done), *second = make_request(&s, 2, &done);
    const double rows = (double)(first->row_count + second->row_count);
    submit(&s, first);
    assert_int_equal(engine_submit(next_engine, second, &err), 0);
    assert_true(gauge(&s, "seqd_queue_sequences") == rows);
    assert_true(gauge(&s, "seqd_queue_limit_sequences") == (double)plenty.queue_sequences);
    engine_publish(next_engine);
    assert_true(gauge(&s, "seqd_queue_limit_sequences") == 77);
    while (engine_step(s.engine, 0, NULL))
        ;
    assert_int_equal(done, 1);
    assert_true(gauge(&s, "seqd_queue_sequences") == (double)second->row_count);
    while (engine_step(next_engine, 0, NULL))
        ;
    check_rest(&s);
    request_destroy(&first);
    request_destroy(&second);
    engine_close(&next_engine);
    stop(&s);
}

static void what_alerts_look_at_is_there_before_anything_happens(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "\nseqd_queue_sequences{model=\"tiny\"} 0\n",
        "\nseqd_active_sequences{model=\"tiny\"} 0\n",
        "\nseqd_kv_cache_bytes{model=\"tiny\"} 0\n",
        "\nseqd_queue_limit_sequences{model=\"tiny\"} 256\n",
        "\nseqd_active_sequences_limit{model=\"tiny\"} 64\n",
        "\nseqd_requests_rejected_total{model=\"tiny\",reason=\"queue_full\"} 0\n",
        "\nseqd_requests_cancelled_total{model=\"tiny\",reason=\"deadline\"} 0\n",
        "\nseqd_nonfinite_outputs_total{model=\"tiny\"} 0\n",
        "\nseqd_queue_wait_seconds_bucket{model=\"tiny\",le=\"0.0005\"} 0\n",
        "\nseqd_queue_wait_seconds_bucket{model=\"tiny\",le=\"120\"} 0\n",
        "\nseqd_batch_tokens_bucket{model=\"tiny\",phase=\"decode\",le=\"1024\"} 0\n",
        "\nseqd_model_info{model=\"tiny\",family=\"transformer\",dtype=\"float32\"} 1\n",
    };
    struct service s;
    struct buffer out;
    start(&s, &whole, plenty, false, false);
    engine_publish(s.engine);
    buffer_init(&out, 1 << 20);
    metrics_render(s.metrics, &out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(out.data, lines[i]))
            fail_msg("no %s in\n%s", lines[i], out.data);
    buffer_free(&out);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            gauges_keep_their_limits_and_are_0_at_rest_whatever_became_of_the_requests),
        cmocka_unit_test(two_engines_of_a_name_add_up_and_the_published_one_tells_the_limits),
        cmocka_unit_test(what_alerts_look_at_is_there_before_anything_happens),
    };
    struct error err = { 0 };
    log_set_level(LOG_ERROR);
    if (kernels_init(&kernels, "", "own", &err) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
