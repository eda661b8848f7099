#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "soak.h"

/* Cut after idle_timeout_ms and the request's time, 7 s together, or sooner. */
enum { IDLE = 1000, SENDERS = 100, READERS = 20, PIECEMEAL = 50, ASKS = 200, CUT_SECONDS_MAX = 20 };

static const struct wire_pace at_once = { 0 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median time of a good request, and the longest. */
static double ask_ms(struct soak *soak, size_t times, double *longest)
{
    double ms[ASKS];
    int fd = -1;
    for (size_t i = 0; i < times; i++) {
        const uint64_t start = wire_clock_ns();
        soak_ask(soak, &fd, 0, at_once, at_once);
        ms[i] = (double)(wire_clock_ns() - start) / 1e6;
    }
    wire_close(fd);
    qsort(ms, times, sizeof ms[0], compare);
    *longest = ms[times - 1];
    return ms[times / 2];
}

static void measure_idle(struct soak *soak)
{
    static int fds[IDLE];
    struct state before, during, after;
    double longest;
    const size_t failed = soak->failed;
    state_read(soak->pid, &before);
    const double alone = ask_ms(soak, ASKS, &longest);
    for (int i = 0; i < IDLE; i++)
        fds[i] = wire_open(soak->port);
    const bool open = soak_await(soak, "seqd_http_connections", is_at_least, IDLE, 10);
    const double beside = ask_ms(soak, ASKS, &longest);
    state_read(soak->pid, &during);
    /* The daemon closes them; here they stay open until it has. */
    const bool closed = soak_await(soak, "seqd_http_connections", is_at_most, 1, CUT_SECONDS_MAX);
    for (int i = 0; i < IDLE; i++)
        wire_close(fds[i]);
    state_read(soak->pid, &after);
    soak_figure(soak, "a request's median alone, ms", alone, NULL, true);
    soak_figure(soak, "  beside 1,000 idle connections, ms", beside, "200",
                open && soak->failed == failed);
    soak_figure(soak, "  descriptors then", (double)during.fds, NULL, true);
    soak_figure(soak, "  descriptors once they were cut", (double)after.fds, "as before",
                closed && after.fds <= before.fds + 1);
    soak_figure(soak, "  RssAnon then, kB more",
                (double)(during.anonymous_kb - before.anonymous_kb), NULL, true);
}

static bool is_cut(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN | POLLRDHUP };
    return fd < 0 ||
           (poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR)));
}

/* A byte a second each, half of them in the head, half in the body. */
static void measure_senders(struct soak *soak)
{
    static const char head[] = "POST /v1/encode HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ";
    static const char body[] = "POST /v1/encode HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               "Content-Length: 5000\r\n\r\n";
    int fds[SENDERS], cut = 0;
    double first = 0, last = 0, slowest = 0;
    bool gone[SENDERS] = { false };
    const size_t failed = soak->failed;
    soak_reload(soak, CONFIG_SHORT);
    const uint64_t start = wire_clock_ns();
    for (int i = 0; i < SENDERS; i++) {
        const char *text = i % 2 ? head : body;
        fds[i] = wire_open(soak->port);
        wire_send(fds[i], text, strlen(text), at_once);
    }
    for (unsigned tick = 0; cut < SENDERS && tick < CUT_SECONDS_MAX * 10; tick++) {
        double longest;
        wire_sleep_ms(100);
        const double now = (double)(wire_clock_ns() - start) / 1e9;
        for (int i = 0; i < SENDERS; i++) {
            if (!gone[i] &&
                (is_cut(fds[i]) || (tick % 10 == 9 && wire_send(fds[i], " ", 1, at_once) < 0))) {
                gone[i] = true;
                first = cut++ ? first : now;
                last = now;
            }
        }
        ask_ms(soak, 1, &longest);
        slowest = longest > slowest ? longest : slowest;
    }
    for (int i = 0; i < SENDERS; i++)
        wire_close(fds[i]);
    soak_figure(soak, "senders of a byte a second that were cut", cut, "all", cut == SENDERS);
    soak_figure(soak, "  the first after, s", first, NULL, true);
    soak_figure(soak, "  the last after, s", last, "idle + request time", last < 9);
    soak_figure(soak, "  the slowest request meanwhile, ms", slowest, "below 1000",
                slowest < 1000 && soak->failed == failed);
}

/* Answers of a MB or two that nobody takes. */
static void measure_readers(struct soak *soak)
{
    int fds[READERS];
    size_t length;
    char text[2048] = "{\"model\":\"t5\",\"output_attentions\":true,\"input_ids\":[[5";
    for (int i = 0; i < 150; i++)
        strcat(text, ",6");
    strcat(text, "]]}");
    char *request = wire_request("/v1/encode", text, &length);
    const uint64_t start = wire_clock_ns();
    for (int i = 0; i < READERS; i++) {
        const int bytes = 4096;
        fds[i] = wire_open(soak->port);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
        wire_send(fds[i], request, length, at_once);
    }
    const size_t failed = soak->failed;
    double slowest;
    ask_ms(soak, ASKS, &slowest);
    const bool cut = soak_await(soak, "seqd_http_connections", is_at_most, 1, CUT_SECONDS_MAX);
    soak_figure(soak, "readers that take nothing are cut after, s",
                (double)(wire_clock_ns() - start) / 1e9, "idle + request time", cut);
    soak_figure(soak, "  the slowest request meanwhile, ms", slowest, "below 1000",
                slowest < 1000 && soak->failed == failed);
    for (int i = 0; i < READERS; i++)
        wire_close(fds[i]);
    free(request);
}

struct piecemeal {
    struct soak *soak;
    atomic_size_t next, answered;
};

/* 1 MB of body in pieces of one size, most of it spaces. */
static void *send_piecemeal(void *context)
{
    enum { BYTES = 1000000 };
    struct piecemeal *piecemeal = context;
    struct wire_answer answer = { 0 };
    size_t length;
    char *body = malloc(BYTES + 1);
    if (!body)
        abort();
    memset(body, ' ', BYTES);
    body[BYTES] = '\0';
    static const char text[] = "{\"model\":\"t5\",\"pooling\":\"mean\",\"input_ids\":[[5,1]]}";
    memcpy(body + BYTES - strlen(text), text, strlen(text));
    char *request = wire_request("/v1/encode", body, &length);
    const struct wire_pace pace = { piecemeal->next++ % 10 == 0 ? 1 : 65536, 0 };
    const int fd = wire_open(piecemeal->soak->port);
    if (fd >= 0 && wire_send(fd, request, length, pace) == 0 &&
        wire_receive(fd, &answer, at_once) == 0 && answer.status == 200)
        piecemeal->answered++;
    wire_close(fd);
    free(answer.bytes);
    free(request);
    free(body);
    return NULL;
}

static void measure_piecemeal(struct soak *soak)
{
    struct piecemeal piecemeal = { .soak = soak };
    pthread_t threads[PIECEMEAL];
    for (int i = 0; i < PIECEMEAL; i++)
        if (pthread_create(&threads[i], NULL, send_piecemeal, &piecemeal) != 0)
            abort();
    for (int i = 0; i < PIECEMEAL; i++)
        pthread_join(threads[i], NULL);
    soak_figure(soak, "bodies of 1 MB in small pieces, answered", (double)piecemeal.answered, "50",
                piecemeal.answered == PIECEMEAL);
}

void soak_crowd(struct soak *soak)
{
    measure_idle(soak);
    measure_piecemeal(soak);
    measure_senders(soak);
    measure_readers(soak);
    soak_reload(soak, CONFIG_USUAL);
}
