/* generation.h — all that comes from one reading of the configuration: models, engines, workers,
 * certificate, and what the server answers requests from.
 *
 * A new one is opened beside the current one, takes its place, and the former is closed once the
 * requests that began with it have ended.  Main's thread, but for opening, which main leaves to a
 * thread that it does not interfere with. */
#ifndef APP_GENERATION_H
#define APP_GENERATION_H

#include "app/credentials.h"
#include "app/serving.h"
#include "app/watchdog.h"
#include "http/service.h"

struct generation {
    struct configuration config; /* owned */
    struct serving serving;
    struct workers *workers;
    struct watchdog *watchdog; /* that looks at the workers */
    struct credentials credentials;
    struct service service;
    struct generation *older; /* the next in a list of those that were replaced */
};

/* Takes the configuration over, which is empty then, and opens its credentials: the server needs
 * them before there are models.  NULL: the configuration stays the caller's.
 * Errors: ERR_NO_MEMORY, those of credentials_open(). */
struct generation *generation_create(struct configuration *config, struct error *err);

/* Loads the models and starts the workers; service.registry stays NULL.
 * Errors: those of serving_open(), workers_start() and watchdog_watch(). */
int generation_open(struct generation *generation, struct crew crew, struct metrics *metrics,
                    struct watchdog *watchdog, struct error *err);

/* Nobody is answered from it, nor will be. */
bool generation_is_unused(const struct generation *generation);

/* No new requests; the accepted ones are told to end, with ERR_SHUTTING_DOWN. */
void generation_cancel(struct generation *generation);

/* From whatever state; no request is with an engine.  In two steps where the server must go between
 * them: its threads submit to the engines. */
void generation_stop_workers(struct generation *generation);
/* Models and workers that `served` does not have leave `metrics`; NULL: they stay. */
void generation_close(struct generation **generation, struct metrics *metrics,
                      const struct serving *served);

#endif
