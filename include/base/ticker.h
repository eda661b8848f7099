/* ticker.h — a thread that looks at something again and again while there is something to look at.
 *
 * Its lock guards what it looks at, and is a leaf. */
#ifndef BASE_TICKER_H
#define BASE_TICKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct ticker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t period_ns;
    bool (*look)(void *context);
    void *context;
    bool stopping;
};

/* Calls `look` under the lock, every `period_ns` while it returns true, else when it is woken.
 * `name` is the thread's, of at most 15 bytes.  Errors: ERR_NO_MEMORY. */
int ticker_start(struct ticker *ticker, const char *name, uint64_t period_ns,
                 bool (*look)(void *context), void *context, struct error *err);
void ticker_stop(struct ticker *ticker);

void ticker_lock(struct ticker *ticker);
void ticker_unlock(struct ticker *ticker);
/* There is something to look at.  Under the lock. */
void ticker_wake(struct ticker *ticker);

#endif
