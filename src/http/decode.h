/* decode.h — from the bytes of a body to a request that needs no more checks.  JSON ends here.
 *
 * Everything that can be refused is refused here: types, vocabulary, positions, options, limits.
 * Any thread. */
#ifndef HTTP_DECODE_H
#define HTTP_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "job.h"

struct decode_context {
    const struct registry *registry;
    const struct limits *limits;
    const char *request_id;
    uint64_t received_ns; /* last byte of the body */
};

/* Fills *job, which is all zero; job_clear() frees.  On failure only job->served may be set.
 * Errors: those of 400, 404 and 413, and ERR_NO_MEMORY. */
int decode_request(struct job *job, enum request_kind kind, const char *bytes, size_t count,
                   const struct decode_context *context, struct error *err);

#endif
