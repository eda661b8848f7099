/* The thread for what is large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "../../src/http/desk.h"
#include "base/mem.h"

static atomic_bool gate;
static atomic_int run_count;
static int order[8];
static pthread_t runner;

static void wait_at_gate(void *context)
{
    (void)context;
    while (!gate)
        usleep(100);
}

static void note(void *context)
{
    runner = pthread_self();
    order[run_count] = *(const int *)context;
    run_count++;
}

static struct desk *start(void)
{
    struct desk *desk;
    struct error err = { 0 };
    gate = false;
    run_count = 0;
    assert_int_equal(desk_start(&desk, &err), 0);
    return desk;
}

static void the_smallest_is_next_and_the_elder_of_two_alike(void **state)
{
    (void)state;
    struct desk *desk = start();
    struct desk_task busy = { .run = wait_at_gate, .bytes = 0 };
    desk_add(desk, &busy);
    static const size_t bytes[] = { 30, 20, 20, 10, 40 };
    static const int numbers[] = { 0, 1, 2, 3, 4 }, expected[] = { 3, 1, 2, 0, 4 };
    struct desk_task tasks[5];
    for (size_t i = 0; i < 5; i++) {
        tasks[i] = (struct desk_task){ note, (void *)(uintptr_t)&numbers[i], bytes[i], NULL };
        desk_add(desk, &tasks[i]);
    }
    assert_int_equal(run_count, 0);
    gate = true;
    desk_close(desk);
    assert_int_equal(run_count, 5);
    assert_memory_equal(order, expected, sizeof expected);
    assert_false(pthread_equal(runner, pthread_self()));
    desk_destroy(&desk);
    assert_null(desk);
}

static void a_closed_desk_runs_a_task_at_once(void **state)
{
    (void)state;
    struct desk *desk = start();
    desk_close(desk);
    desk_close(desk);
    int number = 7;
    struct desk_task task = { .run = note, .context = &number, .bytes = 1 };
    desk_add(desk, &task);
    assert_int_equal(run_count, 1);
    assert_true(pthread_equal(runner, pthread_self()));
    desk_destroy(&desk);
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    struct desk *desk;
    struct error err = { 0 };
    mem_fail_after(0);
    assert_int_equal(desk_start(&desk, &err), -1);
    mem_fail_after(-1);
    assert_int_equal(err.code, ERR_NO_MEMORY);
    assert_null(desk);
    desk_close(NULL);
    desk_destroy(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_is_next_and_the_elder_of_two_alike),
        cmocka_unit_test(a_closed_desk_runs_a_task_at_once),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
