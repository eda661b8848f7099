/* queue.h — rows that wait for a lane, of one engine.  Private to src/serve.
 *
 * A ring of requests, oldest first; taking a row sends its request to the back, so requests take
 * turns. A row that does not fit may be passed over by the next ones, at most `overtakes_max` times
 * in a row; then everything waits for it.
 *
 * Locks: queue->lock guards every field and the requests' `waiting` lists.  It is a leaf: under it
 * nothing is allocated, no other lock is taken and no callback runs. */
#ifndef SERVE_QUEUE_H
#define SERVE_QUEUE_H

#include <pthread.h>

#include "base/metrics.h"
#include "serve/request.h"

struct queue {
    pthread_mutex_t lock;
    struct request *oldest; /* of the ring; NULL: empty */
    size_t waiting_count;   /* rows */
    size_t limit;           /* of waiting_count */
    size_t overtakes, overtakes_max;
    bool closed;
    struct gauge *waiting_gauge; /* follows waiting_count; NULL: none does */
    atomic_bool notice;          /* some request that waits may be off */
};

/* What a lane has free. */
struct room {
    size_t tokens;     /* source tokens of this encoder pass */
    size_t width;      /* hypotheses */
    size_t key_values; /* floats, in one piece */
};

int queue_open(struct queue *queue, size_t limit, size_t overtakes_max, struct error *err);
void queue_free(struct queue *queue); /* it must be empty */

/* All rows of the request or none.  The queue owns it afterwards, in state QUEUED; on failure it
 * stays the caller's, in PARSED.  Errors: ERR_BUSY, ERR_SHUTTING_DOWN. */
int queue_push(struct queue *queue, struct request *request, struct error *err);
void queue_close(struct queue *queue);

/* The next row that fits, now the caller's and its request RUNNING; NULL when none does. */
struct row *queue_take(struct queue *queue, const struct room *room);

/* All waiting rows of requests that are off, linked by `next`. */
struct row *queue_take_off(struct queue *queue);

size_t queue_waiting(struct queue *queue);

#endif
