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
    struct crew crew;
};

/* What `engine.workers` and `engine.threads` mean on so many cores.  Where both are left open, all
 * cores share one batch, up to THREADS_MAX of them: memory, which the weights of a batch go
 * through once, is what is short. */
struct crew serving_crew(const struct configuration *config, double budget_cores);

/* Borrows all arguments until serving_close(), which takes what a failure leaves, too.
 * Errors: ERR_CONFIG, ERR_IO, ERR_BAD_MODEL, ERR_NO_MEMORY, ERR_INTERNAL (a kernel is wrong). */
int serving_open(struct serving *serving, const struct configuration *config, struct crew crew,
                 struct metrics *metrics, struct error *err);

/* What is open is what is served from now on, as metrics tell. */
void serving_publish(const struct serving *serving, struct metrics *metrics);

/* No worker runs any more and no request is left. */
void serving_close(struct serving *serving);

/* Requests that the engines have. */
size_t serving_request_count(const struct serving *serving);

#endif
