/* signals.h — SIGTERM, SIGINT and SIGHUP, which main alone takes. */
#ifndef APP_SIGNALS_H
#define APP_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Main's thread, before it starts another: the three are blocked from here on, SIGPIPE is ignored,
 * and SIGBUS in a mapped file ends the process with the file's name. */
void signals_block(void);

enum signal_event { SIGNAL_NONE, SIGNAL_STOP, SIGNAL_RELOAD };

/* Waits for a signal, at most `timeout_ms`, without end when negative.  SIGNAL_NONE: the time is
 * over. */
enum signal_event signals_wait(int64_t timeout_ms);

/* Waits for one that means stop.  False: the time is over.  SIGHUP is logged and waited over. */
bool signals_wait_stop(int64_t timeout_ms);

#endif
