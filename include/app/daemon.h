/* daemon.h — `seqd` without a subcommand: start, serve, reload, stop. */
#ifndef APP_DAEMON_H
#define APP_DAEMON_H

#include "app/reload.h"

enum daemon_end {
    DAEMON_STOPPED,  /* as a signal asked, everything answered and closed */
    DAEMON_LEFT,     /* the same, but for models that are still being loaded: leave at once */
    DAEMON_FAILED,   /* it could not start: see the error; everything is closed */
    DAEMON_ABANDONED /* a second signal, or workers that do not end: threads run on, leave at once
                      */
};

/* Runs until a signal stops it; SIGHUP makes it read its configuration again.  Takes *config over,
 * which is empty then.  Main's thread, after signals_block(). */
enum daemon_end daemon_run(struct configuration *config, const struct invocation *invocation,
                           struct error *err);

#endif
