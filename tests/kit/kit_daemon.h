/* kit_daemon.h — one daemon, started and stopped by its process id. */
#ifndef KIT_DAEMON_H
#define KIT_DAEMON_H

#include <stddef.h>
#include <sys/types.h>

struct kit_daemon {
    pid_t pid;
    int port;
};

/* Starts PROGRAM --listen 127.0.0.1:0 with the options, at most 16 and then NULL, writes what it
 * prints to the file `log`, and waits for the log line that tells the port.  −1 and the reason in
 * `why` when it ends or takes too long; nothing is left running then. */
int kit_daemon_start(struct kit_daemon *daemon, const char *program, const char *const *options,
                     const char *log, char *why, size_t why_bytes);

/* SIGTERM, then waits.  0 when the daemon exited with 0; else −1 and the reason in `why`. */
int kit_daemon_stop(struct kit_daemon *daemon, char *why, size_t why_bytes);

#endif
