/* bench_job.h — the jobs of `seqd bench`: what a line of `--pipe` asks for, as plain values.
 *
 * {"kind": "generate" | "encode", "rows": [[id, …], …], "new": 64, "beams": 1, "repeat": 1,
 *  "want_tokens": false, "logprobs": true}; kind and rows are needed, the others have these values
 * else. One thread at a time. */
#ifndef HTTP_BENCH_JOB_H
#define HTTP_BENCH_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct bench_job {
    bool generates; /* else it encodes */
    struct bench_row {
        int32_t *tokens;  /* (count), owned */
        size_t count;     /* ≥ 1 */
    } * rows;             /* (row_count), owned */
    size_t row_count;     /* ≥ 1 */
    size_t new_tokens;    /* of each row, ≥ 1 */
    size_t beams, repeat; /* ≥ 1 */
    bool want_tokens;
    bool logprobs; /* false: not even the sum of a sequence's log-probabilities */
};

/* Ids are checked against `vocabulary`, the source's.  On failure, too, the job is for
 * bench_job_clear().  Errors: ERR_NO_MEMORY and those of a request that is wrong. */
int bench_job_read(struct bench_job *job, const char *line, size_t length, size_t vocabulary,
                   struct error *err);
void bench_job_clear(struct bench_job *job);

#endif
