/* soak.h — what the parts of the soak share: one daemon, the good questions, and the figures. */
#ifndef SOAK_H
#define SOAK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "questions.h"

#define FIGURES_MAX 64
#define FAULT_BYTES 512

/* What the process holds, from /proc. */
struct state {
    long resident_kb, anonymous_kb, fds, threads;
};

/* A line of the report. */
struct figure {
    const char *name;
    double value;
    const char *wanted; /* NULL: told, not judged */
    bool passed;
};

struct soak {
    pid_t pid;
    int port;
    char config[4096]; /* the daemon's configuration file */
    struct questions questions;

    atomic_size_t good, compared, failed,
        drifted;                   /* good requests, their answers, what went wrong */
    atomic_size_t rude, misjudged; /* bad behaviour, and how often it was answered wrongly */
    size_t reloads, bad_reloads, failed_reloads;
    atomic_bool enough;

    pthread_mutex_t lock; /* of the next two */
    char faults[8][FAULT_BYTES];
    size_t fault_count;

    struct figure figures[FIGURES_MAX]; /* the main thread's alone */
    size_t figure_count;
};

/* soak_state.c */
void state_read(pid_t pid, struct state *state);
/* The sum of the metric's series, or one series if all of it is named; −1: the scrape failed. */
double soak_metric(const struct soak *soak, const char *series);
/* Polls until the sum is as wanted; whether it was within so many seconds. */
bool soak_await(const struct soak *soak, const char *series, bool (*wanted)(double, double),
                double than, unsigned seconds);
bool is_at_most(double value, double than);
bool is_at_least(double value, double than);

/* soak_state.c: writes the configuration and sends SIGHUP, waits for what the metrics say. */
enum soak_config {
    CONFIG_START,
    CONFIG_USUAL,
    CONFIG_OTHER,
    CONFIG_SMALL_QUEUE,
    CONFIG_SHORT,
    CONFIG_BROKEN,
    CONFIG_NO_MODEL,
    CONFIG_COUNT
};
void soak_configure(const struct soak *soak, enum soak_config config);
void soak_reload(struct soak *soak, enum soak_config config);

/* soak.c: remembers the first faults, for the report. */
void soak_fault(struct soak *soak, const char *format, ...) __attribute__((format(printf, 2, 3)));
void soak_figure(struct soak *soak, const char *name, double value, const char *wanted,
                 bool passed);
/* One good request on *fd, which is opened if it is −1 and closed when it fails. */
void soak_ask(struct soak *soak, int *fd, size_t question, struct wire_pace sending,
              struct wire_pace receiving);

/* rude.c: one random piece of bad behaviour or input. */
void soak_be_rude(struct soak *soak, uint64_t *state);

/* storm.c */
void soak_fill(struct soak *soak); /* large requests at once, so that what is reserved is touched */
void soak_shapes(struct soak *soak, double seconds); /* RSS over requests of ever new shapes */
void soak_storm(struct soak *soak, double seconds);  /* everything at once */

/* overload.c: figures of what an attacker or a crowd would do. */
void soak_overload(struct soak *soak);
/* crowd.c: idle connections, slow senders, slow readers. */
void soak_crowd(struct soak *soak);

#endif
