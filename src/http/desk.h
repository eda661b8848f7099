/* desk.h — a thread for what would keep an HTTP thread, and all its connections, too long: large
 * bodies are read and large answers written here, one after another, while their connections are
 * suspended.
 *
 * The smallest first: what is small never waits for more than one that is large, and only one of
 * those takes its memory at a time.  Who is passed over for too long meets its deadline.
 *
 * Threads: any.  The lock is a leaf. */
#ifndef HTTP_DESK_H
#define HTTP_DESK_H

#include <stddef.h>

#include "base/error.h"

struct desk;

struct desk_task {
    void (*run)(void *context);
    void *context;
    size_t bytes; /* of the body or of the answer */
    struct desk_task *next;
};

/* Errors: ERR_NO_MEMORY. */
int desk_start(struct desk **out, struct error *err);

/* Runs the task, which is the caller's, once: on the desk's thread, or at once on this one when the
 * desk is closed. */
void desk_add(struct desk *desk, struct desk_task *task);

/* Waits for the tasks that are there.  May be NULL. */
void desk_close(struct desk *desk);
void desk_destroy(struct desk **desk);

#endif
