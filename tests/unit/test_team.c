/* A team of threads: who works, who waits, who sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/team.h"

enum { MEMBERS_MAX = 8, CORE_SETS = 8 };

/* Longer than a helper spins: it sleeps afterwards. */
static const uint64_t REST_NS = 2 * NS_PER_MS;

static struct team *team_of(size_t members)
{
    struct error err = { 0 };
    struct team *team = NULL;
    assert_int_equal(team_create(&team, members, &err), 0);
    assert_int_equal(team_size(team), members);
    return team;
}

static void rest(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)REST_NS }, NULL);
}

static void burn(uint64_t ns)
{
    const uint64_t end_ns = clock_ns() + ns;
    while (clock_ns() < end_ns)
        ;
}

struct calls {
    size_t members;
    size_t of[MEMBERS_MAX]; /* each written by its member only */
    bool wrong;
    uint64_t part_ns; /* about what a call takes */
};

static void count_calls(void *context, size_t member, size_t members)
{
    struct calls *calls = context;
    if (members == calls->members && member < members)
        calls->of[member]++;
    else
        calls->wrong = true;
}

static void every_member_works_once_in_each_of_many_runs(void **state)
{
    (void)state;
    enum { RUNS = 12500 }; /* 100 000 in all */
    for (size_t members = 1; members <= MEMBERS_MAX; members++) {
        struct team *team = team_of(members);
        struct calls calls = { .members = members };
        for (size_t run = 1; run <= RUNS; run++) {
            team_run(team, count_calls, &calls);
            for (size_t i = 0; i < MEMBERS_MAX; i++)
                assert_int_equal(calls.of[i], i < members ? run : 0);
        }
        assert_false(calls.wrong);
        team_destroy(&team);
        assert_null(team);
    }
}

static void count_calls_later(void *context, size_t member, size_t members)
{
    const struct calls *calls = context;
    burn(calls->part_ns * (member + 1) % 4000);
    count_calls(context, member, members);
}

/* Helpers that begin, end, fall asleep and are overtaken just when the caller looks. */
static void every_member_works_once_whoever_is_late(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    for (size_t members = 2; members <= 4; members++) {
        struct team *team = team_of(members);
        struct calls calls = { .members = members };
        for (size_t run = 1; run <= RUNS; run++) {
            calls.part_ns = run * 7919 % 4000;
            if (run % 16 == 0)
                burn(30000 + run * 104729 % 60000);
            team_run(team, count_calls_later, &calls);
            for (size_t i = 0; i < members; i++)
                assert_int_equal(calls.of[i], run);
        }
        assert_false(calls.wrong);
        team_destroy(&team);
    }
}

static void without_a_team_the_caller_works_alone(void **state)
{
    (void)state;
    struct calls calls = { .members = 1 };
    assert_int_equal(team_size(NULL), 1);
    team_run(NULL, count_calls, &calls);
    assert_int_equal(calls.of[0], 1);
    assert_false(calls.wrong);
    struct team *none = NULL;
    team_destroy(&none);
}

enum { NUMBERS = 1000 };

struct sums {
    uint32_t numbers[NUMBERS];
    uint64_t of[MEMBERS_MAX];
};

static void sum_share(void *context, size_t member, size_t members)
{
    struct sums *sums = context;
    size_t first, end;
    team_share(NUMBERS, 16, member, members, &first, &end);
    uint64_t sum = 0;
    for (size_t i = first; i < end; i++)
        sum += sums->numbers[i];
    sums->of[member] = sum;
}

/* What the caller wrote is read by the members, and what they wrote by the caller. */
static void check_sums(struct team *team, struct sums *sums, uint32_t start)
{
    uint64_t expected = 0, sum = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        sums->numbers[i] = start * 31 + i * i;
        expected += sums->numbers[i];
    }
    team_run(team, sum_share, sums);
    for (size_t i = 0; i < team_size(team); i++)
        sum += sums->of[i];
    assert_int_equal(sum, expected);
}

static void a_run_sees_what_the_caller_wrote_and_the_caller_what_it_wrote(void **state)
{
    (void)state;
    static struct sums sums;
    for (size_t members = 1; members <= 4; members++) {
        struct team *team = team_of(members);
        for (uint32_t run = 0; run < 5000; run++)
            check_sums(team, &sums, run);
        team_destroy(&team);
    }
}

static void a_team_that_slept_works_on(void **state)
{
    (void)state;
    static struct sums sums;
    for (size_t members = 2; members <= MEMBERS_MAX; members += 3) {
        struct team *team = team_of(members);
        for (uint32_t run = 0; run < 40; run++) {
            rest();
            check_sums(team, &sums, run);
            check_sums(team, &sums, run + 1);
        }
        team_destroy(&team);
    }
}

static void *run_from_another_thread(void *context)
{
    static struct sums sums;
    check_sums(context, &sums, 7);
    return NULL;
}

static void the_caller_may_be_another_thread_each_time(void **state)
{
    (void)state;
    struct team *team = team_of(3);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, run_from_another_thread, team), 0);
        pthread_join(thread, NULL);
    }
    team_destroy(&team);
}

struct long_part {
    pthread_t caller;
    uint64_t own_ns, other_ns; /* how long a part takes the caller, and a helper */
    bool sleeps;               /* a helper; it burns CPU otherwise */
    atomic_bool helped;
};

static void take_long(void *context, size_t member, size_t members)
{
    struct long_part *part = context;
    (void)member, (void)members;
    if (pthread_equal(pthread_self(), part->caller)) {
        burn(part->own_ns);
        return;
    }
    if (part->sleeps)
        nanosleep(&(struct timespec){ .tv_nsec = (long)part->other_ns }, NULL);
    else
        burn(part->other_ns);
    part->helped = true;
}

/* Until helpers did a part, as they must when parts are long. */
static void run_until_helped(struct team *team, struct long_part *part)
{
    const uint64_t end_ns = clock_ns() + 60 * NS_PER_S;
    part->caller = pthread_self();
    part->helped = false;
    while (!part->helped && clock_ns() < end_ns)
        team_run(team, take_long, part);
    assert_true(part->helped);
}

static void helpers_help(void **state)
{
    (void)state;
    struct team *team = team_of(2);
    struct long_part part = { .own_ns = NS_PER_MS, .other_ns = NS_PER_MS };
    for (int i = 0; i < 20; i++) {
        rest();
        run_until_helped(team, &part);
    }
    team_destroy(&team);
}

static void a_team_works_on_one_core(void **state)
{
    (void)state;
    static struct sums sums;
    cpu_set_t usual[CORE_SETS], one[CORE_SETS] = { 0 };
    assert_int_equal(sched_getaffinity(0, sizeof usual, usual), 0);
    CPU_SET_S((size_t)sched_getcpu(), sizeof one, one);
    assert_int_equal(sched_setaffinity(0, sizeof one, one), 0);
    struct team *team = team_of(3);
    for (uint32_t run = 0; run < 2000; run++) {
        if (run % 50 == 0)
            rest();
        check_sums(team, &sums, run);
    }
    struct long_part part = { .own_ns = NS_PER_MS, .other_ns = NS_PER_MS };
    run_until_helped(team, &part);
    team_destroy(&team);
    assert_int_equal(sched_setaffinity(0, sizeof usual, usual), 0);
}

static double cpu_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void a_caller_that_waits_long_sleeps(void **state)
{
    (void)state;
    struct team *team = team_of(3);
    struct long_part part = { .own_ns = NS_PER_MS, .other_ns = 100 * NS_PER_MS, .sleeps = true };
    for (int i = 0; i < 3; i++) {
        const double before = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
        const uint64_t start_ns = clock_ns();
        run_until_helped(team, &part);
        const double used = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - before;
        assert_true((double)(clock_ns() - start_ns) >= (double)part.other_ns);
        assert_true(used < (double)(clock_ns() - start_ns) / 1e9 - 0.05);
    }
    team_destroy(&team);
}

static void a_team_without_work_uses_no_cpu(void **state)
{
    (void)state;
    struct team *team = team_of(MEMBERS_MAX);
    struct calls calls = { .members = MEMBERS_MAX };
    team_run(team, count_calls, &calls);
    bool idle = false; /* soon: on a busy machine helpers may still be about to fall asleep */
    for (int i = 0; i < 20 && !idle; i++) {
        const double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
        nanosleep(&(struct timespec){ .tv_nsec = (long)(100 * NS_PER_MS) }, NULL);
        idle = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before < 0.02;
    }
    assert_true(idle);
    team_destroy(&team);
}

static void pieces_that_come_alone_let_helpers_sleep(void **state)
{
    (void)state;
    enum { RUNS = 300 };
    if (cpu_budget_cores() < 2)
        skip(); /* on one core a helper may begin before its caller */
    struct team *team = team_of(2);
    struct calls calls = { .members = 2 };
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < RUNS; i++) {
        rest();
        team_run(team, count_calls, &calls);
    }
    getrusage(RUSAGE_SELF, &after);
    /* Who sleeps switches: the caller once a run, a helper that is woken each time too. */
    assert_true(after.ru_nvcsw - before.ru_nvcsw < RUNS + RUNS / 2);
    team_destroy(&team);
}

struct inspection {
    struct long_part part;
    sigset_t mask;
    int rounding;
    bool subnormals;
    cpu_set_t cores[CORE_SETS];
};

static void inspect(void *context, size_t member, size_t members)
{
    struct inspection *seen = context;
    if (!pthread_equal(pthread_self(), seen->part.caller)) {
        volatile float tiny = 1e-40F;
        pthread_sigmask(SIG_BLOCK, NULL, &seen->mask);
        seen->rounding = fegetround();
        sched_getaffinity(0, sizeof seen->cores, seen->cores);
        seen->subnormals = tiny * 0.5F > 0;
    }
    take_long(&seen->part, member, members);
}

static void helpers_block_signals_and_else_run_as_their_caller_does(void **state)
{
    (void)state;
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE, SIGALRM, SIGCHLD };
    struct team *team = team_of(2);
    struct inspection seen = { .part = { .own_ns = NS_PER_MS, .caller = pthread_self() } };
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    for (int i = 0; i < 10000 && !seen.part.helped; i++) {
        rest(); /* a helper that sleeps is woken on another core */
        team_run(team, inspect, &seen);
    }
    assert_true(seen.part.helped);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        assert_true(sigismember(&seen.mask, signals[i]));
        assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
    assert_int_equal(seen.rounding, FE_TONEAREST);
    assert_true(seen.subnormals);
    cpu_set_t cores[CORE_SETS];
    assert_int_equal(sched_getaffinity(0, sizeof cores, cores), 0);
    assert_memory_equal(seen.cores, cores, sizeof cores);
    team_destroy(&team);
}

static void a_team_ends_at_any_time(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct team *team = team_of(4);
        struct calls calls = { .members = 4 };
        if (i % 2) /* else before it ever worked */
            team_run(team, count_calls, &calls);
        if (i % 3 == 0) /* else before its helpers sleep */
            rest();
        team_destroy(&team);
    }
}

static void run_again(void *context, size_t member, size_t members)
{
    (void)member, (void)members;
    struct calls calls = { .members = 2 };
    team_run(context, count_calls, &calls);
}

/* In a process of its own, which has no threads before: sanitizers want it so. */
static void work_that_runs_its_team_aborts(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error err = { 0 };
        struct team *team;
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        if (team_create(&team, 2, &err) == 0)
            team_run(team, run_again, team);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void a_team_that_cannot_be_had_says_so(void **state)
{
    (void)state;
    struct team *team = NULL;
    long failures = 0;
    for (; !team; failures++) {
        struct error err = { 0 };
        mem_fail_after(failures);
        const int rc = team_create(&team, 3, &err);
        mem_fail_after(-1);
        assert_int_equal(rc, team ? 0 : -1);
        assert_int_equal(err.code, team ? ERR_NONE : ERR_NO_MEMORY);
    }
    assert_int_equal(failures, 3);
    team_destroy(&team);

    struct error err = { 0 };
    assert_int_equal(team_create(&team, SIZE_MAX, &err), -1);
    assert_int_equal(err.code, ERR_NO_MEMORY);
    assert_null(team);
}

/* A stack that no address space holds: what every pthread_create() refuses. */
static void a_thread_that_cannot_be_had_is_named(void **state)
{
    (void)state;
    pthread_attr_t usual, huge;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 50), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    struct error err = { 0 };
    struct team *team = NULL;
    const int rc = team_create(&team, 3, &err);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
    assert_int_equal(rc, -1);
    assert_null(team);
    assert_int_equal(err.code, ERR_NO_MEMORY);
    assert_non_null(strstr(err.message, "member 1 of a team of 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_runs_its_team_aborts),
        cmocka_unit_test(every_member_works_once_in_each_of_many_runs),
        cmocka_unit_test(every_member_works_once_whoever_is_late),
        cmocka_unit_test(without_a_team_the_caller_works_alone),
        cmocka_unit_test(a_run_sees_what_the_caller_wrote_and_the_caller_what_it_wrote),
        cmocka_unit_test(a_team_that_slept_works_on),
        cmocka_unit_test(the_caller_may_be_another_thread_each_time),
        cmocka_unit_test(helpers_help),
        cmocka_unit_test(a_team_works_on_one_core),
        cmocka_unit_test(a_caller_that_waits_long_sleeps),
        cmocka_unit_test(a_team_without_work_uses_no_cpu),
        cmocka_unit_test(pieces_that_come_alone_let_helpers_sleep),
        cmocka_unit_test(helpers_block_signals_and_else_run_as_their_caller_does),
        cmocka_unit_test(a_team_ends_at_any_time),
        cmocka_unit_test(a_team_that_cannot_be_had_says_so),
        cmocka_unit_test(a_thread_that_cannot_be_had_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
