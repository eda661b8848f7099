#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include "app/signals.h"
#include "base/clock.h"
#include "base/log.h"

static sem_t finished;

static void *outlive(void *unused)
{
    while (sem_wait(&finished) != 0)
        ;
    return unused;
}

/* As a library's thread from before main: it blocks nothing. */
static pthread_t older_thread;

static int start(void **state)
{
    (void)state;
    sem_init(&finished, 0, 0);
    if (pthread_create(&older_thread, NULL, outlive, NULL) != 0)
        return -1;
    signals_block();
    log_set_level(LOG_NONE);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    sem_post(&finished);
    return pthread_join(older_thread, NULL);
}

static void a_stop_that_came_before_the_wait_is_not_lost(void **state)
{
    (void)state;
    static const int signals[] = { SIGTERM, SIGINT };
    for (size_t i = 0; i < 2; i++) {
        kill(getpid(), signals[i]);
        assert_true(signals_wait_stop(5000));
        assert_false(signals_wait_stop(0));
    }
}

static void a_stop_that_another_thread_got_reaches_main(void **state)
{
    (void)state;
    assert_int_equal(pthread_kill(older_thread, SIGTERM), 0);
    assert_true(signals_wait_stop(5000));
}

static void sighup_and_sigpipe_do_not_stop(void **state)
{
    (void)state;
    const uint64_t start_ns = clock_ns();
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGPIPE);
    assert_false(signals_wait_stop(30));
    assert_true(clock_ns() - start_ns >= 30 * NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_that_came_before_the_wait_is_not_lost),
        cmocka_unit_test(a_stop_that_another_thread_got_reaches_main),
        cmocka_unit_test(sighup_and_sigpipe_do_not_stop),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
