/* answer.h — the JSON of a request that is done, and of the loaded models.  Any thread. */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include "base/buffer.h"
#include "job.h"

/* Appends the answer of job->request, which is DONE without an error.
 * Errors: ERR_NONFINITE, ERR_OVER_LIMIT (the buffer's), ERR_NO_MEMORY; `out` is then no answer. */
int answer_write(struct buffer *out, const struct job *job, struct error *err);

/* The request's tokens, for usage and the log. */
struct answer_usage {
    size_t prompt_tokens;
    size_t output_tokens; /* generated, or of the targets */
};
struct answer_usage answer_usage(const struct request *request);

/* How long the request waited, was encoded and decoded: each the longest of any row, since rows of
 * one request wait and run side by side.  0: it did not come to that. */
struct answer_timing {
    uint64_t queue_ns, encode_ns, decode_ns;
};
struct answer_timing answer_timing(const struct request *request);

/* {"object": "list", "data": [model, …]}, and one model. */
void answer_models(struct buffer *out, const struct registry *registry,
                   const struct limits *limits);
void answer_model(struct buffer *out, const struct served_model *served,
                  const struct limits *limits);

#endif
