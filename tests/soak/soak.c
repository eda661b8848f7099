/* soak — mixed load on one daemon for a while; what must not change is compared with the start.
 *
 * usage: soak PROGRAM HOURS DIRECTORY
 * Prints a table, writes DIRECTORY/soak.json, and ends with 0 when all that is judged is as
 * wanted.  From the root of the source tree. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../kit/kit_daemon.h"
#include "soak.h"

enum { REST_SECONDS = 30 };

/* A shorter run is still warming up: what its heap and its batches have touched grows on. */
#define WARM_SECONDS  360.0
#define WARM_SLACK_KB 16384.0

void soak_fault(struct soak *soak, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&soak->lock);
    if (soak->fault_count < sizeof soak->faults / sizeof soak->faults[0]) {
        char *fault = soak->faults[soak->fault_count++];
        vsnprintf(fault, FAULT_BYTES, format, arguments);
        fprintf(stderr, "fault: %s\n", fault);
    }
    pthread_mutex_unlock(&soak->lock);
    va_end(arguments);
}

void soak_figure(struct soak *soak, const char *name, double value, const char *wanted, bool passed)
{
    if (soak->figure_count == FIGURES_MAX)
        abort();
    soak->figures[soak->figure_count++] = (struct figure){ name, value, wanted, passed };
    printf("%-48s %14.6g  %s%s\n", name, value, wanted ? wanted : "",
           !wanted  ? ""
           : passed ? ""
                    : "  FAILED");
    fflush(stdout);
}

void soak_ask(struct soak *soak, int *fd, size_t question, struct wire_pace sending,
              struct wire_pace receiving)
{
    const struct question *asked = &soak->questions.all[question];
    struct wire_answer answer = { 0 };
    size_t length;
    char *request = wire_request(asked->path, asked->body, &length);
    if (*fd < 0)
        *fd = wire_open(soak->port);
    soak->good++;
    if (*fd < 0 || wire_send(*fd, request, length, sending) < 0 ||
        wire_receive(*fd, &answer, receiving) < 0 || answer.status != 200) {
        soak->failed++;
        soak_fault(soak, "%d for %s %.150s: %.200s", answer.status, asked->path, asked->body,
                   answer.bytes ? answer.bytes : "no answer");
        wire_close(*fd);
        *fd = -1;
    } else {
        soak->compared++;
        if (!questions_agree(&soak->questions, question, &answer)) {
            soak->drifted++;
            soak_fault(soak, "another answer to %s %.300s", asked->path, asked->body);
        }
    }
    free(answer.bytes);
    free(request);
}

/* The same work on new engines, then what the process holds when nobody asks: two such states can
 * be compared.  Whether everything came to rest. */
static bool rest(struct soak *soak, const struct state *before, struct state *state)
{
    static const char *const gauges[] = { "seqd_queue_sequences", "seqd_active_sequences",
                                          "seqd_kv_cache_bytes" };
    bool rested = true;
    int fd = -1;
    soak_reload(soak, CONFIG_USUAL);
    soak_fill(soak);
    for (size_t i = 0; i < QUESTION_COUNT; i++)
        soak_ask(soak, &fd, i, (struct wire_pace){ 0 }, (struct wire_pace){ 0 });
    wire_close(fd);
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++)
        rested = soak_await(soak, gauges[i], is_at_most, 0, REST_SECONDS) && rested;
    /* The scrape's own connection is one. */
    rested = soak_await(soak, "seqd_http_connections", is_at_most, 1, REST_SECONDS) && rested;
    for (int ms = 0; ms < REST_SECONDS * 1000; ms += 20) {
        state_read(soak->pid, state);
        if (!before && ms >= 2000)
            break;
        if (before && state->threads == before->threads && state->fds == before->fds)
            break;
        wire_sleep_ms(20);
    }
    return rested;
}

static void judge(struct soak *soak, const struct state *start, const struct state *end,
                  bool rested, double seconds)
{
    const bool warm = seconds >= WARM_SECONDS;
    const double slack_kb = warm ? 0 : WARM_SLACK_KB;
    soak_figure(soak, "good requests", (double)soak->good, NULL, true);
    soak_figure(soak, "answers compared", (double)soak->compared, "some", soak->compared > 0);
    soak_figure(soak, "failed good requests", (double)soak->failed, "0", soak->failed == 0);
    soak_figure(soak, "answers that drifted", (double)soak->drifted, "0", soak->drifted == 0);
    soak_figure(soak, "rude clients", (double)soak->rude, NULL, true);
    soak_figure(soak, "  answered wrongly", (double)soak->misjudged, "0", soak->misjudged == 0);
    soak_figure(soak, "reloads", (double)soak->reloads, NULL, true);
    soak_figure(soak, "bad reloads", (double)soak->bad_reloads, NULL, true);
    soak_figure(soak, "reloads that did not end", (double)soak->failed_reloads, "0",
                soak->failed_reloads == 0);
    soak_figure(soak, "RssAnon after warm-up, kB", (double)start->anonymous_kb, NULL, true);
    soak_figure(soak, "RssAnon at the end, kB", (double)end->anonymous_kb,
                warm ? "within 5 %" : "within 5 % and 16 MB",
                (double)end->anonymous_kb <= 1.05 * (double)start->anonymous_kb + slack_kb);
    soak_figure(soak, "open descriptors after warm-up", (double)start->fds, NULL, true);
    soak_figure(soak, "open descriptors at the end", (double)end->fds, "the same",
                end->fds == start->fds);
    soak_figure(soak, "threads after warm-up", (double)start->threads, NULL, true);
    soak_figure(soak, "threads at the end", (double)end->threads, "the same",
                end->threads == start->threads);
    soak_figure(soak, "all gauges at rest again", rested, "1", rested);
}

static bool write_json(const struct soak *soak, const char *directory)
{
    char path[4200];
    bool passed = true;
    json_t *figures = json_object(), *faults = json_array();
    for (size_t i = 0; i < soak->figure_count; i++) {
        const struct figure *figure = &soak->figures[i];
        passed = passed && figure->passed;
        json_object_set_new(figures, figure->name + strspn(figure->name, " "),
                            json_pack("{s:f, s:s?, s:b}", "value", figure->value, "wanted",
                                      figure->wanted, "passed", (int)figure->passed));
    }
    for (size_t i = 0; i < soak->fault_count; i++)
        json_array_append_new(faults, json_string_nocheck(soak->faults[i]));
    json_t *report =
        json_pack("{s:b, s:o, s:o}", "passed", (int)passed, "figures", figures, "faults", faults);
    snprintf(path, sizeof path, "%s/soak.json", directory);
    if (!report || json_dump_file(report, path, JSON_INDENT(1)) < 0)
        passed = false;
    json_decref(report);
    return passed;
}

static void run(struct soak *soak, double seconds)
{
    struct state first, start, end;
    const uint64_t begin_ns = wire_clock_ns();
    soak_shapes(soak, 0.3 * seconds);
    const double shapes = (double)(wire_clock_ns() - begin_ns) / 1e9;
    rest(soak, NULL, &first); /* every question has its first answer */
    soak_storm(soak, 0.1 * seconds);
    bool rested = rest(soak, &first, &start);
    soak_storm(soak, 0.9 * seconds - shapes);
    rested = rest(soak, &start, &end) && rested;
    judge(soak, &start, &end, rested, seconds);
    soak_overload(soak);
    soak_crowd(soak);
}

int main(int argc, char **argv)
{
    static struct soak soak = { .lock = PTHREAD_MUTEX_INITIALIZER };
    char why[512] = "", log[4200];
    const double hours = argc == 4 ? strtod(argv[2], NULL) : 0;
    if (hours <= 0) {
        fprintf(stderr, "usage: soak PROGRAM HOURS DIRECTORY\n");
        return 2;
    }
    /* A thousand connections, here and in the daemon. */
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    snprintf(soak.config, sizeof soak.config, "%s/soak.yaml", argv[3]);
    snprintf(log, sizeof log, "%s/soak.log", argv[3]);
    questions_open(&soak.questions);
    soak_configure(&soak, CONFIG_START);
    struct kit_daemon daemon;
    const char *const options[] = { "--config", soak.config, NULL };
    if (kit_daemon_start(&daemon, argv[1], options, log, why, sizeof why) < 0) {
        fprintf(stderr, "soak: %s\n", why);
        return 1;
    }
    soak.pid = daemon.pid;
    soak.port = daemon.port;
    run(&soak, hours * 3600);
    const bool stopped = kit_daemon_stop(&daemon, why, sizeof why) == 0;
    if (!stopped)
        soak_fault(&soak, "%s", why);
    soak_figure(&soak, "SIGTERM ends it with 0", stopped, "1", stopped);
    const bool passed = write_json(&soak, argv[3]);
    questions_close(&soak.questions);
    printf("%s\n", passed ? "passed" : "FAILED");
    return passed ? 0 : 1;
}
