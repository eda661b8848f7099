/* limits.h — what one request, one queue and one wait may reach.  Each is a key of the
 * configuration. */
#ifndef SERVE_LIMITS_H
#define SERVE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct limits {
    size_t body_bytes;             /* of a request */
    size_t bodies_bytes;           /* of all requests that are not answered yet */
    size_t response_bytes;         /* of an answer, checked before queueing */
    size_t answers_bytes;          /* of all that are computed or not yet taken, small ones aside */
    size_t sequences;              /* rows of a request */
    size_t source_tokens;          /* of a row, masked places included */
    size_t target_tokens;          /* of a row of /v1/score, and of decoder_input_ids */
    size_t beams;                  /* num_beams */
    size_t return_sequences;       /* num_return_sequences */
    size_t top_logprobs;           /* logprobs */
    size_t option_tokens;          /* of one list among a row's options */
    size_t default_max_new_tokens; /* when neither request nor model says */
    size_t max_new_tokens;
    size_t queue_sequences; /* rows that wait, of one model */
    uint64_t request_timeout_ms;
    /* of one API key, or of one client address where there are none; 0: none */
    uint64_t key_requests_per_second, key_burst;
    uint64_t key_concurrency;
};

#endif
