/* job.h — a decoded request with what its answer needs besides: the model, and how to write it.
 *
 * One owner at a time, as an exchange has it; the engine owns `request` from engine_submit() until
 * `done`. */
#ifndef HTTP_JOB_H
#define HTTP_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/registry.h"

struct job {
    struct served_model *served; /* borrowed; NULL until the request named a model that is loaded */
    struct request *request;     /* owned; NULL until decoded */
    size_t answer_bytes;         /* about how long the answer will be at most */
    bool base64;                 /* embeddings as text */
    bool return_tokens;          /* the answer carries each row's ids */
};

/* Frees what the job owns; `served` stays. */
void job_clear(struct job *job);

#endif
