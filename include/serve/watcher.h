/* watcher.h — the thread that notices passed deadlines.
 *
 * A suspended connection notices neither its deadline nor its client's leaving; the watcher sets
 * the cancel flag of the request, nothing else.  Its lock is a leaf and guards the list of
 * requests. */
#ifndef SERVE_WATCHER_H
#define SERVE_WATCHER_H

#include "serve/request.h"

struct watcher;

/* Errors: ERR_NO_MEMORY. */
int watcher_start(struct watcher **out, struct error *err);
void watcher_stop(struct watcher **watcher); /* no request is watched any more */

/* Between these two calls the request's deadline is kept.  After watcher_remove() the watcher never
 * touches it again. */
void watcher_add(struct watcher *watcher, struct request *request);
void watcher_remove(struct watcher *watcher, struct request *request);

/* Sets the cancel flag of every watched request: the end of the drain. */
void watcher_cancel_all(struct watcher *watcher, enum error_code reason);

#endif
