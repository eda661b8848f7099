#include "access.h"

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

void access_identify(struct exchange *exchange)
{
    if (!copy_header(exchange->id, exchange->connection, "X-Request-Id"))
        snprintf(exchange->id, sizeof exchange->id, "%016llx%016llx",
                 (unsigned long long)random_bits(), (unsigned long long)random_bits());
    copy_header(exchange->traceparent, exchange->connection, "traceparent");
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

void access_count(const struct exchange *exchange)
{
    char status[12];
    snprintf(status, sizeof status, "%u", exchange->status);
    struct buffer labels;
    buffer_init(&labels, 1024);
    metrics_label(&labels, "route", route_label(exchange));
    metrics_label(&labels, "method", exchange->method);
    metrics_label(&labels, "status", status);
    if (labels.state == BUFFER_OK)
        counter_add(metrics_counter(exchange->server->metrics, "seqd_http_requests_total",
                                    "Answered requests.", labels.data),
                    1);
    buffer_free(&labels);
}

void access_observe(const struct exchange *exchange)
{
    struct buffer labels;
    buffer_init(&labels, 4096);
    metrics_label(&labels, "route", route_label(exchange));
    metrics_label(&labels, "model", exchange->job.served->name);
    if (labels.state == BUFFER_OK)
        histogram_observe(
            metrics_histogram(exchange->server->metrics, "seqd_request_duration_seconds",
                              "Time from the last byte of an accepted request to its "
                              "answer.",
                              labels.data, metrics_request_bounds, METRICS_REQUEST_BOUNDS),
            (double)(clock_ns() - exchange->received_ns) / (double)NS_PER_S);
    buffer_free(&labels);
}

void access_log(const struct exchange *exchange)
{
    const bool quiet = routes_is_probe(exchange->admission.route);
    struct log_line line;
    log_begin(&line, quiet ? LOG_DEBUG : LOG_INFO, exchange->status ? "request" : "aborted");
    log_text(&line, "request_id", exchange->id);
    log_text(&line, "method", exchange->method);
    log_text(&line, "route", route_label(exchange));
    if (!exchange->admission.route)
        log_text(&line, "path", exchange->path);
    if (exchange->admission.key && exchange->admission.key->label[0])
        log_text(&line, "key", exchange->admission.key->label);
    if (exchange->job.served)
        log_text(&line, "model", exchange->job.served->name);
    if (exchange->status)
        log_integer(&line, "status", exchange->status);
    log_number(&line, "ms", (double)(clock_ns() - exchange->started_ns) / (double)NS_PER_MS);
    if (exchange->rows) {
        log_integer(&line, "rows", (int64_t)exchange->rows);
        log_integer(&line, "prompt_tokens", (int64_t)exchange->prompt_tokens);
        log_integer(&line, "output_tokens", (int64_t)exchange->output_tokens);
    }
    if (exchange->error.code != ERR_NONE)
        log_text(&line, "error", error_table_row(exchange->error.code)->code);
    if (exchange->error.param[0])
        log_text(&line, "param", exchange->error.param);
    if (exchange->traceparent[0])
        log_text(&line, "traceparent", exchange->traceparent);
    log_end(&line);
}
