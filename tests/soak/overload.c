#include <stdlib.h>
#include <string.h>

#include "soak.h"

/* The flood is 10 times what may wait, in rows, and more. */
enum { FLOOD_CLIENTS = 16, FLOOD_EACH = 40, CANCELS = 20, SHORTS = 300, PATIENCE_SECONDS = 30 };

static const struct wire_pace at_once = { 0 };

struct latencies {
    double ms[FLOOD_CLIENTS * FLOOD_EACH];
    atomic_size_t count, others; /* of the status that was awaited, and of others */
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(struct latencies *latencies, double q)
{
    const size_t count = latencies->count;
    qsort(latencies->ms, count, sizeof latencies->ms[0], compare);
    return count ? latencies->ms[(size_t)(q * (double)(count - 1) + 0.5)] : -1;
}

/* One body again and again on one connection. */
static void repeat(struct soak *soak, const char *body, int status, size_t times,
                   struct latencies *latencies)
{
    size_t length;
    char *request = wire_request("/v1/encode", body, &length);
    int fd = wire_open(soak->port);
    for (size_t i = 0; i < times; i++) {
        struct wire_answer answer = { 0 };
        const uint64_t start = wire_clock_ns();
        if (fd < 0 || wire_send(fd, request, length, at_once) < 0 ||
            wire_receive(fd, &answer, at_once) < 0) {
            wire_close(fd);
            fd = wire_open(soak->port);
        }
        if (answer.status == status)
            latencies->ms[latencies->count++] = (double)(wire_clock_ns() - start) / 1e6;
        else
            latencies->others++;
        free(answer.bytes);
    }
    wire_close(fd);
    free(request);
}

/* A client with so many slow rows, whose request is on its way; the descriptor. */
static int slow_client(struct soak *soak, int rows)
{
    static const char end[] = "],\"parameters\":{\"num_beams\":16,\"max_new_tokens\":4000,"
                              "\"min_new_tokens\":4000}}";
    char body[2048] = "{\"model\":\"vanilla_nopos\",\"input_ids\":[[5,6,7,3]";
    size_t length;
    for (int i = 1; i < rows; i++)
        strcat(body, ",[8,9,3]");
    strcat(body, end);
    char *request = wire_request("/v1/generate", body, &length);
    const int fd = wire_open(soak->port);
    if (fd >= 0)
        wire_send(fd, request, length, at_once);
    free(request);
    return fd;
}

static char *many_rows(int rows, const char *row, int tokens)
{
    char *body = malloc((size_t)rows * ((size_t)tokens + 1) * (strlen(row) + 2) + 256);
    if (!body)
        abort();
    strcpy(body, "{\"model\":\"vanilla_nopos\",\"pooling\":\"mean\",\"input_ids\":[");
    char *at = body + strlen(body);
    for (int i = 0; i < rows; i++) {
        at = stpcpy(at, i ? ",[" : "[");
        for (int j = 1; j < tokens; j++)
            at = stpcpy(stpcpy(at, row), ",");
        at = stpcpy(at, "3]");
    }
    strcpy(at, "]}");
    return body;
}

struct flood {
    struct soak *soak;
    const char *body;
    struct latencies latencies;
};

static void *pour(void *context)
{
    struct flood *flood = context;
    repeat(flood->soak, flood->body, 429, FLOOD_EACH, &flood->latencies);
    return NULL;
}

/* Whether one good request is answered, and how soon. */
static double answer_ms(struct soak *soak)
{
    int fd = -1;
    const size_t failed = soak->failed;
    const uint64_t start = wire_clock_ns();
    soak_ask(soak, &fd, 0, at_once, at_once);
    wire_close(fd);
    return soak->failed == failed ? (double)(wire_clock_ns() - start) / 1e6 : -1;
}

static void measure_flood(struct soak *soak)
{
    static struct flood flood;
    pthread_t threads[FLOOD_CLIENTS];
    struct state earlier, before, after;
    char *body = many_rows(32, "5", 6);
    flood.soak = soak;
    flood.body = body;
    soak_reload(soak, CONFIG_SMALL_QUEUE);
    int slow[3];
    for (int i = 0; i < 3; i++) {
        slow[i] = slow_client(soak, 32);
        soak_await(soak, "seqd_active_sequences", is_at_least, 1, PATIENCE_SECONDS);
    }
    const bool full = soak_await(soak, "seqd_queue_sequences", is_at_least, 48, PATIENCE_SECONDS);
    /* The slow rows' cache grows all the while, flood or none. */
    state_read(soak->pid, &earlier);
    const uint64_t quiet = wire_clock_ns();
    wire_sleep_ms(500);
    state_read(soak->pid, &before);
    const uint64_t start = wire_clock_ns();
    for (int i = 0; i < FLOOD_CLIENTS; i++)
        if (pthread_create(&threads[i], NULL, pour, &flood) != 0)
            abort();
    for (int i = 0; i < FLOOD_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    state_read(soak->pid, &after);
    const double grown = (double)(before.anonymous_kb - earlier.anonymous_kb) *
                         (double)(wire_clock_ns() - start) / (double)(start - quiet);
    for (int i = 0; i < 3; i++)
        wire_close(slow[i]);
    const bool empty = soak_await(soak, "seqd_active_sequences", is_at_most, 0, PATIENCE_SECONDS);
    const double recovered = answer_ms(soak);
    soak_figure(soak, "flood: answers 429", (double)flood.latencies.count, "all",
                full && flood.latencies.others == 0);
    const double median = quantile(&flood.latencies, 0.5);
    soak_figure(soak, "  median, ms", median, "below 50", median >= 0 && median < 50);
    soak_figure(soak, "  99 of 100, ms", quantile(&flood.latencies, 0.99), NULL, true);
    soak_figure(soak, "  RssAnon before, kB", (double)before.anonymous_kb, NULL, true);
    const double more = (double)(after.anonymous_kb - before.anonymous_kb) - grown;
    soak_figure(soak, "  RssAnon more by the flood, kB", more, "below 4096", more < 4096);
    soak_figure(soak, "  the next answer, ms", recovered, "200", empty && recovered >= 0);
    free(body);
}

/* How long a gauge takes to fall once a client with `rows` slow rows has left. */
static double leave_ms(struct soak *soak, const char *gauge, int rows, double busy, double idle)
{
    const int fd = slow_client(soak, rows);
    if (!soak_await(soak, gauge, is_at_least, busy, PATIENCE_SECONDS)) {
        wire_close(fd);
        return -1;
    }
    const uint64_t start = wire_clock_ns();
    wire_close(fd);
    return soak_await(soak, gauge, is_at_most, idle, PATIENCE_SECONDS)
               ? (double)(wire_clock_ns() - start) / 1e6
               : -1;
}

static void measure_cancels(struct soak *soak)
{
    struct latencies running = { 0 }, queued = { 0 };
    for (int i = 0; i < CANCELS; i++) {
        const double ms = leave_ms(soak, "seqd_active_sequences", 1, 1, 0);
        *(ms < 0 ? &running.others : &running.count) += 1;
        if (ms >= 0)
            running.ms[running.count - 1] = ms;
    }
    const int slow = slow_client(soak, 60);
    const int more = slow_client(soak, 60);
    soak_await(soak, "seqd_queue_sequences", is_at_least, 1, PATIENCE_SECONDS);
    wire_sleep_ms(500); /* until all that find room are taken */
    const double waiting = soak_metric(soak, "seqd_queue_sequences");
    for (int i = 0; i < CANCELS; i++) {
        const double ms = leave_ms(soak, "seqd_queue_sequences", 60, waiting + 60, waiting);
        *(ms < 0 ? &queued.others : &queued.count) += 1;
        if (ms >= 0)
            queued.ms[queued.count - 1] = ms;
    }
    wire_close(slow);
    wire_close(more);
    soak_await(soak, "seqd_active_sequences", is_at_most, 0, PATIENCE_SECONDS);
    soak_figure(soak, "client gone while running: median, ms", quantile(&running, 0.5), "stops",
                running.others == 0);
    soak_figure(soak, "  longest, ms", quantile(&running, 1), NULL, true);
    soak_figure(soak, "client gone while queued: median, ms", quantile(&queued, 0.5), "stops",
                queued.others == 0);
    soak_figure(soak, "  longest, ms", quantile(&queued, 1), NULL, true);
}

struct long_row {
    struct soak *soak;
    char *body;
    struct latencies latencies;
    atomic_bool enough;
};

static void *ask_long_row(void *context)
{
    struct long_row *row = context;
    while (!row->enough) {
        row->latencies.count = 0;
        repeat(row->soak, row->body, 200, 1, &row->latencies);
    }
    return NULL;
}

/* Short requests alone, then beside a row as long as there may be. */
static void measure_beside(struct soak *soak)
{
    static struct long_row row;
    pthread_t thread;
    struct latencies alone = { 0 }, beside = { 0 };
    char *body = many_rows(1, "6", 5);
    row.soak = soak;
    row.body = many_rows(1, "7", 4096);
    repeat(soak, body, 200, SHORTS, &alone);
    if (pthread_create(&thread, NULL, ask_long_row, &row) != 0)
        abort();
    repeat(soak, body, 200, SHORTS, &beside);
    row.enough = true;
    pthread_join(thread, NULL);
    soak_figure(soak, "short request alone: median, ms", quantile(&alone, 0.5), NULL, true);
    soak_figure(soak, "  99 of 100, ms", quantile(&alone, 0.99), NULL, true);
    soak_figure(soak, "short request beside a row of 4096: median, ms", quantile(&beside, 0.5),
                "200", beside.others == 0);
    soak_figure(soak, "  99 of 100, ms", quantile(&beside, 0.99), NULL, true);
    soak_figure(soak, "  that row, ms", quantile(&row.latencies, 0.5), "200",
                row.latencies.others == 0);
    free(body);
    free(row.body);
}

void soak_overload(struct soak *soak)
{
    measure_flood(soak);
    soak_reload(soak, CONFIG_USUAL);
    measure_cancels(soak);
    measure_beside(soak);
}
