/* watchdog.h — a thread that sees whether the workers still get anywhere.
 *
 * A step takes milliseconds.  One that takes longer than its limit will not end any more, and every
 * request behind it would wait for nothing: the process says so and aborts, to be started anew by
 * what supervises it.  While all is well, systemd is told (notify_alive()). */
#ifndef APP_WATCHDOG_H
#define APP_WATCHDOG_H

#include <stdint.h>

#include "base/error.h"
#include "serve/workers.h"

struct watchdog;

/* Errors: ERR_NO_MEMORY. */
int watchdog_start(struct watchdog **out, struct error *err);
void watchdog_stop(struct watchdog **watchdog);

/* Between these two calls the workers are looked at; `limit_ms` 0: they may take any time.
 * Errors: ERR_NO_MEMORY. */
int watchdog_watch(struct watchdog *watchdog, const struct workers *workers, uint64_t limit_ms,
                   struct error *err);
void watchdog_forget(struct watchdog *watchdog, const struct workers *workers);

#endif
