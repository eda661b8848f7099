/* bench.h — the engine measured without HTTP.  Private to src/app; main's thread. */
#ifndef APP_BENCH_H
#define APP_BENCH_H

#include <semaphore.h>

#include "app/serving.h"
#include "base/buffer.h"
#include "http/bench_job.h"

struct bench {
    struct configuration
        config; /* the caller's, its strings borrowed; limits of requests widened */
    struct metrics *metrics;
    struct serving serving;
    struct workers *workers;
    const struct served_model *served; /* the only one */
    double ready_seconds;              /* from the start of the process */
    sem_t done;                        /* posted for each request that is done */
};

/* Means of the repetitions, from engine_submit() to `done`. */
struct bench_result {
    double seconds, cpu_seconds;
    size_t tokens;           /* of one repetition: generated ones, or encoded ones */
    struct request *request; /* the last repetition, done; for request_destroy() */
};

/* The job's rows as one request, `repeat` times.  Errors: those of options_set(), options_resolve()
 * and engine_submit(), those of the request, ERR_NO_MEMORY. */
int bench_measure(struct bench *bench, const struct bench_job *job, struct bench_result *result,
                  struct error *err);

/* The longest row that the model and the configuration let in. */
size_t bench_source_max(const struct bench *bench);

/* Jobs from stdin until its end.  A job that cannot be done is answered by {"error": …}.
 * Errors: ERR_IO, ERR_NO_MEMORY. */
int bench_pipe(struct bench *bench, struct error *err);

/* The built-in workloads, interleaved. */
int bench_workloads(struct bench *bench, struct error *err);

/* The line goes to stdout at once.  Errors: ERR_IO, ERR_NO_MEMORY. */
int bench_print(struct buffer *line, struct error *err);

#endif
