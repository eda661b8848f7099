#include "app/daemon.h"

#include <sys/resource.h>

#include "app/process_metrics.h"
#include "app/serving.h"
#include "app/signals.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "http/server.h"

enum {
    POLL_MS = 10,
    ENDING_MS = 30000, /* cancelled requests: one step of every worker, and no step is long */
    SENDING_MS = 5000, /* answers that are ready */
    OTHER_FDS = 64     /* beside connections: models, logs, listener, epoll */
};

struct daemon {
    const struct configuration *config;
    struct metrics *metrics;
    struct server *server;
    struct serving serving;
    struct workers *workers;
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
    const struct configuration *config = daemon->config;
    const struct http_config http = {
        .address = config->listen.host,
        .loopback = config->listen.loopback,
        .port = config->listen.port,
        .threads = config->server.threads,
        .connections = config->server.connections,
        .idle_timeout_ms = config->server.idle_timeout_ms,
        .metrics_enabled = config->metrics_enabled,
        .hosts = config->server.hosts,
    };
    raise_open_files(http.connections);
    return server_start(&daemon->server, &http, &config->limits, daemon->metrics, err);
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

static void log_ready(const struct daemon *daemon, uint64_t started_ns)
{
    const struct listen_address *listen = &daemon->config->listen;
    struct buffer names;
    buffer_init(&names, 4096);
    for (size_t i = 0; i < daemon->serving.registry.count; i++)
        buffer_printf(&names, "%s%s", i ? "," : "", daemon->serving.registry.models[i].name);
    struct log_line line;
    log_begin(&line, LOG_INFO, "ready");
    log_text(&line, "address", listen->host);
    log_integer(&line, "port", server_port(daemon->server));
    log_text(&line, "models", names.data ? names.data : "");
    log_number(&line, "seconds", (double)(clock_ns() - started_ns) / (double)NS_PER_S);
    log_end(&line);
    buffer_free(&names);
}

/* Probes answer from server_start() on, long before the models are there. */
static int start(struct daemon *daemon, uint64_t started_ns, struct error *err)
{
    const struct configuration *config = daemon->config;
    const double cores = cpu_budget_cores();
    const struct crew crew = serving_crew(config, cores);
    log_budget(cores, crew);
    daemon->metrics = metrics_create();
    if (!daemon->metrics)
        return error_set(err, ERR_NO_MEMORY, "no memory for metrics");
    process_metrics_register(daemon->metrics, cores);

    struct serving *serving = &daemon->serving;
    if (start_server(daemon, err) < 0 ||
        serving_open(serving, config, crew, daemon->metrics, err) < 0 ||
        workers_start(&daemon->workers, serving->engines, serving->registry.count, crew,
                      serving->wakeup, daemon->metrics, err) < 0)
        return -1;
    server_set_registry(daemon->server, &serving->registry);
    log_ready(daemon, started_ns);
    return 0;
}

/* From whatever start() reached; no request is left.  The server goes before the engines, which its
 * threads submit to. */
static void close_all(struct daemon *daemon)
{
    workers_stop(&daemon->workers);
    server_stop(&daemon->server);
    serving_close(&daemon->serving);
    metrics_destroy(daemon->metrics);
}

static bool engines_empty(const struct daemon *daemon)
{
    return serving_request_count(&daemon->serving) == 0;
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
    const struct configuration *config = daemon->config;

    /* 1. /readyz is 503 at once.  Load balancers notice later, so requests are served as before. */
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
    for (size_t i = 0; i < daemon->serving.registry.count; i++)
        engine_stop_accepting(daemon->serving.engines[i]);
    watcher_cancel_all(daemon->serving.watcher, ERR_SHUTTING_DOWN);
    wait = wait_for(daemon, engines_empty, ENDING_MS);
    if (wait != WAIT_DONE)
        return abandon(wait == WAIT_SIGNAL ? second : "requests that do not end");

    /* 5. Nobody computes any more. */
    workers_stop(&daemon->workers);

    /* 6. The server would cut answers that are being sent. */
    if (wait_for(daemon, answers_sent, SENDING_MS) == WAIT_SIGNAL)
        return abandon(second);

    /* 7. Server, engines, tokenizers, models. */
    close_all(daemon);
    log_write(LOG_INFO, "stopped");
    return DAEMON_STOPPED;
}

enum daemon_end daemon_run(const struct configuration *config, uint64_t started_ns,
                           struct error *err)
{
    static struct daemon daemon; /* threads still use it when the process is abandoned */
    daemon = (struct daemon){ .config = config };
    if (start(&daemon, started_ns, err) < 0) {
        close_all(&daemon);
        return DAEMON_FAILED;
    }
    signals_wait_stop(-1);
    log_write(LOG_INFO, "stopping: no new requests after %llu ms, accepted ones have %llu ms more",
              (unsigned long long)config->server.drain_delay_ms,
              (unsigned long long)config->server.drain_timeout_ms);
    return stop(&daemon);
}
