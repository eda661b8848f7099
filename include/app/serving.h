/* serving.h — kernels, models and engines: all that serves but threads that compute and the HTTP
 * face.
 *
 * Main's thread.  The daemon and `seqd check` open the same. */
#ifndef APP_SERVING_H
#define APP_SERVING_H

#include "app/configuration.h"
#include "serve/registry.h"
#include "serve/watcher.h"
#include "serve/workers.h"

struct serving {
    struct kernels kernels;
    struct wakeup *wakeup;
    struct watcher *watcher;
    struct registry registry;
    struct engine **engines; /* (registry.count), of the registry, as workers_start() takes them */
    size_t worker_count;     /* lanes of each engine */
};

/* The count that `engine.workers` means: one a core, rounded, when it is 0. */
size_t serving_worker_count(const struct configuration *config, double budget_cores);

/* Borrows all arguments until serving_close(), which takes what a failure leaves, too.
 * Errors: ERR_CONFIG, ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY, ERR_INTERNAL (a kernel is wrong). */
int serving_open(struct serving *serving, const struct configuration *config, size_t worker_count,
                 struct metrics *metrics, struct error *err);

/* No worker runs any more and no request is left. */
void serving_close(struct serving *serving);

/* Requests that the engines have. */
size_t serving_request_count(const struct serving *serving);

#endif
