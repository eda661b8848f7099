#include "app/daemon.h"

#include <sys/resource.h>

#include "app/notify.h"
#include "app/process_metrics.h"
#include "app/signals.h"
#include "base/background.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "http/server.h"

enum {
    POLL_MS = 10,
    LOADING_POLL_MS = 1, /* as much later than necessary a daemon is ready */
    ENDING_MS = 30000,   /* cancelled requests: one step of every worker, and no step is long */
    SENDING_MS = 5000,   /* answers that are ready */
    OTHER_FDS = 256      /* beside connections: files of models, log, listener, epoll */
};

struct daemon {
    const struct invocation *invocation;
    double cores;
    struct metrics *metrics;
    struct gauge *reload_succeeded, *reload_time;
    struct watchdog *watchdog;
    struct server *server;
    struct generation *current;
    struct generation *replaced; /* the newest first; their last requests are being answered */
    /* Models are loaded beside main, which obeys signals meanwhile. */
    struct background loading;
    bool is_loading;         /* until main has seen its end */
    bool reload_again;       /* SIGHUP came meanwhile */
    struct generation *next; /* what has been loaded; NULL: see loading_error */
    struct error loading_error;
};

/* The soft limit of open files is often 1024 for the sake of select(), which nothing here uses. */
static void raise_open_files(size_t connections)
{
    const rlim_t wanted = connections + OTHER_FDS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        log_write(LOG_WARNING,
                  "server.connections is %zu, but only %llu files may be open (ulimit -n)",
                  connections, (unsigned long long)limit.rlim_cur);
}

static int start_server(struct daemon *daemon, struct error *err)
{
    const struct configuration *config = &daemon->current->config;
    const struct http_config http = {
        .address = config->listen.host,
        .loopback = config->listen.loopback,
        .port = config->listen.port,
        .threads = config->server.threads,
        .connections = config->server.connections,
        .connections_per_address = config->server.connections_per_address,
        .idle_timeout_ms = config->server.idle_timeout_ms,
        .metrics_enabled = config->metrics_enabled,
    };
    raise_open_files(http.connections);
    return server_start(&daemon->server, &http, &daemon->current->service, daemon->metrics, err);
}

static void log_budget(double cores, struct crew crew)
{
    struct log_line line;
    log_begin(&line, LOG_INFO, "cpu");
    log_number(&line, "budget_cores", cores);
    log_integer(&line, "workers", (int64_t)crew.workers);
    log_integer(&line, "threads", (int64_t)crew.threads);
    log_end(&line);
}

/* The names of the models that are served, in the log. */
static void log_models(struct log_line *line, const struct daemon *daemon)
{
    const struct registry *registry = &daemon->current->serving.registry;
    struct buffer names;
    buffer_init(&names, 4096);
    for (size_t i = 0; i < registry->count; i++)
        buffer_printf(&names, "%s%s", i ? "," : "", registry->models[i].name);
    log_text(line, "models", names.data ? names.data : "");
    buffer_free(&names);
}

static void log_ready(const struct daemon *daemon)
{
    struct log_line line;
    log_begin(&line, LOG_INFO, "ready");
    log_text(&line, "address", daemon->current->config.listen.host);
    log_integer(&line, "port", server_port(daemon->server));
    log_text(&line, "scheme", daemon->current->credentials.certificate ? "https" : "http");
    log_models(&line, daemon);
    log_number(&line, "seconds",
               (double)(clock_ns() - daemon->invocation->started_ns) / (double)NS_PER_S);
    log_end(&line);
}

static int start_metrics(struct daemon *daemon, struct error *err)
{
    daemon->metrics = metrics_create();
    if (!daemon->metrics)
        return error_set(err, ERR_NO_MEMORY, "no memory for metrics");
    process_metrics_register(daemon->metrics, daemon->cores);
    daemon->reload_succeeded = metrics_gauge(
        daemon->metrics, "seqd_config_last_reload_successful",
        "1 if the configuration was good when it was last read, 0 if it was refused.", "");
    daemon->reload_time =
        metrics_gauge(daemon->metrics, "seqd_config_last_reload_success_timestamp_seconds",
                      "When the configuration that is in use was read, in seconds since 1970.", "");
    return 0;
}

static void count_reload(const struct daemon *daemon, bool good)
{
    gauge_set(daemon->reload_succeeded, good);
    if (good)
        gauge_set(daemon->reload_time, clock_unix_seconds());
}

static void open_first(void *context)
{
    struct daemon *daemon = context;
    struct generation *first = daemon->current;
    if (generation_open(first, serving_crew(&first->config, daemon->cores), daemon->metrics,
                        daemon->watchdog, &daemon->loading_error) == 0)
        daemon->next = first;
}

static void open_next(void *context)
{
    struct daemon *daemon = context;
    daemon->next = reload_open(daemon->current, daemon->invocation, daemon->cores, daemon->metrics,
                               daemon->watchdog, &daemon->loading_error);
}

/* STOPPED: a signal asked for it, and the models are still being loaded. */
enum outcome { OUTCOME_GOOD, OUTCOME_FAILED, OUTCOME_STOPPED };

static enum outcome load(struct daemon *daemon, void (*open)(void *daemon), struct error *err)
{
    daemon->next = NULL;
    daemon->loading_error = (struct error){ 0 };
    if (background_start(&daemon->loading, open, daemon, err) < 0)
        return OUTCOME_FAILED;
    daemon->is_loading = true;
    while (!background_is_done(&daemon->loading)) {
        const enum signal_event event = signals_wait(LOADING_POLL_MS);
        if (event == SIGNAL_STOP)
            return OUTCOME_STOPPED;
        daemon->reload_again = daemon->reload_again || event == SIGNAL_RELOAD;
    }
    background_join(&daemon->loading);
    daemon->is_loading = false;
    if (daemon->next)
        return OUTCOME_GOOD;
    *err = daemon->loading_error;
    return OUTCOME_FAILED;
}

/* Probes answer from server_start() on, long before the models are there. */
static enum outcome start(struct daemon *daemon, struct configuration *config, struct error *err)
{
    daemon->cores = cpu_budget_cores();
    log_budget(daemon->cores, serving_crew(config, daemon->cores));
    daemon->current = generation_create(config, err);
    if (!daemon->current || start_metrics(daemon, err) < 0 || start_server(daemon, err) < 0 ||
        watchdog_start(&daemon->watchdog, err) < 0)
        return OUTCOME_FAILED;
    const enum outcome outcome = load(daemon, open_first, err);
    if (outcome != OUTCOME_GOOD)
        return outcome;
    serving_publish(&daemon->current->serving, daemon->metrics);
    server_set_registry(daemon->server, &daemon->current->serving.registry);
    count_reload(daemon, true);
    log_ready(daemon);
    notify_ready();
    return OUTCOME_GOOD;
}

static void close_unused(struct daemon *daemon)
{
    for (struct generation **place = &daemon->replaced; *place;) {
        struct generation *generation = *place;
        if (!generation_is_unused(generation)) {
            place = &generation->older;
            continue;
        }
        *place = generation->older;
        generation_close(&generation, daemon->metrics, &daemon->current->serving);
        log_write(LOG_INFO, "the former models are closed");
    }
}

static void replace_current(struct daemon *daemon, struct generation *next)
{
    struct generation *former = daemon->current;
    serving_publish(&next->serving, daemon->metrics);
    server_set_service(daemon->server, &next->service);
    daemon->current = next;
    former->older = daemon->replaced;
    daemon->replaced = former;
    log_set_level(configuration_log_level(&next->config));
    struct log_line line;
    log_begin(&line, LOG_INFO, "reloaded");
    log_models(&line, daemon);
    log_end(&line);
}

/* The new generation is whole before anything changes; whatever fails, the old one serves on. */
static enum outcome reload(struct daemon *daemon)
{
    struct error err = { 0 };
    daemon->reload_again = false;
    notify_reloading();
    const enum outcome outcome = load(daemon, open_next, &err);
    if (outcome == OUTCOME_STOPPED)
        return outcome;
    count_reload(daemon, outcome == OUTCOME_GOOD);
    if (outcome == OUTCOME_GOOD)
        replace_current(daemon, daemon->next);
    else
        log_write(LOG_ERROR, "SIGHUP: what was served is served on: %s", err.message);
    notify_ready();
    return outcome;
}

/* Until a signal stops it. */
static void serve(struct daemon *daemon)
{
    enum signal_event event = SIGNAL_NONE;
    while (event != SIGNAL_STOP) {
        if ((event == SIGNAL_RELOAD || daemon->reload_again) && reload(daemon) == OUTCOME_STOPPED)
            return;
        close_unused(daemon);
        event = signals_wait(daemon->reload_again ? 0 : daemon->replaced ? POLL_MS : -1);
    }
}

/* From whatever start() reached; no request is left.  The server goes before the engines, which its
 * threads submit to. */
static void close_all(struct daemon *daemon)
{
    if (daemon->current) {
        daemon->current->older = daemon->replaced;
        daemon->replaced = daemon->current;
        daemon->current = NULL;
    }
    for (struct generation *g = daemon->replaced; g; g = g->older)
        generation_stop_workers(g);
    server_stop(&daemon->server);
    for (struct generation *g = daemon->replaced, *older; g; g = older) {
        older = g->older;
        generation_close(&g, daemon->metrics, NULL);
    }
    watchdog_stop(&daemon->watchdog);
    metrics_destroy(daemon->metrics);
}

static void each_generation(const struct daemon *daemon, void (*act)(struct generation *generation))
{
    act(daemon->current);
    for (struct generation *g = daemon->replaced; g; g = g->older)
        act(g);
}

static bool engines_empty(const struct daemon *daemon)
{
    size_t count = serving_request_count(&daemon->current->serving);
    for (const struct generation *g = daemon->replaced; g; g = g->older)
        count += serving_request_count(&g->serving);
    return count == 0;
}

static bool answers_sent(const struct daemon *daemon)
{
    return server_open_exchanges(daemon->server) == 0;
}

enum wait { WAIT_DONE, WAIT_OVER, WAIT_SIGNAL };

static enum wait wait_for(const struct daemon *daemon, bool (*done)(const struct daemon *daemon),
                          uint64_t limit_ms)
{
    const uint64_t deadline_ns = clock_ns() + limit_ms * NS_PER_MS;
    while (!done(daemon)) {
        if (clock_ns() >= deadline_ns)
            return WAIT_OVER;
        if (signals_wait_stop(POLL_MS))
            return WAIT_SIGNAL;
    }
    return WAIT_DONE;
}

static enum daemon_end abandon(const char *why)
{
    log_write(LOG_ERROR, "leaving without a clean stop: %s", why);
    return DAEMON_ABANDONED;
}

/* The stop order.  A second signal ends any wait, and with it the process. */
static enum daemon_end stop(struct daemon *daemon)
{
    static const char second[] = "a second signal";
    const struct configuration *config = &daemon->current->config;

    /* 1. /readyz is 503 at once.  Load balancers notice later, so requests are served as before. */
    notify_stopping();
    server_drain(daemon->server);
    if (signals_wait_stop((int64_t)config->server.drain_delay_ms))
        return abandon(second);

    /* 2. No new connection and no new request. */
    server_quiesce(daemon->server);

    /* 3. Accepted requests end and their answers leave. */
    enum wait wait = wait_for(daemon, answers_sent, config->server.drain_timeout_ms);
    if (wait == WAIT_SIGNAL)
        return abandon(second);

    /* 4. What is left is answered 503. */
    server_give_up(daemon->server);
    each_generation(daemon, generation_cancel);
    wait = wait_for(daemon, engines_empty, ENDING_MS);
    if (wait != WAIT_DONE)
        return abandon(wait == WAIT_SIGNAL ? second : "requests that do not end");

    /* 5. Nobody computes any more. */
    each_generation(daemon, generation_stop_workers);

    /* 6. The server would cut answers that are being sent. */
    if (wait_for(daemon, answers_sent, SENDING_MS) == WAIT_SIGNAL)
        return abandon(second);

    /* 7. Server, engines, tokenizers, models; but a generation that is still being opened has to do
     * with some of them, and all requests are answered. */
    if (!daemon->is_loading)
        close_all(daemon);
    log_write(LOG_INFO, "stopped");
    return daemon->is_loading ? DAEMON_LEFT : DAEMON_STOPPED;
}

enum daemon_end daemon_run(struct configuration *config, const struct invocation *invocation,
                           struct error *err)
{
    static struct daemon daemon; /* threads still use it when the process is abandoned */
    daemon = (struct daemon){ .invocation = invocation };
    mem_setup();
    switch (start(&daemon, config, err)) {
    case OUTCOME_GOOD:
        break;
    case OUTCOME_FAILED:
        close_all(&daemon);
        return DAEMON_FAILED;
    case OUTCOME_STOPPED:
        log_write(LOG_INFO, "stopped before the models were loaded");
        return DAEMON_LEFT;
    }
    serve(&daemon);
    const struct configuration *last = &daemon.current->config;
    log_write(LOG_INFO, "stopping: no new requests after %llu ms, accepted ones have %llu ms more",
              (unsigned long long)last->server.drain_delay_ms,
              (unsigned long long)last->server.drain_timeout_ms);
    return stop(&daemon);
}
