/* Quotas of clients: buckets of tokens, requests at once, a table of bounded size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/http/quotas.h"
#include "base/clock.h"
#include "base/mem.h"

static struct quotas *quotas;
static const uint64_t start_ns = 5 * NS_PER_S;

static int set_up(void **state)
{
    (void)state;
    struct error err = { 0 };
    return quotas_create(&quotas, &err);
}

static int tear_down(void **state)
{
    (void)state;
    quotas_destroy(&quotas);
    return quotas ? -1 : 0;
}

/* 0: let in, else the seconds to wait. */
static unsigned take(struct client client, const struct quota *quota, uint64_t at_ns,
                     struct quota_share *share)
{
    struct quota_share own = { NULL };
    struct error err = { 0 };
    unsigned wait_s = 77;
    const int result =
        quotas_take(quotas, client, quota, at_ns, share ? share : &own, &wait_s, &err);
    assert_int_equal(err.code, result == 0 ? ERR_NONE : ERR_TOO_OFTEN);
    assert_true((result == 0) == (wait_s == 0));
    if (!share)
        quotas_release(quotas, &own);
    return wait_s;
}

static void a_burst_is_let_in_and_then_the_rate_counts(void **state)
{
    (void)state;
    const struct quota quota = { .requests_per_second = 4, .burst = 3 };
    const struct client client = client_of_key(1);
    uint64_t now_ns = start_ns;
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(client, &quota, now_ns, NULL), 0);
    assert_int_equal(take(client, &quota, now_ns, NULL), 1);
    assert_int_equal(take(client, &quota, now_ns + 249 * NS_PER_MS, NULL), 1);
    for (int i = 0; i < 100; i++) {
        now_ns += 250 * NS_PER_MS;
        assert_int_equal(take(client, &quota, now_ns, NULL), 0);
        assert_int_equal(take(client, &quota, now_ns, NULL), 1);
    }
    /* However long the pause, a burst is all. */
    now_ns += 1000 * NS_PER_S;
    for (int i = 0; i < 3; i++)
        assert_int_equal(take(client, &quota, now_ns, NULL), 0);
    assert_int_equal(take(client, &quota, now_ns, NULL), 1);
}

static void what_is_refused_costs_nothing_and_says_when_to_come(void **state)
{
    (void)state;
    const struct quota one = { .requests_per_second = 1, .burst = 10 };
    const struct quota less = { .requests_per_second = 1, .burst = 1 };
    const struct client client = client_of_key(1);
    for (int i = 0; i < 10; i++)
        assert_int_equal(take(client, &one, start_ns, NULL), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(take(client, &one, start_ns, NULL), 1);
    assert_int_equal(take(client, &one, start_ns + NS_PER_S, NULL), 0);
    /* Another configuration holds at once: ten tokens are owed to a bucket of one. */
    assert_int_equal(take(client, &less, start_ns + NS_PER_S, NULL), 10);
    assert_int_equal(take(client, &less, start_ns + NS_PER_S + 1, NULL), 10);
    assert_int_equal(take(client, &less, start_ns + 10 * NS_PER_S, NULL), 1);
    assert_int_equal(take(client, &less, start_ns + 11 * NS_PER_S, NULL), 0);
}

static void no_more_requests_than_allowed_run_at_once(void **state)
{
    (void)state;
    const struct quota quota = { .requests_per_second = 1, .burst = 4, .concurrency = 2 };
    const struct client client = client_of_key(1);
    struct quota_share one = { NULL }, two = { NULL }, three = { NULL };
    assert_int_equal(take(client, &quota, start_ns, &one), 0);
    assert_int_equal(take(client, &quota, start_ns, &two), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(take(client, &quota, start_ns, &three), 1);
    assert_int_equal(take(client_of_key(2), &quota, start_ns, NULL), 0);
    quotas_release(quotas, &three); /* was never let in */
    assert_int_equal(take(client, &quota, start_ns, &three), 1);
    quotas_release(quotas, &one);
    quotas_release(quotas, &one); /* once is enough */
    assert_int_equal(take(client, &quota, start_ns, &three), 0);
    assert_int_equal(take(client, &quota, start_ns, &one), 1);
    quotas_release(quotas, &two);
    quotas_release(quotas, &three);
    assert_int_equal(take(client, &quota, start_ns, NULL), 0); /* the fourth token */
    assert_int_equal(take(client, &quota, start_ns, NULL), 1);
}

static struct client client_of_text(const char *text)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)rand()) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)rand()) };
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return client_of_address((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return client_of_address((const struct sockaddr *)&v6);
}

static bool same(const char *a, const char *b)
{
    const struct client x = client_of_text(a), y = client_of_text(b);
    return x.high == y.high && x.low == y.low;
}

static void a_client_is_an_ipv4_address_or_an_ipv6_network(void **state)
{
    (void)state;
    assert_true(same("10.1.2.3", "10.1.2.3"));
    assert_true(same("10.1.2.3", "::ffff:10.1.2.3"));
    assert_true(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::2"));
    assert_false(same("10.1.2.3", "10.1.2.4"));
    assert_false(same("::ffff:10.1.2.3", "::ffff:10.1.2.4"));
    assert_false(same("2001:db8:1:2::1", "2001:db8:1:3::1"));
    assert_false(same("::1", "0.0.0.0"));
    const struct client nobody = client_of_address(NULL), key = client_of_key(0);
    assert_true(nobody.high != key.high);
}

static void clients_without_number_fit_into_the_table(void **state)
{
    (void)state;
    const struct quota quota = { .requests_per_second = 1, .burst = 1, .concurrency = 1 };
    struct quota_share kept = { NULL };
    assert_int_equal(take(client_of_key(0), &quota, start_ns, &kept), 0);
    for (uint64_t i = 1; i < 200000; i++)
        assert_int_equal(take(client_of_key(i), &quota, start_ns + i, NULL), 0);
    /* Who has a request under way keeps its place. */
    assert_int_equal(take(client_of_key(0), &quota, start_ns + 10 * NS_PER_S, NULL), 1);
    quotas_release(quotas, &kept);
    /* The last ones have not made room yet. */
    assert_int_equal(take(client_of_key(199999), &quota, start_ns + 200000, NULL), 1);
}

static void a_client_that_finds_no_place_is_let_in(void **state)
{
    (void)state;
    enum { COUNT = 2 * QUOTA_SETS * QUOTA_WAYS };
    const struct quota quota = { .concurrency = 1 };
    struct quota_share *shares = calloc(COUNT, sizeof *shares);
    size_t counted = 0;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(take(client_of_key(i), &quota, start_ns, &shares[i]), 0);
        counted += shares[i].place != NULL;
    }
    assert_in_range(counted, COUNT / 4, COUNT / 2);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(take(client_of_key(i), &quota, start_ns, NULL), shares[i].place ? 1 : 0);
    for (size_t i = 0; i < COUNT; i++)
        quotas_release(quotas, &shares[i]);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(take(client_of_key(i), &quota, start_ns, NULL), 0);
    free(shares);
}

static atomic_int let_in;

static void *hammer(void *context)
{
    const struct quota *quota = context;
    for (int i = 0; i < 20000; i++) {
        struct quota_share share = { NULL };
        struct error err = { 0 };
        unsigned wait_s;
        if (quotas_take(quotas, client_of_key((uint64_t)i % 3), quota, start_ns, &share, &wait_s,
                        &err) == 0)
            let_in++;
        quotas_release(quotas, &share);
    }
    return NULL;
}

static void many_threads_take_no_more_than_there_is(void **state)
{
    (void)state;
    struct quota quota = { .requests_per_second = 1, .burst = 500, .concurrency = 100 };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, hammer, &quota);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(let_in, 1500);
}

static void without_memory_there_are_none(void **state)
{
    (void)state;
    struct quotas *none;
    struct error err = { 0 };
    mem_fail_after(0);
    assert_int_equal(quotas_create(&none, &err), -1);
    mem_fail_after(-1);
    assert_null(none);
    assert_int_equal(err.code, ERR_NO_MEMORY);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(a_burst_is_let_in_and_then_the_rate_counts),
        WITH(what_is_refused_costs_nothing_and_says_when_to_come),
        WITH(no_more_requests_than_allowed_run_at_once),
        WITH(a_client_is_an_ipv4_address_or_an_ipv6_network),
        WITH(clients_without_number_fit_into_the_table),
        WITH(a_client_that_finds_no_place_is_let_in),
        WITH(many_threads_take_no_more_than_there_is),
        cmocka_unit_test(without_memory_there_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
