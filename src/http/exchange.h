/* exchange.h — one request and its answer on a connection.
 *
 *   READING ── last byte ──▶ (answered at once: probes, refusals)
 *      │
 *      ├── large: suspended, at the desk ──▶ DECODED ──┐
 *      └── decoded ────────────────────────────────────┴── suspended, submitted ──▶ WORKING
 *
 *   WORKING ── `done` ──┬────────────────────────────────┬── resumed ──▶ (answered)
 *                       └── large: at the desk ──▶ WRITTEN ──┘
 *
 * Threads: the connection's HTTP thread, always the same one, but while the connection is
 * suspended: then the desk's has it, or the engine and after that `done`, on a worker, which hands
 * it to the desk or resumes the connection. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include <arpa/inet.h>

#include "admission.h"
#include "answer.h"
#include "desk.h"
#include "job.h"
#include "reply.h"

enum exchange_stage { EXCHANGE_READING, EXCHANGE_DECODED, EXCHANGE_WORKING, EXCHANGE_WRITTEN };

struct exchange {
    struct server *server;
    struct service *service; /* taken until exchange_close() */
    struct MHD_Connection *connection;
    struct peer *peer;
    struct admission admission;
    char *path;         /* owned; admission.name points into it */
    const char *method; /* one of a closed set, else "other" */
    char id[129];       /* X-Request-Id */
    char traceparent[129];
    char client[INET6_ADDRSTRLEN]; /* address; empty unless it is to be logged */
    uint64_t started_ns, received_ns;

    enum exchange_stage stage;
    bool counted; /* among server->open_exchanges */
    struct buffer body;
    size_t body_held;   /* its share of server->body_bytes, until the request is gone */
    size_t answer_held; /* the same of server->answer_bytes */
    size_t discarded;   /* bytes of a body that nobody will read */
    struct error error; /* why the answer will be a refusal */
    struct job job;
    struct desk_task task;
    struct buffer answer; /* written, not yet sent */

    /* for the log and the metrics */
    unsigned status; /* 0: not answered */
    size_t rows;
    struct answer_usage usage;
    struct answer_timing timing;
    size_t bytes_in, bytes_out; /* of the bodies */
};

/* The head of a request is there.  NULL: no memory. */
struct exchange *exchange_open(struct server *server, const struct request_head *head);

/* Queues a refusal that cannot wait for the body. */
enum MHD_Result exchange_refuse(struct exchange *exchange);

/* A piece of the body.  False: give the connection up. */
bool exchange_read(struct exchange *exchange, const char *bytes, size_t count);

/* The body is complete, or a worker has resumed the connection. */
enum MHD_Result exchange_run(struct exchange *exchange);

/* The answer has left, or the connection is lost: logs, counts and frees. */
void exchange_close(struct exchange **exchange);

/* After how long without a byte the library closes the connection, from now; 0: never. */
void exchange_set_idle_timeout(struct MHD_Connection *connection, uint64_t ms);

#endif
