#include "app/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mapped_file.h"

static pthread_t main_thread;

/* Runs only in a thread that we did not start (a library may start its own before main) and that
 * does not block the signal: main, which does, gets it instead. */
static void pass_to_main(int signal)
{
    pthread_kill(main_thread, signal);
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    (void)context;
    mapped_files_fault(info->si_addr);
    struct sigaction usual = { .sa_handler = SIG_DFL }; /* raised again by the same instruction */
    sigaction(signal, &usual, NULL);
}

static void fill(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void signals_block(void)
{
    static const int handled[] = { SIGTERM, SIGINT, SIGHUP };
    main_thread = pthread_self();
    sigset_t set;
    fill(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    struct sigaction pass = { .sa_handler = pass_to_main, .sa_flags = SA_RESTART };
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
        sigaction(handled[i], &pass, NULL);
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigaction(SIGPIPE, &ignore, NULL);
    struct sigaction bus = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &bus, NULL);
}

/* The next signal of the three; 0 when `deadline_ns` is over or, rarely, for no reason. */
static int wait_until(uint64_t deadline_ns)
{
    const uint64_t now = clock_ns();
    const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    const struct timespec limit = { .tv_sec = (time_t)(left / NS_PER_S),
                                    .tv_nsec = (long)(left % NS_PER_S) };
    sigset_t set;
    fill(&set);
    const int signal = sigtimedwait(&set, NULL, &limit);
    return signal > 0 ? signal : 0;
}

static uint64_t deadline_after(int64_t timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

static enum signal_event wait_event(uint64_t deadline_ns)
{
    do {
        const int signal = wait_until(deadline_ns);
        if (signal)
            return signal == SIGHUP ? SIGNAL_RELOAD : SIGNAL_STOP;
    } while (clock_ns() < deadline_ns);
    return SIGNAL_NONE;
}

enum signal_event signals_wait(int64_t timeout_ms)
{
    return wait_event(deadline_after(timeout_ms));
}

bool signals_wait_stop(int64_t timeout_ms)
{
    const uint64_t deadline_ns = deadline_after(timeout_ms);
    enum signal_event event;
    while ((event = wait_event(deadline_ns)) == SIGNAL_RELOAD)
        log_write(LOG_WARNING, "SIGHUP: the daemon is stopping");
    return event == SIGNAL_STOP;
}
