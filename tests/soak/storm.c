#include <stdlib.h>

#include "soak.h"

/* Good clients ask at once, rude ones beside them; so many connections say nothing. */
enum {
    GOOD = 6,
    RUDE = 3,
    IDLE = 40,
    SHAPES = 10000,
    SHAPES_WARM = 500,
    RELOAD_MS = 2000,
    LARGE = GOOD
};

struct crew {
    struct soak *soak;
    atomic_size_t next; /* number of the next request of a shape of its own */
    size_t end;
    uint64_t until_ns;
};

static void ask_once(struct soak *soak, int *fd, const char *path, const char *body)
{
    size_t length;
    struct wire_answer answer = { 0 };
    char *request = wire_request(path, body, &length);
    soak->good++;
    if (wire_send(*fd, request, length, (struct wire_pace){ 0 }) < 0 ||
        wire_receive(*fd, &answer, (struct wire_pace){ 0 }) < 0 || answer.status != 200) {
        soak->failed++;
        soak_fault(soak, "%d for %s %.150s: %.200s", answer.status, path, body,
                   answer.bytes ? answer.bytes : "no answer");
        wire_close(*fd);
        *fd = wire_open(soak->port);
    }
    free(answer.bytes);
    free(request);
}

static void *ask_shapes(void *context)
{
    struct crew *crew = context;
    int fd = wire_open(crew->soak->port);
    for (size_t i; (i = crew->next++) < crew->end && wire_clock_ns() < crew->until_ns;) {
        const char *path;
        char *body = question_write(1000000 + i, &path);
        ask_once(crew->soak, &fd, path, body);
        free(body);
    }
    wire_close(fd);
    return NULL;
}

static void *ask_large(void *context)
{
    struct soak *soak = context;
    int fd = wire_open(soak->port);
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        const char *path;
        char *body = question_write_large(i, &path);
        ask_once(soak, &fd, path, body);
        free(body);
    }
    wire_close(fd);
    return NULL;
}

void soak_fill(struct soak *soak)
{
    pthread_t threads[LARGE];
    for (int i = 0; i < LARGE; i++)
        if (pthread_create(&threads[i], NULL, ask_large, soak) != 0)
            abort();
    for (int i = 0; i < LARGE; i++)
        pthread_join(threads[i], NULL);
}

static size_t run_shapes(struct soak *soak, size_t from, size_t end, uint64_t until_ns)
{
    pthread_t threads[GOOD];
    struct crew crew = { .soak = soak, .next = from, .end = end, .until_ns = until_ns };
    for (int i = 0; i < GOOD; i++)
        if (pthread_create(&threads[i], NULL, ask_shapes, &crew) != 0)
            abort();
    for (int i = 0; i < GOOD; i++)
        pthread_join(threads[i], NULL);
    return crew.next < end ? crew.next : end;
}

void soak_shapes(struct soak *soak, double seconds)
{
    struct state warm, end;
    soak_fill(soak);
    run_shapes(soak, 0, SHAPES_WARM, UINT64_MAX);
    const uint64_t until_ns = wire_clock_ns() + (uint64_t)(seconds * 1e9);
    state_read(soak->pid, &warm);
    const size_t asked = run_shapes(soak, SHAPES_WARM, SHAPES, until_ns);
    state_read(soak->pid, &end);
    soak_figure(soak, "requests of random shapes", (double)asked, NULL, true);
    soak_figure(soak, "  RSS after 500, kB", (double)warm.resident_kb, NULL, true);
    soak_figure(soak, "  RSS after all, kB", (double)end.resident_kb, "within 5 %",
                (double)end.resident_kb <= 1.05 * (double)warm.resident_kb);
    soak_figure(soak, "  RssAnon after 500, kB", (double)warm.anonymous_kb, NULL, true);
    soak_figure(soak, "  RssAnon after all, kB", (double)end.anonymous_kb, NULL, true);
}

/* Now and then the body goes in small pieces, or the answer is taken in such. */
static void *be_good(void *context)
{
    struct soak *soak = context;
    static atomic_uint_fast64_t seeds = 1;
    uint64_t state = seeds++ << 32;
    int fd = -1;
    while (!soak->enough) {
        struct wire_pace sending = { 0 }, receiving = { 0 };
        const uint32_t kind = questions_draw(&state, 40);
        if (kind == 0)
            sending = (struct wire_pace){ 1 + questions_draw(&state, 64), 3 };
        else if (kind == 1)
            receiving = (struct wire_pace){ 65536, 2 };
        else if (kind == 2)
            sending = (struct wire_pace){ 1, 0 };
        soak_ask(soak, &fd, questions_draw(&state, QUESTION_COUNT), sending, receiving);
    }
    wire_close(fd);
    return NULL;
}

static void *be_rude(void *context)
{
    struct soak *soak = context;
    static atomic_uint_fast64_t seeds = 1000;
    uint64_t state = seeds++ << 32;
    while (!soak->enough)
        soak_be_rude(soak, &state);
    return NULL;
}

/* Half of them begin a request and do not go on.  The daemon cuts them; then come new ones. */
static void *be_idle(void *context)
{
    struct soak *soak = context;
    int fds[IDLE];
    while (!soak->enough) {
        for (int i = 0; i < IDLE; i++) {
            fds[i] = wire_open(soak->port);
            if (i % 2 && fds[i] >= 0)
                wire_send(fds[i], "POST /v1/encode HTTP/1.1\r\nHost: ", 33,
                          (struct wire_pace){ 0 });
        }
        for (int ms = 0; ms < 8000 && !soak->enough; ms += 50)
            wire_sleep_ms(50);
        for (int i = 0; i < IDLE; i++)
            wire_close(fds[i]);
    }
    return NULL;
}

static void reload_until(struct soak *soak, uint64_t end_ns)
{
    static const enum soak_config turns[] = { CONFIG_OTHER, CONFIG_BROKEN, CONFIG_USUAL,
                                              CONFIG_NO_MODEL };
    for (size_t turn = 0; wire_clock_ns() < end_ns; turn++) {
        for (int ms = 0; ms < RELOAD_MS && wire_clock_ns() < end_ns; ms += 100)
            wire_sleep_ms(100);
        soak_reload(soak, turns[turn % 4]);
    }
}

void soak_storm(struct soak *soak, double seconds)
{
    pthread_t threads[GOOD + RUDE + 1];
    soak->enough = false;
    for (int i = 0; i < GOOD + RUDE + 1; i++)
        if (pthread_create(&threads[i], NULL,
                           i < GOOD          ? be_good
                           : i < GOOD + RUDE ? be_rude
                                             : be_idle,
                           soak) != 0)
            abort();
    reload_until(soak, wire_clock_ns() + (uint64_t)(seconds * 1e9));
    soak->enough = true;
    for (int i = 0; i < GOOD + RUDE + 1; i++)
        pthread_join(threads[i], NULL);
}
