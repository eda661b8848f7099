/* http_fakes.h — a server whose engine answers from a thread of its own, and a client that speaks
 * plain sockets. */
#ifndef TESTS_HTTP_FAKES_H
#define TESTS_HTTP_FAKES_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "codec_fakes.h"
#include "http/server.h"

/* What the engine does with the next requests. */
static _Atomic enum { ENGINE_ANSWERS, ENGINE_IS_FULL, ENGINE_FAILS, ENGINE_WAITS } behaviour;
static atomic_int submitted_count, rejected_count, cancelled_count;

static void answer_row(struct row *row)
{
    const size_t floats = row->request->pooling == POOLING_NONE ? row->sent_count * 2 : 2;
    row->answer.embedding = calloc(floats, sizeof(float));
    for (size_t i = 0; i < row->token_count; i++)
        row->answer.embedding[0] += (float)row->tokens[i];
}

static void *work(void *context)
{
    struct request *request = context;
    while (behaviour == ENGINE_WAITS && !request_is_off(request))
        usleep(1000);
    request_move(request, REQUEST_RUNNING);
    struct error failure = { ERR_NONFINITE, "", "not a number" };
    if (behaviour == ENGINE_FAILS)
        request->error = failure;
    else if (request->cancelled)
        request->error = (struct error){ request->cancelled, "", "cancelled" };
    else
        for (size_t i = 0; i < request->row_count; i++)
            answer_row(&request->rows[i]);
    cancelled_count += request->cancelled == ERR_CLIENT_GONE;
    request_move(request, REQUEST_DONE);
    request->done(request, request->context);
    return NULL;
}

int engine_submit(struct engine *engine, struct request *request, struct error *err)
{
    (void)engine;
    if (behaviour == ENGINE_IS_FULL) {
        request_move(request, REQUEST_REFUSED);
        return error_set(err, ERR_BUSY, "the queue is full");
    }
    request_move(request, REQUEST_QUEUED);
    submitted_count++;
    pthread_t thread;
    pthread_create(&thread, NULL, work, request);
    pthread_detach(thread);
    return 0;
}

void engine_count_rejected(struct engine *engine, const char *reason)
{
    (void)engine;
    (void)reason;
    rejected_count++;
}

static struct served_model model;
static const struct registry registry = { &model, 1 };
static char *hosts[] = { "my.host", NULL };
static struct metrics *metrics;
static struct server *server;
static struct limits limits;
static struct service service;

static int start_server(void **state)
{
    (void)state;
    const struct http_config config = { .address = "127.0.0.1",
                                        .loopback = true,
                                        .threads = 2,
                                        .connections = 64,
                                        .idle_timeout_ms = 5000,
                                        .metrics_enabled = true };
    struct error err = { 0 };
    behaviour = ENGINE_ANSWERS;
    limits = fake_limits;
    service = (struct service){ .limits = &limits, .hosts = hosts };
    metrics = metrics_create();
    if (server_start(&server, &config, &service, metrics, &err) < 0)
        return -1;
    server_set_registry(server, &registry);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    while (server_open_exchanges(server))
        usleep(1000);
    server_stop(&server);
    metrics_destroy(metrics);
    return 0;
}

static int dial(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(server_port(server)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void say(int fd, const char *text, size_t count)
{
    while (count) {
        const ssize_t sent = send(fd, text, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the server may have seen enough */
        text += sent;
        count -= (size_t)sent;
    }
}

/* All that comes until the server closes, for the caller to free(). */
static char *hear(int fd)
{
    size_t count = 0, room = 65536;
    char *text = malloc(room);
    for (ssize_t got; count + 1 < room && (got = recv(fd, text + count, room - 1 - count, 0)) > 0;)
        count += (size_t)got;
    text[count] = '\0';
    close(fd);
    return text;
}

/* One request on a connection of its own. */
static char *ask(const char *head, const char *body)
{
    char text[32768];
    snprintf(text, sizeof text, "%sConnection: close\r\nContent-Length: %zu\r\n\r\n%s", head,
             strlen(body), body);
    const int fd = dial();
    say(fd, text, strlen(text));
    return hear(fd);
}

#define POST(path, headers)                                                                        \
    "POST " path " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" headers
#define GET(path, headers) "GET " path " HTTP/1.1\r\nHost: localhost\r\n" headers

static void check(const char *head, const char *body, unsigned status, const char *part)
{
    char *answer = ask(head, body);
    char line[32];
    snprintf(line, sizeof line, "HTTP/1.1 %u ", status);
    if (strncmp(answer, line, strlen(line)) != 0 || !strstr(answer, part) ||
        !strcasestr(answer, "X-Request-Id: "))
        fail_msg("%s%s\nexpected %u and %s, got\n%s", head, body, status, part, answer);
    free(answer);
}

#endif
