#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soak.h"

enum { POLL_MS = 5, RELOAD_SECONDS = 30 };

static long read_status(pid_t pid, const char *field)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static long count_fds(pid_t pid)
{
    char path[64];
    long count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    if (!directory)
        return -1;
    for (const struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

void state_read(pid_t pid, struct state *state)
{
    *state = (struct state){ .resident_kb = read_status(pid, "VmRSS:"),
                             .anonymous_kb = read_status(pid, "RssAnon:"),
                             .fds = count_fds(pid),
                             .threads = read_status(pid, "Threads:") };
}

double soak_metric(const struct soak *soak, const char *series)
{
    struct wire_answer answer;
    if (wire_ask(soak->port, "/metrics", "", &answer) < 0 || answer.status != 200) {
        free(answer.bytes);
        return -1;
    }
    const size_t length = strlen(series);
    double sum = 0;
    for (const char *line = answer.bytes; line && *line;) {
        if (strncmp(line, series, length) == 0 && (line[length] == ' ' || line[length] == '{'))
            sum += strtod(strpbrk(line + length, " \n"), NULL);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    free(answer.bytes);
    return sum;
}

bool is_at_most(double value, double than)
{
    return value >= 0 && value <= than;
}

bool is_at_least(double value, double than)
{
    return value >= than;
}

bool soak_await(const struct soak *soak, const char *series, bool (*wanted)(double, double),
                double than, unsigned seconds)
{
    const uint64_t end = wire_clock_ns() + seconds * 1000000000ull;
    do {
        if (wanted(soak_metric(soak, series), than))
            return true;
        wire_sleep_ms(POLL_MS);
    } while (wire_clock_ns() < end);
    return false;
}

/* What a reload changes, besides which models there are.  A machine that has other things to do
 * must not make a good request late.  Warnings only: the log of an hour would be gigabytes. */
static const char *const texts[CONFIG_COUNT] = {
    [CONFIG_START] = "log: {level: info}\n", /* the start tells the port */
    [CONFIG_USUAL] = "log: {level: warning}\nlimits: {request_timeout_ms: 600000}\n",
    [CONFIG_OTHER] =
        "log: {level: warning}\nlimits: {request_timeout_ms: 590000, sequences: 1024}\n"
        "engine: {step_tokens: 128}\n",
    [CONFIG_SMALL_QUEUE] = "log: {level: warning}\nlimits: {sequences: 64, queue_sequences: 64}\n",
    [CONFIG_SHORT] = "log: {level: warning}\nlimits: {request_timeout_ms: 2000}\n",
    [CONFIG_BROKEN] = "limits: {request_timeout_ms: [}\n",
    [CONFIG_NO_MODEL] = "limits: {request_timeout_ms: 600000}\n",
};

void soak_configure(const struct soak *soak, enum soak_config config)
{
    char part[sizeof soak->config + 8];
    snprintf(part, sizeof part, "%s.part", soak->config);
    FILE *file = fopen(part, "w");
    if (!file)
        abort();
    fprintf(file,
            "server: {idle_timeout_ms: 5000}\n"
            "models:\n"
            "  - {name: g2p, path: models/g2p}\n"
            "  - {name: t5, path: tests/kit/t5}\n"
            "  - {name: vanilla_nopos, path: tests/kit/vanilla_nopos}\n"
            "%s%s",
            config == CONFIG_NO_MODEL ? "  - {name: none, path: tests/kit/none}\n"
            : config == CONFIG_OTHER  ? "  - {name: bart, path: tests/kit/bart}\n"
                                      : "",
            texts[config]);
    if (fclose(file) != 0 || rename(part, soak->config) != 0)
        abort();
}

void soak_reload(struct soak *soak, enum soak_config config)
{
    static const char success[] = "seqd_config_last_reload_success_timestamp_seconds";
    const bool bad = config == CONFIG_BROKEN || config == CONFIG_NO_MODEL;
    const double before = soak_metric(soak, success);
    soak_configure(soak, config);
    kill(soak->pid, SIGHUP);
    soak->reloads += !bad;
    soak->bad_reloads += bad;
    const bool done =
        bad ? soak_await(soak, "seqd_config_last_reload_successful", is_at_most, 0, RELOAD_SECONDS)
            : soak_await(soak, success, is_at_least, before + 0.0005, RELOAD_SECONDS);
    if (!done) {
        soak->failed_reloads++;
        soak_fault(soak, "a %s reload was not told by the metrics", bad ? "bad" : "good");
    }
}
