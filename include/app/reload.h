/* reload.h — reading the configuration again, as SIGHUP asks. */
#ifndef APP_RELOAD_H
#define APP_RELOAD_H

#include "app/generation.h"

/* How the process was started: what a second reading begins with.  Borrowed, const. */
struct invocation {
    int argc;
    char *const *argv, *const *environment;
    uint64_t started_ns; /* clock_ns() at the start of the process */
};

/* A generation of its own, open, with its registry, from the sources as they are now: files are
 * found by name, whatever their times say.  Keys that only a new start changes are a warning and
 * stay as they are in `current`.  NULL: nothing has changed and nothing is left of it.
 * Errors: those of configuration_read(), configuration_check_serving(), generation_create() and
 * generation_open().
 * One thread at a time; main changes nothing of `current` meanwhile. */
struct generation *reload_open(const struct generation *current,
                               const struct invocation *invocation, double cores,
                               struct metrics *metrics, struct watchdog *watchdog,
                               struct error *err);

#endif
