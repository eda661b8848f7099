/* request.h — one accepted request and its rows, from the socket to the answer.
 *
 *            submit            first row taken        last row ended
 *   PARSED ──────────▶ QUEUED ──────────────▶ RUNNING ─────────────▶ DONE
 *      │                  │                                           ▲
 *      │ refused          └───────────────────────────────────────────┘
 *      ▼                    cancelled or failed before any row was taken
 *   REFUSED
 *
 * Who may touch the request, and what is true:
 *   PARSED   The HTTP thread that parsed it.  Everything was checked against the model and limits.
 *   QUEUED   The engine's queue, under its lock.  No row has been taken.
 *   RUNNING  Each row belongs to the queue or to one lane (a worker): rows are scheduled, not
 *            requests.  A row's `answer` is written by its owner alone, without a lock.
 *   DONE     The HTTP thread again, after `done` was called: every row has ended.  `error.code` is
 *            ERR_NONE and every answer complete, or `error` says why not.
 *   REFUSED  The HTTP thread: engine_submit() failed; `done` was not and will not be called.
 *
 * From any thread: request_cancel() (a flag that the engine honours between steps) and
 * request_fail() (the first failure wins; one failed row fails the request).  Every change of state
 * goes through request_move(). */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/sentence.h"
#include "search/search.h"

enum request_kind { REQUEST_ENCODE, REQUEST_GENERATE, REQUEST_SCORE };
enum request_state {
    REQUEST_PARSED,
    REQUEST_QUEUED,
    REQUEST_RUNNING,
    REQUEST_DONE,
    REQUEST_REFUSED,
    REQUEST_STATE_COUNT
};

/* What a row gets.  All owned by the row, freed by request_destroy(). */
struct row_answer {
    /* encode: (sent_count, dim) with zeros at masked places for POOLING_NONE, else (dim);
     * dim = pooling_dim() */
    float *embedding;
    /* encode: encoder self-attention (L, H, sent_count, sent_count), zeros at masked places */
    float *encoder_attentions;

    /* generate: the finished search holds the sequences */
    struct search *search;
    /* generate: for each sequence (L, H, target places, sent_count); places are start, prefix and
     * the generated tokens but the last.  NULL unless asked. */
    float **sequence_attentions;

    /* score: (target_count) */
    float *token_logprobs;
    struct token_logprob *top_logprobs; /* (target_count, request.top_logprobs) or NULL */
    float
        *decoder_attentions; /* (L, H, target_count, target_count); place 0 is the start; or NULL */
    float *cross_attentions; /* (L, H, target_count, sent_count) or NULL */
};

struct row {
    struct request *request;
    size_t index; /* in the request */

    /* the source: real tokens only, packed; of each its place in the row as sent, and its position
     */
    int32_t *tokens, *places, *positions; /* (token_count), owned */
    size_t token_count, sent_count;
    int32_t *sent_ids; /* (sent_count), owned: masked ones too; NULL: not kept */
    bool truncated;

    /* generate: options resolved; prefix = decoder start and what the caller put behind it */
    struct options options;
    int32_t *prefix; /* (prefix_count), owned; score: the start alone */
    size_t prefix_count;
    /* score */
    int32_t *targets; /* (target_count), owned */
    size_t target_count;

    struct row_answer answer;

    /* the engine's, from here on */
    struct row *next;  /* in a list of whoever owns the row */
    size_t width;      /* hypotheses it may have at once; 0: encode only */
    size_t slots;      /* of self keys and values */
    size_t key_values; /* floats of KV cache it reserves */
    uint64_t taken_ns, encoded_ns, first_token_ns, last_token_ns, ended_ns;
};

struct request {
    enum request_kind kind;
    char id[129];
    struct row *rows;
    size_t row_count;

    /* encode */
    enum pooling pooling;
    bool normalize;
    /* encode, score */
    bool output_attentions;
    /* score */
    size_t top_logprobs;
    /* generate: on a deadline, answer with what there is */
    bool partial;

    uint64_t received_ns; /* last byte of the body */
    uint64_t deadline_ns;
    uint64_t queued_ns;

    /* Called once, from a worker's thread, when the request is DONE: it may be freed by another
     * thread before this returns, so the caller touches it no more. */
    void (*done)(struct request *request, void *context);
    void *context;

    /* the engine's */
    _Atomic enum request_state state;
    _Atomic enum error_code
        cancelled;                 /* ERR_NONE, ERR_DEADLINE, ERR_CLIENT_GONE, ERR_SHUTTING_DOWN */
    atomic_size_t rows_left;       /* that have not ended */
    atomic_bool failed;            /* set by the one who then writes `error` */
    _Atomic(atomic_bool *) notice; /* set when the request goes off; its queue's, or NULL */
    struct error error;
    struct row *waiting;                             /* rows not yet taken; queue->lock */
    size_t waiting_count;                            /* queue->lock */
    struct request *next, *previous;                 /* in the queue's ring; queue->lock */
    struct request *watched_next, *watched_previous; /* in the watcher's list; its lock */
};

/* A request in PARSED with `row_count` empty rows.  NULL: no memory. */
struct request *request_create(enum request_kind kind, size_t row_count);
/* Only in PARSED, DONE or REFUSED.  Sets *request to NULL; it may be NULL. */
void request_destroy(struct request **request);

/* Aborts on an arrow that the diagram does not have. */
void request_move(struct request *request, enum request_state state);

/* Asks the engine to stop work on it.  The first reason stays. */
void request_cancel(struct request *request, enum error_code reason);
/* Records a failure; the rest of its rows is dropped at the next step. */
void request_fail(struct request *request, const struct error *error);
/* True once it was cancelled or has failed: no work on it is needed. */
bool request_is_off(const struct request *request);

#endif
