/* Waiting rows: turns, overtaking, limits, and rows of requests that are off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/serve/kv_pool.h"
#include "../../src/serve/queue.h"
#include "base/mem.h"

static const struct room plenty = { 1000, 1000, 1000 };

static struct request *waiting(struct queue *queue, size_t rows, size_t tokens)
{
    struct error err = { 0 };
    struct request *request = request_create(REQUEST_ENCODE, rows);
    assert_non_null(request);
    for (size_t i = 0; i < rows; i++)
        request->rows[i].token_count = tokens;
    assert_int_equal(queue_push(queue, request, &err), 0);
    return request;
}

static void finish(struct request *request)
{
    if (request->state != REQUEST_REFUSED)
        request_move(request, REQUEST_DONE);
    request_destroy(&request);
    assert_null(request);
}

static void open_queue(struct queue *queue, size_t limit, size_t overtakes)
{
    struct error err = { 0 };
    assert_int_equal(queue_open(queue, limit, overtakes, &err), 0);
}

static void requests_take_turns_oldest_first(void **state)
{
    (void)state;
    struct queue queue;
    open_queue(&queue, 10, 4);
    struct request *a = waiting(&queue, 3, 1), *b = waiting(&queue, 1, 1);
    struct row *expected[] = { &a->rows[0], &b->rows[0], &a->rows[1], &a->rows[2] };
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(queue_take(&queue, &plenty), expected[i]);
    assert_null(queue_take(&queue, &plenty));
    assert_int_equal(queue_waiting(&queue), 0);
    finish(a);
    finish(b);
    queue_free(&queue);
}

static void a_long_row_is_passed_over_a_bounded_number_of_times(void **state)
{
    (void)state;
    struct queue queue;
    open_queue(&queue, 10, 2);
    const struct room room = { 5, 1000, 1000 };
    struct request *lengthy = waiting(&queue, 1, 100), *brief = waiting(&queue, 4, 1);
    assert_ptr_equal(queue_take(&queue, &room), &brief->rows[0]);
    assert_ptr_equal(queue_take(&queue, &room), &brief->rows[1]);
    assert_null(queue_take(&queue, &room));
    assert_ptr_equal(queue_take(&queue, &plenty), &lengthy->rows[0]);
    assert_ptr_equal(queue_take(&queue, &room), &brief->rows[2]);
    assert_ptr_equal(queue_take(&queue, &room), &brief->rows[3]);
    finish(lengthy);
    finish(brief);
    queue_free(&queue);
}

static void a_request_waits_whole_or_not_at_all(void **state)
{
    (void)state;
    struct queue queue;
    struct error err = { 0 };
    open_queue(&queue, 3, 2);
    struct request *a = waiting(&queue, 2, 1), *b = request_create(REQUEST_ENCODE, 2);
    assert_int_equal(queue_push(&queue, b, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_non_null(strstr(err.message, "limit is 3"));
    assert_int_equal(b->state, REQUEST_PARSED);
    assert_int_equal(queue_waiting(&queue), 2);
    queue_close(&queue);
    err = (struct error){ 0 };
    assert_int_equal(queue_push(&queue, b, &err), -1);
    assert_int_equal(err.code, ERR_SHUTTING_DOWN);
    assert_non_null(queue_take(&queue, &plenty)); /* what waits is still served */
    assert_non_null(queue_take(&queue, &plenty));
    request_destroy(&b);
    finish(a);
    queue_free(&queue);
}

static void rows_of_cancelled_requests_leave_and_others_stay(void **state)
{
    (void)state;
    struct queue queue;
    open_queue(&queue, 10, 2);
    struct request *a = waiting(&queue, 2, 1), *b = waiting(&queue, 1, 1),
                   *c = waiting(&queue, 1, 1);
    request_cancel(a, ERR_DEADLINE);
    request_cancel(a, ERR_CLIENT_GONE); /* the first reason stays */
    assert_int_equal(a->cancelled, ERR_DEADLINE);
    request_fail(c, &(struct error){ .code = ERR_NONFINITE });
    size_t count = 0;
    for (struct row *row = queue_take_off(&queue); row; row = row->next, count++)
        assert_ptr_not_equal(row->request, b);
    assert_int_equal(count, 3);
    assert_null(queue_take_off(&queue));
    assert_ptr_equal(queue_take(&queue, &plenty), &b->rows[0]);
    finish(a);
    finish(b);
    finish(c);
    queue_free(&queue);
}

static void a_request_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct request *request = NULL;
    long failures = 0;
    for (; !request; failures++) {
        mem_fail_after(failures);
        request = request_create(REQUEST_GENERATE, 4);
        mem_fail_after(-1);
    }
    assert_true(failures > 1);
    request_destroy(&request);
    request_destroy(&request);
}

static void the_cache_joins_what_is_given_back(void **state)
{
    (void)state;
    struct kv_pool pool;
    struct error err = { 0 };
    assert_int_equal(kv_pool_open(&pool, 100, 4, &err), 0);
    float *a = kv_pool_take(&pool, 30), *b = kv_pool_take(&pool, 30), *c = kv_pool_take(&pool, 30);
    assert_int_equal(kv_pool_largest(&pool), 10);
    kv_pool_give(&pool, a, 30);
    kv_pool_give(&pool, c, 30);
    assert_int_equal(kv_pool_largest(&pool), 40);
    assert_ptr_equal(kv_pool_take(&pool, 30), a); /* first fit */
    kv_pool_give(&pool, b, 30);
    assert_int_equal(kv_pool_largest(&pool), 70);
    kv_pool_give(&pool, a, 30);
    assert_int_equal(kv_pool_largest(&pool), 100);
    assert_int_equal(pool.used, 0);
    kv_pool_close(&pool);
}

static void the_cache_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct kv_pool pool;
    long failures = 0;
    for (;; failures++) {
        struct error err = { 0 };
        mem_fail_after(failures);
        const int rc = kv_pool_open(&pool, 100, 4, &err);
        mem_fail_after(-1);
        if (rc == 0)
            break;
        assert_int_equal(err.code, ERR_NO_MEMORY);
    }
    assert_true(failures > 0);
    kv_pool_close(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_take_turns_oldest_first),
        cmocka_unit_test(a_long_row_is_passed_over_a_bounded_number_of_times),
        cmocka_unit_test(a_request_waits_whole_or_not_at_all),
        cmocka_unit_test(rows_of_cancelled_requests_leave_and_others_stay),
        cmocka_unit_test(a_request_survives_every_failed_allocation),
        cmocka_unit_test(the_cache_joins_what_is_given_back),
        cmocka_unit_test(the_cache_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
