#include "queue.h"

#include <assert.h>

/* Requests looked at for a row that fits, so that a take is bounded. */
enum { LOOK_MAX = 64 };

int queue_open(struct queue *queue, size_t limit, size_t overtakes_max, struct error *err)
{
    *queue = (struct queue){ .limit = limit, .overtakes_max = overtakes_max };
    if (pthread_mutex_init(&queue->lock, NULL) != 0)
        return error_set(err, ERR_NO_MEMORY, "a lock for the queue");
    return 0;
}

void queue_free(struct queue *queue)
{
    assert(!queue->oldest);
    pthread_mutex_destroy(&queue->lock);
}

/* Added, not set: while models are read again two queues share the gauge. */
static void count_waiting(struct queue *queue, size_t added, size_t taken)
{
    queue->waiting_count += added;
    queue->waiting_count -= taken;
    if (queue->waiting_gauge)
        gauge_add(queue->waiting_gauge, (double)added - (double)taken);
}

/* At the back of the ring, that is, before the oldest. */
static void link_request(struct queue *queue, struct request *request)
{
    if (!queue->oldest) {
        request->next = request->previous = request;
        queue->oldest = request;
        return;
    }
    request->next = queue->oldest;
    request->previous = queue->oldest->previous;
    request->previous->next = request;
    queue->oldest->previous = request;
}

static void unlink_request(struct queue *queue, struct request *request)
{
    request->previous->next = request->next;
    request->next->previous = request->previous;
    if (queue->oldest == request)
        queue->oldest = request->next == request ? NULL : request->next;
    request->next = request->previous = NULL;
}

int queue_push(struct queue *queue, struct request *request, struct error *err)
{
    pthread_mutex_lock(&queue->lock);
    const bool closed = queue->closed;
    const size_t waiting = queue->waiting_count;
    const bool room = request->row_count <= queue->limit - waiting;
    if (!closed && room) {
        request->waiting = &request->rows[0];
        for (size_t i = 0; i < request->row_count; i++)
            request->rows[i].next = i + 1 < request->row_count ? &request->rows[i + 1] : NULL;
        count_waiting(queue, request->row_count, 0);
        request_move(request, REQUEST_QUEUED);
        link_request(queue, request);
        request->notice = &queue->notice;
        if (request_is_off(request)) /* since before it had somebody to notify */
            queue->notice = true;
    }
    pthread_mutex_unlock(&queue->lock);
    if (closed)
        return error_set(err, ERR_SHUTTING_DOWN, "the daemon is shutting down");
    if (!room)
        return error_set(err, ERR_BUSY,
                         "%zu sequences wait already and this request has %zu; the limit is %zu",
                         waiting, request->row_count, queue->limit);
    return 0;
}

void queue_close(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_mutex_unlock(&queue->lock);
}

static bool fits(const struct row *row, const struct room *room)
{
    return row->token_count <= room->tokens && row->width <= room->width &&
           row->key_values <= room->key_values;
}

/* The first row of the request leaves; the request goes to the back if it has more. */
static struct row *take_first(struct queue *queue, struct request *request)
{
    struct row *row = request->waiting;
    request->waiting = row->next;
    row->next = NULL;
    count_waiting(queue, 0, 1);
    unlink_request(queue, request);
    if (request->waiting)
        link_request(queue, request);
    if (request->state == REQUEST_QUEUED)
        request_move(request, REQUEST_RUNNING);
    return row;
}

struct row *queue_take(struct queue *queue, const struct room *room)
{
    struct row *row = NULL;
    pthread_mutex_lock(&queue->lock);
    struct request *request = queue->oldest;
    for (size_t looked = 0; request && !row && looked < LOOK_MAX; looked++) {
        if (fits(request->waiting, room)) {
            queue->overtakes = looked == 0 ? 0 : queue->overtakes + 1;
            row = take_first(queue, request);
        } else if (queue->overtakes >= queue->overtakes_max || request->next == queue->oldest) {
            break;
        } else {
            request = request->next;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return row;
}

struct row *queue_take_off(struct queue *queue)
{
    struct row *rows = NULL;
    if (!atomic_exchange(&queue->notice, false))
        return NULL;
    pthread_mutex_lock(&queue->lock);
    struct request *request = queue->oldest, *last = request ? request->previous : NULL;
    while (request) {
        struct request *next = request == last ? NULL : request->next;
        if (request_is_off(request)) {
            if (request == queue->oldest)
                queue->overtakes = 0;
            unlink_request(queue, request);
            while (request->waiting) {
                struct row *row = request->waiting;
                request->waiting = row->next;
                row->next = rows;
                rows = row;
                count_waiting(queue, 0, 1);
            }
        }
        request = next;
    }
    pthread_mutex_unlock(&queue->lock);
    return rows;
}

size_t queue_waiting(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    const size_t count = queue->waiting_count;
    pthread_mutex_unlock(&queue->lock);
    return count;
}
