/* signals.h — SIGTERM, SIGINT and SIGHUP, which main alone takes. */
#ifndef APP_SIGNALS_H
#define APP_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Main's thread, before it starts another: the three are blocked from here on, and SIGPIPE is
 * ignored. */
void signals_block(void);

/* Waits for a signal that means stop; at most `timeout_ms`, without end when negative.  False: the
 * time is over.  SIGHUP is logged and waited over. */
bool signals_wait_stop(int64_t timeout_ms);

#endif
