#include "base/ticker.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"

static void wait_a_period(struct ticker *ticker)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t ns = (uint64_t)until.tv_nsec + ticker->period_ns;
    until.tv_sec += (time_t)(ns / NS_PER_S);
    until.tv_nsec = (long)(ns % NS_PER_S);
    pthread_cond_timedwait(&ticker->changed, &ticker->lock, &until);
}

static void *tick(void *context)
{
    struct ticker *ticker = context;
    pthread_mutex_lock(&ticker->lock);
    while (!ticker->stopping) {
        if (ticker->look(ticker->context))
            wait_a_period(ticker);
        else
            pthread_cond_wait(&ticker->changed, &ticker->lock);
    }
    pthread_mutex_unlock(&ticker->lock);
    return NULL;
}

int ticker_start(struct ticker *ticker, const char *name, uint64_t period_ns,
                 bool (*look)(void *context), void *context, struct error *err)
{
    *ticker = (struct ticker){ .period_ns = period_ns, .look = look, .context = context };
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&ticker->lock, NULL);
    pthread_cond_init(&ticker->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const int rc = pthread_create(&ticker->thread, NULL, tick, ticker);
    if (rc != 0) {
        pthread_cond_destroy(&ticker->changed);
        pthread_mutex_destroy(&ticker->lock);
        return error_set(err, ERR_NO_MEMORY, "no thread %s: %s", name, strerror(rc));
    }
    pthread_setname_np(ticker->thread, name);
    return 0;
}

void ticker_stop(struct ticker *ticker)
{
    pthread_mutex_lock(&ticker->lock);
    ticker->stopping = true;
    pthread_cond_signal(&ticker->changed);
    pthread_mutex_unlock(&ticker->lock);
    pthread_join(ticker->thread, NULL);
    pthread_cond_destroy(&ticker->changed);
    pthread_mutex_destroy(&ticker->lock);
}

void ticker_lock(struct ticker *ticker)
{
    pthread_mutex_lock(&ticker->lock);
}

void ticker_unlock(struct ticker *ticker)
{
    pthread_mutex_unlock(&ticker->lock);
}

void ticker_wake(struct ticker *ticker)
{
    pthread_cond_signal(&ticker->changed);
}
