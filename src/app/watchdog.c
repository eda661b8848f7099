#include "app/watchdog.h"

#include <stdlib.h>

#include "app/notify.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ticker.h"

static const uint64_t TICK_NS = 200 * NS_PER_MS;

struct watched {
    const struct workers *workers;
    uint64_t limit_ns;
    struct watched *next;
    struct {
        uint64_t step, ns; /* the step last seen, and how long it has been seen */
    } seen[];              /* (workers_count()) */
};

struct watchdog {
    struct ticker ticker; /* its lock guards the list */
    struct watched *first;
    uint64_t looked_ns;
    uint64_t period_ns, told_ns; /* of notify_alive(); 0: nobody waits for it */
};

static _Noreturn void give_up(size_t worker, const struct watched *watched)
{
    log_write(LOG_ERROR,
              "worker %zu has made no progress for longer than engine.watchdog_ms, %llu: the "
              "process ends",
              worker, (unsigned long long)(watched->limit_ns / NS_PER_MS));
    abort();
}

static void look_at(struct watched *watched, uint64_t passed_ns)
{
    for (size_t i = 0; i < workers_count(watched->workers); i++) {
        const uint64_t step = workers_step(watched->workers, i);
        const bool same = step && step == watched->seen[i].step;
        watched->seen[i].ns = same ? watched->seen[i].ns + passed_ns : 0;
        watched->seen[i].step = step;
        if (watched->limit_ns && watched->seen[i].ns > watched->limit_ns)
            give_up(i, watched);
    }
}

/* A process that was stopped as a whole (a paused container, a debugger) did not hang: the watchdog
 * stood still as well, and counts no more than its ticks. */
static bool look(void *context)
{
    struct watchdog *watchdog = context;
    const uint64_t now = clock_ns(), passed = now - watchdog->looked_ns;
    watchdog->looked_ns = now;
    for (struct watched *w = watchdog->first; w; w = w->next)
        look_at(w, passed < 2 * TICK_NS ? passed : 2 * TICK_NS);
    if (watchdog->period_ns && now - watchdog->told_ns >= watchdog->period_ns) {
        notify_alive();
        watchdog->told_ns = now;
    }
    return true;
}

int watchdog_start(struct watchdog **out, struct error *err)
{
    struct watchdog *watchdog = mem_alloc(1, sizeof *watchdog);
    *out = NULL;
    if (!watchdog)
        return error_set(err, ERR_NO_MEMORY, "no memory for the watchdog");
    watchdog->period_ns = notify_watchdog_ns() / 3;
    if (ticker_start(&watchdog->ticker, "watchdog", TICK_NS, look, watchdog, err) < 0) {
        mem_free(watchdog);
        return -1;
    }
    *out = watchdog;
    return 0;
}

void watchdog_stop(struct watchdog **in)
{
    struct watchdog *watchdog = *in;
    *in = NULL;
    if (!watchdog)
        return;
    ticker_stop(&watchdog->ticker);
    while (watchdog->first) {
        struct watched *watched = watchdog->first;
        watchdog->first = watched->next;
        mem_free(watched);
    }
    mem_free(watchdog);
}

int watchdog_watch(struct watchdog *watchdog, const struct workers *workers, uint64_t limit_ms,
                   struct error *err)
{
    const size_t count = workers_count(workers);
    struct watched *watched = mem_alloc(1, sizeof *watched + count * sizeof *watched->seen);
    if (!watched)
        return error_set(err, ERR_NO_MEMORY, "no memory for the watchdog");
    watched->workers = workers;
    watched->limit_ns = limit_ms * NS_PER_MS;
    ticker_lock(&watchdog->ticker);
    watched->next = watchdog->first;
    watchdog->first = watched;
    ticker_unlock(&watchdog->ticker);
    return 0;
}

void watchdog_forget(struct watchdog *watchdog, const struct workers *workers)
{
    ticker_lock(&watchdog->ticker);
    struct watched **place = &watchdog->first;
    while (*place && (*place)->workers != workers)
        place = &(*place)->next;
    struct watched *found = *place;
    if (found)
        *place = found->next;
    ticker_unlock(&watchdog->ticker);
    mem_free(found);
}
