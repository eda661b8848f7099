/* workers.h — the worker threads: each steps its lane of every engine in turn, with a team of
 * threads of its own, and sleeps when there is nothing to do. */
#ifndef SERVE_WORKERS_H
#define SERVE_WORKERS_H

#include "serve/engine.h"

struct workers;
struct wakeup;

/* How the cores are used: `workers` batches at once, each by a team of `threads`. */
struct crew {
    size_t workers, threads;
};

/* What a sleeping worker waits on; engines ring it.  Its lock is a leaf. */
struct wakeup *wakeup_create(void);
void wakeup_destroy(struct wakeup **wakeup);
void wakeup_ring(struct wakeup *wakeup);

/* Starts the threads of `crew` over `engines`, borrowed until workers_stop().
 * Errors: ERR_NO_MEMORY. */
int workers_start(struct workers **out, struct engine **engines, size_t engine_count,
                  struct crew crew, struct wakeup *wakeup, struct metrics *metrics,
                  struct error *err);
/* The number of the step that worker `index` of workers_count() does, another one each time; 0: it
 * does none.  Any thread. */
size_t workers_count(const struct workers *workers);
uint64_t workers_step(const struct workers *workers, size_t index);
/* Ends them after their current step and joins them. */
void workers_stop(struct workers **workers);

#endif
