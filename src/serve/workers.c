#include "serve/workers.h"

#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/team.h"

struct wakeup {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    uint64_t rings;
};

struct worker {
    struct workers *workers;
    size_t index;
    pthread_t thread;
    struct team *team;     /* NULL: it works alone */
    _Atomic uint64_t step; /* its number, from 1; 0: there is none */
    struct counter *busy_seconds;
    struct gauge *last_step;
};

struct workers {
    struct engine **engines;
    size_t engine_count;
    struct wakeup *wakeup;
    atomic_bool stopping;
    struct worker *list;
    size_t count; /* started */
};

struct wakeup *wakeup_create(void)
{
    struct wakeup *wakeup = mem_alloc(1, sizeof *wakeup);
    if (wakeup) {
        pthread_mutex_init(&wakeup->lock, NULL);
        pthread_cond_init(&wakeup->rung, NULL);
    }
    return wakeup;
}

void wakeup_destroy(struct wakeup **wakeup)
{
    struct wakeup *w = *wakeup;
    *wakeup = NULL;
    if (!w)
        return;
    pthread_cond_destroy(&w->rung);
    pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

void wakeup_ring(struct wakeup *wakeup)
{
    pthread_mutex_lock(&wakeup->lock);
    wakeup->rings++;
    pthread_cond_broadcast(&wakeup->rung);
    pthread_mutex_unlock(&wakeup->lock);
}

static uint64_t rings_so_far(struct wakeup *wakeup)
{
    pthread_mutex_lock(&wakeup->lock);
    const uint64_t rings = wakeup->rings;
    pthread_mutex_unlock(&wakeup->lock);
    return rings;
}

/* Until it is rung after `seen` was read: what was submitted since then is not slept over. */
static void wait_for_ring(struct wakeup *wakeup, uint64_t seen)
{
    pthread_mutex_lock(&wakeup->lock);
    while (wakeup->rings == seen)
        pthread_cond_wait(&wakeup->rung, &wakeup->lock);
    pthread_mutex_unlock(&wakeup->lock);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct workers *workers = worker->workers;
    for (uint64_t step = 1; !workers->stopping; step++) {
        const uint64_t seen = rings_so_far(workers->wakeup);
        const uint64_t start = clock_ns();
        bool busy = false;
        worker->step = step;
        for (size_t i = 0; i < workers->engine_count; i++)
            busy = engine_step(workers->engines[i], worker->index, worker->team) || busy;
        worker->step = 0;
        if (busy) {
            counter_add(worker->busy_seconds, (double)(clock_ns() - start) / 1e9);
            gauge_set(worker->last_step, clock_unix_seconds());
        } else if (!workers->stopping) {
            wait_for_ring(workers->wakeup, seen);
        }
    }
    return NULL;
}

static int start_worker(struct workers *workers, size_t index, size_t threads,
                        struct metrics *metrics, struct error *err)
{
    struct worker *worker = &workers->list[index];
    char label[32], name[16];
    if (threads > 1 && team_create(&worker->team, threads, err) < 0)
        return -1;
    snprintf(label, sizeof label, "worker=\"%zu\"", index);
    worker->workers = workers;
    worker->index = index;
    worker->busy_seconds = metrics_counter(metrics, "seqd_worker_busy_seconds_total",
                                           "Time that a worker spent in engine steps.", label);
    worker->last_step = metrics_gauge(
        metrics, "seqd_worker_last_step_timestamp_seconds",
        "When a worker last did an engine step, or was started; seconds since 1970.", label);
    gauge_set(worker->last_step, clock_unix_seconds());
    if (pthread_create(&worker->thread, NULL, work, worker) == 0) {
        snprintf(name, sizeof name, "worker %u", (unsigned)index % 10000);
        pthread_setname_np(worker->thread, name);
        return 0;
    }
    team_destroy(&worker->team);
    return error_set(err, ERR_NO_MEMORY, "a thread for worker %zu", index);
}

int workers_start(struct workers **out, struct engine **engines, size_t engine_count,
                  struct crew crew, struct wakeup *wakeup, struct metrics *metrics,
                  struct error *err)
{
    *out = NULL;
    struct workers *workers = mem_alloc(1, sizeof *workers);
    if (!workers)
        return error_set(err, ERR_NO_MEMORY, "workers");
    workers->engines = engines;
    workers->engine_count = engine_count;
    workers->wakeup = wakeup;
    workers->list = mem_alloc(crew.workers, sizeof *workers->list);
    if (!workers->list) {
        error_set(err, ERR_NO_MEMORY, "workers");
        goto fail;
    }
    for (; workers->count < crew.workers; workers->count++)
        if (start_worker(workers, workers->count, crew.threads, metrics, err) < 0)
            goto fail;
    *out = workers;
    return 0;

fail:
    workers_stop(&workers);
    return -1;
}

size_t workers_count(const struct workers *workers)
{
    return workers->count;
}

uint64_t workers_step(const struct workers *workers, size_t index)
{
    return workers->list[index].step;
}

void workers_stop(struct workers **workers)
{
    struct workers *w = *workers;
    *workers = NULL;
    if (!w)
        return;
    w->stopping = true;
    wakeup_ring(w->wakeup);
    for (size_t i = 0; i < w->count; i++) {
        pthread_join(w->list[i].thread, NULL);
        team_destroy(&w->list[i].team);
    }
    mem_free(w->list);
    mem_free(w);
}
