#include "access.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

/* Copies a header of 1 … 128 printable ASCII characters; false: there is none. */
static bool copy_header(char out[129], struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    const size_t length = value ? strlen(value) : 0;
    if (length == 0 || length > 128)
        return false;
    for (size_t i = 0; i < length; i++)
        if (value[i] < 0x20 || value[i] > 0x7e)
            return false;
    memcpy(out, value, length + 1);
    return true;
}

/* Without the port.  An IPv4 client of a socket for both looks as on one for IPv4. */
static void copy_address(char out[INET6_ADDRSTRLEN], struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *any = info ? info->client_addr : NULL;
    if (!any)
        return;
    const struct sockaddr_in *v4 = (const void *)any;
    const struct sockaddr_in6 *v6 = (const void *)any;
    if (any->sa_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, out, INET6_ADDRSTRLEN);
    else if (any->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, out, INET6_ADDRSTRLEN);
    else if (any->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, out, INET6_ADDRSTRLEN);
}

void access_identify(struct exchange *exchange)
{
    if (!copy_header(exchange->id, exchange->connection, "X-Request-Id"))
        snprintf(exchange->id, sizeof exchange->id, "%016llx%016llx",
                 (unsigned long long)random_bits(), (unsigned long long)random_bits());
    copy_header(exchange->traceparent, exchange->connection, "traceparent");
    if (exchange->service->log_client_address)
        copy_address(exchange->client, exchange->connection);
}

const char *access_method(const char *method)
{
    static const char *const methods[] = { "GET",     "HEAD",  "POST",  "PUT",    "DELETE",
                                           "OPTIONS", "PATCH", "TRACE", "CONNECT" };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i], method) == 0)
            return methods[i];
    return "other";
}

static const char *route_label(const struct exchange *exchange)
{
    return exchange->admission.route ? exchange->admission.route->label : "other";
}

static struct counter *request_counter(struct metrics *metrics, const char *route,
                                       const char *method, unsigned code)
{
    char status[12];
    snprintf(status, sizeof status, "%u", code);
    struct buffer labels;
    buffer_init(&labels, 1024);
    metrics_label(&labels, "route", route);
    metrics_label(&labels, "method", method);
    metrics_label(&labels, "status", status);
    struct counter *counter = labels.state == BUFFER_OK
                                  ? metrics_counter(metrics, "seqd_http_requests_total",
                                                    "Answered requests.", labels.data)
                                  : NULL;
    buffer_free(&labels);
    return counter;
}

static struct histogram *duration_histogram(struct metrics *metrics, const char *route,
                                            const char *model)
{
    struct buffer labels;
    buffer_init(&labels, 4096);
    metrics_label(&labels, "route", route);
    metrics_label(&labels, "model", model);
    struct histogram *histogram =
        labels.state == BUFFER_OK
            ? metrics_histogram(metrics, "seqd_request_duration_seconds",
                                "Time from the last byte of an accepted request to its answer.",
                                labels.data, metrics_seconds_bounds, METRICS_SECONDS_BOUNDS)
            : NULL;
    buffer_free(&labels);
    return histogram;
}

void access_prepare(struct metrics *metrics)
{
    static const unsigned statuses[] = { 200, 400, 413, 429, 499, 500, 503, 504 };
    size_t count;
    const struct route *routes = routes_all(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof statuses / sizeof *statuses; k++)
            if (routes[i].kind == ROUTE_WORK)
                request_counter(metrics, routes[i].label, "POST", statuses[k]);
}

void access_prepare_models(struct metrics *metrics, const struct registry *registry)
{
    size_t count;
    const struct route *routes = routes_all(&count);
    for (size_t i = 0; registry && i < registry->count; i++) {
        const struct served_model *served = &registry->models[i];
        const bool generates = config_generates(&served->model->config);
        for (size_t k = 0; k < count; k++)
            if (routes[k].kind == ROUTE_WORK && (generates || routes[k].work == REQUEST_ENCODE))
                duration_histogram(metrics, routes[k].label, served->name);
    }
}

void access_count(const struct exchange *exchange)
{
    struct counter *counter = request_counter(exchange->server->metrics, route_label(exchange),
                                              exchange->method, exchange->status);
    if (counter)
        counter_add(counter, 1);
}

void access_observe(const struct exchange *exchange)
{
    struct histogram *histogram = duration_histogram(
        exchange->server->metrics, route_label(exchange), exchange->job.served->name);
    if (histogram)
        histogram_observe(histogram,
                          (double)(clock_ns() - exchange->received_ns) / (double)NS_PER_S);
}

static void log_ms(struct log_line *line, const char *name, uint64_t ns)
{
    log_number(line, name, (double)ns / (double)NS_PER_MS);
}

/* Of an accepted request. */
static void log_work(struct log_line *line, const struct exchange *exchange)
{
    const struct answer_timing *timing = &exchange->timing;
    log_ms(line, "queue_ms", timing->queue_ns);
    if (timing->encode_ns)
        log_ms(line, "encode_ms", timing->encode_ns);
    if (timing->decode_ns && exchange->admission.route->work != REQUEST_ENCODE)
        log_ms(line, "decode_ms", timing->decode_ns);
    log_integer(line, "rows", (int64_t)exchange->rows);
    log_integer(line, "prompt_tokens", (int64_t)exchange->usage.prompt_tokens);
    log_integer(line, "output_tokens", (int64_t)exchange->usage.output_tokens);
}

/* A client wrote it: the last field, so that no other is cut, and of a bounded length. */
static void log_path(struct log_line *line, const char *path)
{
    char start[257];
    snprintf(start, sizeof start, "%s", path);
    log_text(line, "path", start);
}

void access_log(const struct exchange *exchange)
{
    if (!exchange->service->log_access)
        return;
    const bool quiet = routes_is_probe(exchange->admission.route);
    struct log_line line;
    log_begin(&line, quiet ? LOG_DEBUG : LOG_INFO, exchange->status ? "request" : "aborted");
    log_text(&line, "request_id", exchange->id);
    if (exchange->traceparent[0])
        log_text(&line, "traceparent", exchange->traceparent);
    if (exchange->client[0])
        log_text(&line, "client", exchange->client);
    log_text(&line, "method", exchange->method);
    log_text(&line, "route", route_label(exchange));
    if (exchange->admission.key && exchange->admission.key->label[0])
        log_text(&line, "key", exchange->admission.key->label);
    if (exchange->job.served)
        log_text(&line, "model", exchange->job.served->name);
    if (exchange->status)
        log_integer(&line, "status", exchange->status);
    log_ms(&line, "ms", clock_ns() - exchange->started_ns);
    if (exchange->rows)
        log_work(&line, exchange);
    log_integer(&line, "bytes_in", (int64_t)exchange->bytes_in);
    log_integer(&line, "bytes_out", (int64_t)exchange->bytes_out);
    if (exchange->error.code != ERR_NONE)
        log_text(&line, "error", error_table_row(exchange->error.code)->code);
    if (exchange->error.param[0])
        log_text(&line, "param", exchange->error.param);
    if (!exchange->admission.route)
        log_path(&line, exchange->path);
    log_end(&line);
}
