/* Starting and reloading when memory runs out at any point: a clean error, nothing is left, and
 * what was served is served on. */
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#include "app/reload.h"
#include "base/log.h"
#include "config_reading.h"
#include "http/server.h"

/* It would be most of the work, allocates nothing and is tested elsewhere. */
int kernels_check(const struct kernels *kernels, struct error *err)
{
    (void)kernels;
    (void)err;
    return 0;
}

enum { CORES = 2, FAILURES_MAX = 20000 };

static char program[] = "seqd";
static char *no_environment[] = { NULL };
static char *words[16];
static struct invocation invocation = { .argv = words, .environment = no_environment };

static void *nothing(void *argument)
{
    return argument;
}

/* A sanitizer may start a thread of its own beside a process's first. */
static void let_sanitizer_start(void)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* With keys, a list and a model that has a tokenizer. */
static int write_keys(void **state)
{
    static char *const given[] = { program,      "--model",
                                   "models/g2p", "--server.keys_file",
                                   NULL,         "--listen",
                                   "[::1]:0",    "--engine.workers",
                                   "2",          "--engine.threads",
                                   "1",          "--server.hosts",
                                   "a,b",        NULL };
    if (make_file(state) < 0 || chmod(file_path, 0600) < 0)
        return -1;
    write_file("alice: 0123456789abcdef0123456789abcdef\n");
    memcpy(words, given, sizeof given);
    words[4] = file_path;
    for (invocation.argc = 0; words[invocation.argc] || invocation.argc == 4; invocation.argc++)
        continue;
    log_set_level(LOG_NONE);
    let_sanitizer_start();
    return 0;
}

/* What a process can leave behind besides memory. */
struct traces {
    size_t files, threads;
};

static size_t entries(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static struct traces traces(void)
{
    return (struct traces){ entries("/proc/self/fd"), entries("/proc/self/task") };
}

static void check_traces(struct traces before, long failures)
{
    struct traces now = traces();
    /* The kernel may show a thread that was joined for a moment. */
    for (int i = 0; i < 1000 && now.threads != before.threads; i++) {
        usleep(1000);
        now = traces();
    }
    if (now.files != before.files || now.threads != before.threads)
        fail_msg("after %ld allocations: %zu files, %zu threads; before %zu, %zu", failures,
                 now.files, now.threads, before.files, before.threads);
}

/* What daemon.c starts, in its order. */
struct life {
    struct metrics *metrics;
    struct watchdog *watchdog;
    struct server *server;
    struct generation *generation;
};

static int begin(struct life *life, struct error *err)
{
    struct configuration config;
    enum command command;
    const struct http_config http = { .address = "::1",
                                      .loopback = true,
                                      .threads = 2,
                                      .connections = 8,
                                      .idle_timeout_ms = 1000,
                                      .metrics_enabled = true };
    *life = (struct life){ 0 };
    int rc = configuration_read(&config, &command, invocation.argc, words, no_environment, err);
    if (rc == 0) {
        life->generation = generation_create(&config, err);
        rc = life->generation ? 0 : -1;
    }
    configuration_free(&config);
    if (rc < 0)
        return -1;
    life->metrics = metrics_create();
    if (!life->metrics)
        return error_set(err, ERR_NO_MEMORY, "no memory for metrics");
    if (server_start(&life->server, &http, &life->generation->service, life->metrics, err) < 0 ||
        watchdog_start(&life->watchdog, err) < 0 ||
        generation_open(life->generation, serving_crew(&life->generation->config, CORES),
                        life->metrics, life->watchdog, err) < 0)
        return -1;
    life->generation->service.registry = &life->generation->serving.registry;
    return 0;
}

static void end(struct life *life)
{
    server_stop(&life->server);
    generation_close(&life->generation, life->metrics, NULL);
    watchdog_stop(&life->watchdog);
    metrics_destroy(life->metrics);
}

static void check_error(const struct error *err, long failures)
{
    if (err->code != ERR_NO_MEMORY || !err->message[0])
        fail_msg("after %ld allocations: code %d, %s", failures, (int)err->code, err->message);
}

static void every_failed_allocation_of_a_start_is_a_clean_error(void **state)
{
    (void)state;
    const struct traces before = traces();
    int rc = -1;
    long failures = 0;
    for (; rc < 0; failures++) {
        struct life life;
        struct error err = { 0 };
        assert_true(failures < FAILURES_MAX);
        mem_fail_after(failures);
        rc = begin(&life, &err);
        mem_fail_after(-1);
        if (rc < 0)
            check_error(&err, failures);
        end(&life);
        check_traces(before, failures);
    }
    print_message("%ld failures\n", failures - 1);
}

static void every_failed_allocation_of_a_reload_leaves_what_is_served(void **state)
{
    (void)state;
    struct life life;
    struct error err = { 0 };
    assert_int_equal(begin(&life, &err), 0);
    const struct generation former = *life.generation;
    const struct traces before = traces();
    struct generation *next = NULL;
    long failures = 0;
    for (; !next; failures++) {
        err = (struct error){ 0 };
        assert_true(failures < FAILURES_MAX);
        mem_fail_after(failures);
        next = reload_open(life.generation, &invocation, CORES, life.metrics, life.watchdog, &err);
        mem_fail_after(-1);
        assert_memory_equal(life.generation, &former, sizeof former);
        assert_ptr_equal(registry_find(life.generation->service.registry, "g2p"),
                         former.serving.registry.models);
        if (!next) {
            check_error(&err, failures);
            check_traces(before, failures);
        }
    }
    print_message("%ld failures\n", failures - 1);
    assert_ptr_not_equal(next->serving.registry.models, former.serving.registry.models);
    generation_close(&next, life.metrics, &life.generation->serving);
    check_traces(before, failures);
    end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_failed_allocation_of_a_start_is_a_clean_error,
                                        write_keys, remove_file),
        cmocka_unit_test_setup_teardown(every_failed_allocation_of_a_reload_leaves_what_is_served,
                                        write_keys, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
