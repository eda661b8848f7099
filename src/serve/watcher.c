#include "serve/watcher.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/ticker.h"

/* How late a deadline may be noticed. */
static const uint64_t TICK_NS = 5 * NS_PER_MS;

struct watcher {
    struct ticker ticker; /* its lock guards `first` and the requests' watched_ links */
    struct request *first;
};

static bool look(void *context)
{
    const struct watcher *watcher = context;
    const uint64_t now = clock_ns();
    for (struct request *r = watcher->first; r; r = r->watched_next)
        if (r->deadline_ns <= now)
            request_cancel(r, ERR_DEADLINE);
    return watcher->first != NULL;
}

int watcher_start(struct watcher **out, struct error *err)
{
    *out = NULL;
    struct watcher *watcher = mem_alloc(1, sizeof *watcher);
    if (!watcher)
        return error_set(err, ERR_NO_MEMORY, "watcher");
    if (ticker_start(&watcher->ticker, "deadlines", TICK_NS, look, watcher, err) < 0) {
        mem_free(watcher);
        return -1;
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
    ticker_stop(&w->ticker);
    mem_free(w);
}

void watcher_add(struct watcher *watcher, struct request *request)
{
    ticker_lock(&watcher->ticker);
    request->watched_previous = NULL;
    request->watched_next = watcher->first;
    if (watcher->first)
        watcher->first->watched_previous = request;
    else
        ticker_wake(&watcher->ticker);
    watcher->first = request;
    ticker_unlock(&watcher->ticker);
}

void watcher_remove(struct watcher *watcher, struct request *request)
{
    ticker_lock(&watcher->ticker);
    if (request->watched_previous)
        request->watched_previous->watched_next = request->watched_next;
    else
        watcher->first = request->watched_next;
    if (request->watched_next)
        request->watched_next->watched_previous = request->watched_previous;
    ticker_unlock(&watcher->ticker);
}

void watcher_cancel_all(struct watcher *watcher, enum error_code reason)
{
    ticker_lock(&watcher->ticker);
    for (struct request *r = watcher->first; r; r = r->watched_next)
        request_cancel(r, reason);
    ticker_unlock(&watcher->ticker);
}
