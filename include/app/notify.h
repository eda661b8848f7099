/* notify.h — what systemd is told of the daemon's life, over $NOTIFY_SOCKET; nothing where it is
 * not set.  Any thread. */
#ifndef APP_NOTIFY_H
#define APP_NOTIFY_H

#include <stdint.h>

void notify_ready(void); /* after the start, and after a reload whatever came of it */
void notify_reloading(void);
void notify_stopping(void);
void notify_alive(void);

/* How long systemd waits for notify_alive(): $WATCHDOG_USEC, if it is meant for this process.
 * 0: it does not wait. */
uint64_t notify_watchdog_ns(void);

#endif
