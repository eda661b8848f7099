#include "base/team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

/* The life of a helper's part.  Every change is one atomic operation on one word, which is also the
 * word that the helper and its caller sleep on: whoever changes it from a state that the other
 * sleeps in wakes the other, so no wake-up can be lost.
 *
 *   from              to        by      in
 *   IDLE, ASLEEP      OFFERED   caller  offer(), unless it lets the helper sleep
 *   OFFERED           TAKEN     helper  help()
 *   OFFERED           IDLE      caller  take_back(), and does the part itself
 *   TAKEN             AWAITED   caller  await(), and sleeps
 *   TAKEN, AWAITED    IDLE      helper  help()
 *   IDLE              ASLEEP    helper  next_offer(), and sleeps
 *   IDLE, ASLEEP      ENDING    caller  team_destroy()
 */
enum state { IDLE, ASLEEP, OFFERED, TAKEN, AWAITED, ENDING };

/* How long a helper spins: longer than most gaps between the pieces of a decoder step, and a
 * few times what a wake-up costs. */
static const uint64_t SPIN_NS = 100000;

/* How long a caller spins at most. */
static const uint64_t AWAIT_NS = NS_PER_MS;

/* Two cache lines, which some processors fetch in pairs. */
enum { APART_BYTES = 128 };

/* Wake-ups without help in a row that are borne, and offers that are not made after more of
 * them. */
enum { VAIN_WAKES = 2, SLEPT_OVER_MAX = 16 };

enum { CORE_SETS = 8 }; /* 8192 cores; the kernel refuses a set smaller than its own */

struct helper {
    /* An offer lies in the line of the state: it reaches the helper in one transfer. */
    _Alignas(APART_BYTES) atomic_uint state;
    void (*work)(void *context, size_t member, size_t members);
    void *context;
    size_t member, members;
    pthread_t thread;
    /* The caller's. */
    bool offered;
    unsigned vain_wakes; /* since it last helped */
    unsigned sleep_over; /* offers */
    /* The caller's to change while it finds the helper ASLEEP, else the helper's. */
    bool kept_off;
    cpu_set_t cores[CORE_SETS]; /* what to allow it again */
};

struct team {
    size_t members;
    size_t started;         /* helpers */
    struct helper *helpers; /* members - 1, inside `block` */
    void *block;
    atomic_bool running;
};

static void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb"); /* yield does nothing on most cores */
#endif
}

/* The state once it is no longer `from`, or `from` after about `limit_ns`.  Who `gives_way` lets
 * others have the core meanwhile: a helper does, which may stand in the way of its own caller.  A
 * caller does not: it would lose the core for a whole time slice while its other work is due. */
static unsigned spin_while(const atomic_uint *state, unsigned from, uint64_t limit_ns,
                           bool gives_way)
{
    for (uint64_t deadline_ns = 0;;) {
        for (int i = 0; i < 32; i++) {
            const unsigned now = atomic_load_explicit(state, memory_order_acquire);
            if (now != from)
                return now;
            relax();
        }
        if (gives_way)
            sched_yield();
        const uint64_t now_ns = clock_ns();
        if (deadline_ns == 0)
            deadline_ns = now_ns + limit_ns;
        else if (now_ns >= deadline_ns)
            return from;
    }
}

static bool change(atomic_uint *state, unsigned from, unsigned to, memory_order order)
{
    return atomic_compare_exchange_strong_explicit(state, &from, to, order, memory_order_relaxed);
}

static void sleep_while(atomic_uint *state, unsigned from)
{
    while (atomic_load_explicit(state, memory_order_acquire) == from)
        syscall(SYS_futex, state, FUTEX_WAIT_PRIVATE, from, NULL, NULL, 0);
}

/* Sets the state and wakes who sleeps in `sleeping`.  One thread at most sleeps on a state. */
static void set_and_wake(atomic_uint *state, unsigned to, unsigned sleeping)
{
    if (atomic_exchange_explicit(state, to, memory_order_acq_rel) == sleeping)
        syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* A wake-up may put a helper on the core of its caller although another is idle (guests of KVM do:
 * a halted core looks like one that the host has taken away), and there it stays for many pieces.
 * So it is kept off that core until it runs. */
static void keep_off_this_core(struct helper *helper)
{
    const int core = sched_getcpu();
    cpu_set_t others[CORE_SETS];
    if (core < 0 || sched_getaffinity(0, sizeof helper->cores, helper->cores) != 0)
        return;
    memcpy(others, helper->cores, sizeof others);
    CPU_CLR_S((size_t)core, sizeof others, others);
    helper->kept_off = CPU_COUNT_S(sizeof others, others) > 0 &&
                       pthread_setaffinity_np(helper->thread, sizeof others, others) == 0;
}

static void allow_every_core(struct helper *helper)
{
    if (helper->kept_off)
        sched_setaffinity(0, sizeof helper->cores, helper->cores);
    helper->kept_off = false;
}

/* Until there is an offer or the end. */
static unsigned next_offer(struct helper *helper)
{
    if (spin_while(&helper->state, IDLE, SPIN_NS, true) == IDLE &&
        change(&helper->state, IDLE, ASLEEP, memory_order_release)) {
        sleep_while(&helper->state, ASLEEP);
        allow_every_core(helper);
    }
    return atomic_load_explicit(&helper->state, memory_order_acquire);
}

static void *help(void *context)
{
    struct helper *helper = context;
    while (next_offer(helper) != ENDING) {
        /* It may have been taken back meanwhile, and even be another offer. */
        if (!change(&helper->state, OFFERED, TAKEN, memory_order_acquire))
            continue;
        helper->work(helper->context, helper->member, helper->members);
        set_and_wake(&helper->state, IDLE, AWAITED);
    }
    return NULL;
}

/* Whether to let a sleeping helper sleep: short pieces that come one by one are done before it is
 * awake, and only the cost of waking it would remain. */
static bool sleeps_on(struct helper *helper)
{
    if (helper->sleep_over > 0) {
        helper->sleep_over--;
        return true;
    }
    helper->vain_wakes++;
    if (helper->vain_wakes > VAIN_WAKES)
        helper->sleep_over = SLEPT_OVER_MAX;
    return false;
}

static void offer(struct helper *helper, void (*work)(void *, size_t, size_t), void *context)
{
    helper->offered = true;
    if (atomic_load_explicit(&helper->state, memory_order_acquire) == ASLEEP) {
        helper->offered = !sleeps_on(helper);
        if (!helper->offered)
            return;
        keep_off_this_core(helper);
    }
    helper->work = work;
    helper->context = context;
    set_and_wake(&helper->state, OFFERED, ASLEEP);
}

/* True when the part is left to the caller. */
static bool take_back(struct helper *helper)
{
    if (!helper->offered || change(&helper->state, OFFERED, IDLE, memory_order_relaxed))
        return true;
    helper->vain_wakes = 0;
    helper->sleep_over = 0;
    return false;
}

/* A helper that began late needs no longer than the run took so far, unless it lost its core. */
static uint64_t patience_ns(uint64_t start_ns)
{
    const uint64_t so_far_ns = clock_ns() - start_ns + SPIN_NS;
    return so_far_ns < AWAIT_NS ? so_far_ns : AWAIT_NS;
}

/* Until the helper has ended what it took.  It may be IDLE or ASLEEP by then. */
static void await(struct helper *helper, uint64_t limit_ns)
{
    if (spin_while(&helper->state, TAKEN, limit_ns, false) != TAKEN)
        return;
    change(&helper->state, TAKEN, AWAITED, memory_order_relaxed);
    sleep_while(&helper->state, AWAITED);
}

void team_run(struct team *team, void (*work)(void *context, size_t member, size_t members),
              void *context)
{
    if (team_size(team) == 1) {
        work(context, 0, 1);
        return;
    }
    const bool running = atomic_exchange_explicit(&team->running, true, memory_order_acquire);
    assert(!running);
    const uint64_t start_ns = clock_ns();
    for (size_t i = 0; i < team->started; i++)
        offer(&team->helpers[i], work, context);
    work(context, 0, team->members);
    /* From the last: it had the least time to begin. */
    for (size_t i = team->started; i-- > 0;)
        if (take_back(&team->helpers[i]))
            work(context, team->helpers[i].member, team->members);
    const uint64_t limit_ns = patience_ns(start_ns);
    for (size_t i = 0; i < team->started; i++)
        await(&team->helpers[i], limit_ns);
    atomic_store_explicit(&team->running, false, memory_order_release);
}

/* 0 or what pthread_create() says. */
static int start(struct helper *helper)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigfillset(&all);
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    rc = pthread_attr_setsigmask_np(&attributes, &all);
    if (rc == 0)
        rc = pthread_create(&helper->thread, &attributes, help, helper);
    pthread_attr_destroy(&attributes);
    return rc;
}

int team_create(struct team **out, size_t members, struct error *err)
{
    assert(members > 0);
    *out = NULL;
    struct team *team = mem_alloc(1, sizeof *team);
    if (!team)
        return error_set(err, ERR_NO_MEMORY, "a team");
    team->members = members;
    team->block = mem_alloc(members, sizeof *team->helpers); /* one more, for the alignment */
    if (!team->block) {
        error_set(err, ERR_NO_MEMORY, "a team of %zu", members);
        goto fail;
    }
    team->helpers =
        (struct helper *)(((uintptr_t)team->block + APART_BYTES - 1) / APART_BYTES * APART_BYTES);
    for (; team->started < members - 1; team->started++) {
        struct helper *helper = &team->helpers[team->started];
        atomic_init(&helper->state, IDLE);
        helper->member = team->started + 1;
        helper->members = members;
        const int rc = start(helper);
        if (rc != 0) {
            error_set(err, ERR_NO_MEMORY, "a thread for member %zu of a team of %zu: %s",
                      helper->member, members, strerror(rc));
            goto fail;
        }
    }
    *out = team;
    return 0;

fail:
    team_destroy(&team);
    return -1;
}

void team_destroy(struct team **team)
{
    struct team *t = *team;
    *team = NULL;
    if (!t)
        return;
    assert(!atomic_load_explicit(&t->running, memory_order_relaxed));
    for (size_t i = 0; i < t->started; i++)
        set_and_wake(&t->helpers[i].state, ENDING, ASLEEP);
    for (size_t i = 0; i < t->started; i++)
        pthread_join(t->helpers[i].thread, NULL);
    mem_free(t->block);
    mem_free(t);
}

size_t team_size(const struct team *team)
{
    return team ? team->members : 1;
}
