/* daemon.h — `seqd` without a subcommand: start, serve, stop. */
#ifndef APP_DAEMON_H
#define APP_DAEMON_H

#include <stdint.h>

#include "app/configuration.h"

enum daemon_end {
    DAEMON_STOPPED,  /* as a signal asked, everything answered and closed */
    DAEMON_FAILED,   /* it could not start: see the error; everything is closed */
    DAEMON_ABANDONED /* a second signal, or workers that do not end: threads run on, leave at once
                      */
};

/* Runs until a signal stops it.  Main's thread, after signals_block().  `started_ns`: clock_ns() at
 * the start of the process. */
enum daemon_end daemon_run(const struct configuration *config, uint64_t started_ns,
                           struct error *err);

#endif
