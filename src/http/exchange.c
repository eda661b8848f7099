#include "exchange.h"

#include <string.h>

#include "access.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/mem.h"
#include "connection.h"
#include "decode.h"
#include "probes.h"

enum {
    DISCARD_FACTOR = 4,
    /* From here on they take more than some ms, and go to the desk. */
    DESK_BODY_BYTES = 16 << 10,
    DESK_ANSWER_BYTES = 1 << 20,
    /* Shorter answers need no room: server.connections bounds them, and they are always served. */
    SMALL_ANSWER_BYTES = 64 << 10,
};

void exchange_set_idle_timeout(struct MHD_Connection *connection, uint64_t ms)
{
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              clock_whole_seconds(ms * NS_PER_MS));
}

struct exchange *exchange_open(struct server *server, const struct request_head *head)
{
    struct exchange *x = mem_alloc(1, sizeof *x);
    if (!x)
        return NULL;
    *x = (struct exchange){
        .server = server,
        .service = service_take(server),
        .connection = head->connection,
        .peer = connection_peer(head->connection),
        .path = mem_text(head->path),
        .method = access_method(head->method),
        .started_ns = clock_ns(),
    };
    buffer_init(&x->body, x->service->limits->body_bytes);
    if (!x->path || !x->peer) {
        service_release(x->service);
        mem_free(x->path);
        mem_free(x);
        return NULL;
    }
    access_identify(x);
    const struct request_head own = { head->connection, x->path, head->method };
    admission_check(&x->admission, server, x->service, &own, &x->error);
    return x;
}

/* When the connection must be at its next point: the answer taken, or the next request there. */
static uint64_t next_deadline_ns(const struct exchange *x)
{
    return clock_ns() +
           (x->server->idle_timeout_ms + x->service->limits->request_timeout_ms) * NS_PER_MS;
}

static enum MHD_Result send_reply(struct exchange *x, struct reply *reply)
{
    /* A client that takes its answer too slowly is cut like one that sends too slowly. */
    peers_expect(x->server->peers, x->peer, next_deadline_ns(x));
    reply->cors = x->admission.cors;
    reply->close = reply->close || x->server->phase != SERVER_SERVING;
    x->bytes_out = strcmp(x->method, "HEAD") == 0 ? 0 : reply->body.length;
    const enum MHD_Result result = reply_send(reply, x->connection, x->id);
    x->status = reply->status;
    access_count(x);
    return result;
}

/* A fault of ours is worth a line of its own, with what the client is told. */
static void log_fault(const struct exchange *x)
{
    struct log_line line;
    log_begin(&line, LOG_ERROR, x->error.message);
    log_text(&line, "request_id", x->id);
    if (x->traceparent[0])
        log_text(&line, "traceparent", x->traceparent);
    log_end(&line);
}

static enum MHD_Result send_error(struct exchange *x, bool close)
{
    struct reply reply = { .close = close };
    reply_error(&reply, &x->error);
    if (x->error.code == ERR_METHOD)
        reply.allow = routes_allow(x->admission.route);
    reply.retry_after_s = x->admission.retry_after_s;
    if (reply.status == MHD_HTTP_INTERNAL_SERVER_ERROR)
        log_fault(x);
    return send_reply(x, &reply);
}

enum MHD_Result exchange_refuse(struct exchange *x)
{
    peers_linger(x->server->peers, x->peer);
    return send_error(x, true);
}

/* The share of `total` that was *held becomes `count`.  Returns the new total. */
static size_t hold(atomic_size_t *total, size_t *held, size_t count)
{
    const size_t change = count - *held; /* modulo 2^64 */
    *held = count;
    return atomic_fetch_add(total, change) + change;
}

/* Neither the body nor what was made of it is there any more. */
static void drop_body(struct exchange *x)
{
    buffer_free(&x->body);
    hold(&x->server->body_bytes, &x->body_held, 0);
}

/* Whether `count` more bytes fit beside all bodies that are there, or are let in all the same. */
static bool find_room(struct exchange *x, size_t count)
{
    if (hold(&x->server->body_bytes, &x->body_held, x->body_held + count) <=
            x->service->limits->bodies_bytes ||
        x->admission.small_body)
        return true;
    admission_no_room(x->server, x->service->limits, &x->error);
    return false;
}

static bool append_body(struct exchange *x, const char *bytes, size_t count)
{
    if (!find_room(x, count))
        return false;
    buffer_append(&x->body, bytes, count);
    if (x->body.state == BUFFER_OK)
        return true;
    if (x->body.state == BUFFER_NO_MEMORY)
        error_set(&x->error, ERR_NO_MEMORY, "no memory for the body");
    else
        error_set(&x->error, ERR_OVER_LIMIT, "the body is longer than limits.body_bytes, %zu",
                  x->service->limits->body_bytes);
    return false;
}

bool exchange_read(struct exchange *x, const char *bytes, size_t count)
{
    const size_t limit = x->service->limits->body_bytes;
    x->bytes_in += count;
    if (x->error.code == ERR_NONE) {
        if (append_body(x, bytes, count))
            return true;
        drop_body(x);
    }
    /* A client that is told only afterwards reads the answer; but there is an end to patience. */
    x->discarded += count;
    return x->discarded / DISCARD_FACTOR <= limit;
}

/* Rejections are a model's; a request that named none counts as an answer only. */
static void count_rejected(const struct exchange *x)
{
    if (x->job.served)
        engine_count_rejected(x->job.served->engine, error_table_row(x->error.code)->code);
}

/* Before anything is computed: clients that do not take their answers must not fill the memory. */
static int reserve_answer(struct exchange *x)
{
    const size_t limit = x->service->limits->answers_bytes;
    if (x->job.answer_bytes < SMALL_ANSWER_BYTES)
        return 0;
    if (hold(&x->server->answer_bytes, &x->answer_held, x->job.answer_bytes) <= limit)
        return 0;
    hold(&x->server->answer_bytes, &x->answer_held, 0);
    job_clear(&x->job);
    return error_set(&x->error, ERR_BUSY,
                     "answers that are computed or not yet taken leave no room for this one; "
                     "limits.answers_bytes is %zu",
                     limit);
}

static void decode(struct exchange *x)
{
    const struct decode_context context = {
        .registry = x->service->registry,
        .limits = x->service->limits,
        .request_id = x->id,
        .received_ns = x->received_ns,
    };
    const int rc = decode_request(&x->job, x->admission.route->work, x->body.data, x->body.length,
                                  &context, &x->error);
    buffer_free(&x->body);
    if (rc < 0 || reserve_answer(x) < 0) {
        drop_body(x);
        count_rejected(x);
    }
}

/* At the desk, where a body may have waited.  After the resume the exchange may be gone. */
static void decode_at_desk(void *context)
{
    struct exchange *x = context;
    const uint64_t timeout_ns = x->service->limits->request_timeout_ms * NS_PER_MS;
    if (x->server->phase == SERVER_GIVING_UP)
        error_set(&x->error, ERR_SHUTTING_DOWN, "the daemon is shutting down");
    else if (peers_has_left(x->server->peers, x->peer))
        error_set(&x->error, ERR_CLIENT_GONE, "the client left before its request was read");
    else if (clock_ns() - x->received_ns >= timeout_ns)
        error_set(&x->error, ERR_DEADLINE, "the deadline passed before the request was read");
    else
        decode(x);
    MHD_resume_connection(x->connection);
}

/* The connection is suspended; `run` resumes it. */
static void send_to_desk(struct exchange *x, void (*run)(void *context), size_t bytes)
{
    x->task = (struct desk_task){ .run = run, .context = x, .bytes = bytes };
    desk_add(x->server->desk, &x->task);
}

/* The request is DONE or was refused. */
static void write_answer(struct exchange *x)
{
    const struct request *request = x->job.request;
    peers_watch(x->server->peers, x->peer, NULL);
    x->usage = answer_usage(request);
    x->timing = answer_timing(request);
    buffer_init(&x->answer, 2 * x->service->limits->response_bytes + 65536);
    const bool accepted = x->error.code == ERR_NONE;
    if (accepted && request->error.code != ERR_NONE)
        x->error = request->error;
    mapped_files_check();
    if (x->error.code == ERR_NONE)
        answer_write(&x->answer, &x->job, &x->error);
    if (x->error.code != ERR_NONE)
        buffer_free(&x->answer);
    hold(&x->server->answer_bytes, &x->answer_held, x->answer.length);
    job_clear(&x->job);
    if (accepted)
        access_observe(x);
    else
        count_rejected(x);
}

static void write_at_desk(void *context)
{
    struct exchange *x = context;
    write_answer(x);
    MHD_resume_connection(x->connection);
}

/* From a worker: the request is DONE.  After this the exchange may be gone. */
static void on_done(struct request *request, void *context)
{
    (void)request;
    struct exchange *x = context;
    if (x->job.answer_bytes < DESK_ANSWER_BYTES) {
        MHD_resume_connection(x->connection);
        return;
    }
    x->stage = EXCHANGE_WRITTEN;
    send_to_desk(x, write_at_desk, x->job.answer_bytes);
}

static enum MHD_Result submit(struct exchange *x)
{
    if (x->error.code != ERR_NONE)
        return send_error(x, false);
    struct request *request = x->job.request;
    request->done = on_done;
    request->context = x;
    x->rows = request->row_count;
    x->stage = EXCHANGE_WORKING;
    peers_watch(x->server->peers, x->peer, request);
    MHD_suspend_connection(x->connection); /* before the submit: a worker may answer at once */
    if (engine_submit(x->job.served->engine, request, &x->error) < 0)
        MHD_resume_connection(x->connection);
    return MHD_YES;
}

static enum MHD_Result send_answer(struct exchange *x)
{
    if (x->error.code != ERR_NONE)
        return send_error(x, false);
    struct reply reply = { .status = MHD_HTTP_OK, .body = x->answer };
    x->answer = (struct buffer){ 0 };
    return send_reply(x, &reply);
}

/* Model routes need models, and a daemon that still takes requests. */
static int check_phase(struct exchange *x)
{
    if (x->server->phase >= SERVER_QUIESCED)
        return error_set(&x->error, ERR_SHUTTING_DOWN, "the daemon is shutting down");
    if (!x->service->registry)
        return error_set(&x->error, ERR_LOADING, "the models are being loaded");
    return 0;
}

static enum MHD_Result begin(struct exchange *x)
{
    const struct route *route = x->admission.route;
    x->received_ns = clock_ns();
    x->counted = true;
    atomic_fetch_add(&x->server->open_exchanges, 1);
    peers_expect(x->server->peers, x->peer, PEERS_NO_DEADLINE);
    /* It would also count the time in which this thread writes the answers of others, and drop this
     * one; from here on our own deadlines hold. */
    exchange_set_idle_timeout(x->connection, 0);
    if (x->error.code != ERR_NONE)
        return send_error(x, false);
    if (x->admission.cors.preflight) {
        struct reply reply = { .status = MHD_HTTP_NO_CONTENT };
        return send_reply(x, &reply);
    }
    if (!routes_is_probe(route) && check_phase(x) < 0)
        return send_error(x, false);
    if (route->kind != ROUTE_WORK) {
        struct reply reply = { .status = MHD_HTTP_OK };
        if (probes_answer(&reply, x->server, x->service, &x->admission, &x->error) < 0)
            return send_error(x, false);
        return send_reply(x, &reply);
    }
    if (x->body.length < DESK_BODY_BYTES) {
        decode(x);
        return submit(x);
    }
    x->stage = EXCHANGE_DECODED;
    MHD_suspend_connection(x->connection);
    send_to_desk(x, decode_at_desk, x->body.length);
    return MHD_YES;
}

enum MHD_Result exchange_run(struct exchange *x)
{
    switch (x->stage) {
    case EXCHANGE_READING:
        return begin(x);
    case EXCHANGE_DECODED:
        return submit(x);
    case EXCHANGE_WORKING:
        write_answer(x);
        break;
    case EXCHANGE_WRITTEN:
        break;
    }
    return send_answer(x);
}

void exchange_close(struct exchange **in)
{
    struct exchange *x = *in;
    if (!x)
        return;
    *in = NULL;
    access_log(x);
    peers_expect(x->server->peers, x->peer, next_deadline_ns(x));
    if (x->counted)
        atomic_fetch_sub(&x->server->open_exchanges, 1);
    peers_watch(x->server->peers, x->peer, NULL); /* the library may end it without an answer */
    job_clear(&x->job);
    drop_body(x);
    buffer_free(&x->answer);
    hold(&x->server->answer_bytes, &x->answer_held, 0);
    quotas_release(x->server->quotas, &x->admission.share);
    service_release(x->service);
    mem_free(x->path);
    mem_free(x);
}
