#include "serve/watcher.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

/* How late a deadline may be noticed. */
static const uint64_t TICK_NS = 5 * NS_PER_MS;

struct watcher {
    pthread_t thread;
    pthread_mutex_t lock; /* every field below, and the requests' watched_ links */
    pthread_cond_t changed;
    struct request *first;
    bool stopping;
};

static void wait_ns(struct watcher *watcher, uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t nsec = (uint64_t)until.tv_nsec + ns;
    until.tv_sec += (time_t)(nsec / NS_PER_S);
    until.tv_nsec = (long)(nsec % NS_PER_S);
    pthread_cond_timedwait(&watcher->changed, &watcher->lock, &until);
}

static void *watch(void *context)
{
    struct watcher *watcher = context;
    pthread_mutex_lock(&watcher->lock);
    while (!watcher->stopping) {
        const uint64_t now = clock_ns();
        for (struct request *r = watcher->first; r; r = r->watched_next)
            if (r->deadline_ns <= now)
                request_cancel(r, ERR_DEADLINE);
        if (watcher->first)
            wait_ns(watcher, TICK_NS);
        else
            pthread_cond_wait(&watcher->changed, &watcher->lock);
    }
    pthread_mutex_unlock(&watcher->lock);
    return NULL;
}

int watcher_start(struct watcher **out, struct error *err)
{
    pthread_condattr_t attributes;
    *out = NULL;
    struct watcher *watcher = mem_alloc(1, sizeof *watcher);
    if (!watcher)
        return error_set(err, ERR_NO_MEMORY, "watcher");
    pthread_mutex_init(&watcher->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watcher->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&watcher->thread, NULL, watch, watcher) != 0) {
        pthread_cond_destroy(&watcher->changed);
        pthread_mutex_destroy(&watcher->lock);
        mem_free(watcher);
        return error_set(err, ERR_NO_MEMORY, "a thread for the watcher");
    }
    *out = watcher;
    return 0;
}

void watcher_stop(struct watcher **watcher)
{
    struct watcher *w = *watcher;
    *watcher = NULL;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

void watcher_add(struct watcher *watcher, struct request *request)
{
    pthread_mutex_lock(&watcher->lock);
    request->watched_previous = NULL;
    request->watched_next = watcher->first;
    if (watcher->first)
        watcher->first->watched_previous = request;
    else
        pthread_cond_signal(&watcher->changed);
    watcher->first = request;
    pthread_mutex_unlock(&watcher->lock);
}

void watcher_remove(struct watcher *watcher, struct request *request)
{
    pthread_mutex_lock(&watcher->lock);
    if (request->watched_previous)
        request->watched_previous->watched_next = request->watched_next;
    else
        watcher->first = request->watched_next;
    if (request->watched_next)
        request->watched_next->watched_previous = request->watched_previous;
    pthread_mutex_unlock(&watcher->lock);
}

void watcher_cancel_all(struct watcher *watcher, enum error_code reason)
{
    pthread_mutex_lock(&watcher->lock);
    for (struct request *r = watcher->first; r; r = r->watched_next)
        request_cancel(r, reason);
    pthread_mutex_unlock(&watcher->lock);
}
