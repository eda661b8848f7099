#include "desk.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

struct desk {
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct desk_task *first; /* by size */
    bool closed;
};

/* The next task once there is one; NULL: there will be none. */
static struct desk_task *take(struct desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    while (!desk->first && !desk->closed)
        pthread_cond_wait(&desk->changed, &desk->lock);
    struct desk_task *task = desk->first;
    if (task)
        desk->first = task->next;
    pthread_mutex_unlock(&desk->lock);
    return task;
}

static void *work(void *context)
{
    for (struct desk_task *task; (task = take(context)) != NULL;)
        task->run(task->context);
    return NULL;
}

int desk_start(struct desk **out, struct error *err)
{
    *out = NULL;
    struct desk *desk = mem_alloc(1, sizeof *desk);
    if (!desk)
        return error_set(err, ERR_NO_MEMORY, "no memory for the desk");
    pthread_mutex_init(&desk->lock, NULL);
    pthread_cond_init(&desk->changed, NULL);
    const int rc = pthread_create(&desk->thread, NULL, work, desk);
    if (rc != 0) {
        desk->closed = true;
        desk_destroy(&desk);
        return error_set(err, ERR_NO_MEMORY, "no thread desk: %s", strerror(rc));
    }
    pthread_setname_np(desk->thread, "desk");
    *out = desk;
    return 0;
}

void desk_add(struct desk *desk, struct desk_task *task)
{
    pthread_mutex_lock(&desk->lock);
    const bool closed = desk->closed;
    if (!closed) {
        struct desk_task **place = &desk->first;
        while (*place && (*place)->bytes <= task->bytes)
            place = &(*place)->next;
        task->next = *place;
        *place = task;
        pthread_cond_signal(&desk->changed);
    }
    pthread_mutex_unlock(&desk->lock);
    if (closed)
        task->run(task->context);
}

void desk_close(struct desk *desk)
{
    if (!desk)
        return;
    pthread_mutex_lock(&desk->lock);
    const bool closed = desk->closed;
    desk->closed = true;
    pthread_cond_signal(&desk->changed);
    pthread_mutex_unlock(&desk->lock);
    if (!closed)
        pthread_join(desk->thread, NULL);
}

void desk_destroy(struct desk **in)
{
    struct desk *desk = *in;
    if (!desk)
        return;
    *in = NULL;
    desk_close(desk);
    pthread_cond_destroy(&desk->changed);
    pthread_mutex_destroy(&desk->lock);
    mem_free(desk);
}
