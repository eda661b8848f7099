/* background.h — one piece of work in a thread of its own, while main goes on taking signals. */
#ifndef BASE_BACKGROUND_H
#define BASE_BACKGROUND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

struct background {
    void (*work)(void *context);
    void *context;
    pthread_t thread;
    atomic_bool done;
};

/* Calls work(context) in a new thread.  Errors: ERR_NO_MEMORY. */
int background_start(struct background *b, void (*work)(void *context), void *context,
                     struct error *err);

/* Once it is true, background_join() takes no time; what the work wrote is seen after that. */
bool background_is_done(const struct background *b);
void background_join(struct background *b);

#endif
