/* The server over a real socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "http_fakes.h"

static void requests_are_answered_by_the_engine(void **state)
{
    (void)state;
    check(POST("/v1/encode", ""), "{\"input_ids\":[[5,6]],\"pooling\":\"mean\"}", 200,
          "\"embedding\":[11,0]");
    check(POST("/v1/encode", "X-Request-Id: mine-7\r\n"), "{\"input_ids\":[5]}", 200,
          "X-Request-Id: mine-7\r\n");
    check("POST /v1/encode HTTP/1.1\r\nHost: localhost\r\n", "{\"input_ids\":[5]}", 200, "list");
    check("POST /v1/encode HTTP/1.1\r\nHost: localhost\r\n"
          "Content-Type: Application/JSON ; charset=utf-8\r\n",
          "{\"input_ids\":[5]}", 200, "list");
}

static void an_unusable_request_id_is_replaced(void **state)
{
    (void)state;
    char head[512], longest[130];
    memset(longest, 'x', 129);
    longest[129] = '\0';
    snprintf(head, sizeof head, GET("/livez", "X-Request-Id: %s\r\n"), longest);
    char *answer = ask(head, "");
    assert_null(strstr(answer, longest));
    assert_non_null(strcasestr(answer, "X-Request-Id: "));
    free(answer);
    answer = ask(GET("/livez", "X-Request-Id: caf\xc3\xa9\r\n"), "");
    assert_null(strstr(answer, "caf\xc3\xa9"));
    free(answer);
}

static void what_cannot_be_served_is_refused_with_its_status(void **state)
{
    (void)state;
    const char *body = "{\"input_ids\":[5]}";
    check(POST("/v1/encode", ""), "{\"input_ids\":[10]}", 400, "\"param\":\"input_ids[0]\"");
    check(POST("/v1/encode", ""), "{", 400, "line 1, column 1");
    check(POST("/v1/encode", ""), "", 400, "invalid_json");
    check(POST("/v1/nothing", ""), body, 404, "route_not_found");
    check(POST("/v1/encode/", ""), body, 404, "route_not_found");
    check(GET("/livez%00x", ""), "", 404, "route_not_found");
    char *answer = ask("GET /livez HTTP/1.1\r\n", "");
    assert_int_equal(strncmp(answer, "HTTP/1.1 400 ", 13), 0);
    free(answer);
    check(GET("/livez", "Host: localhost\r\n"), "", 400, "\"param\":\"Host\"");
    check(GET("/v1/encode", ""), "", 405, "Allow: POST\r\n");
    check("BREW /v1/encode HTTP/1.1\r\nHost: localhost\r\n", "", 405, "Allow: POST\r\n");
    check("TRACE /livez HTTP/1.1\r\nHost: localhost\r\n", "", 405, "Allow: GET, HEAD\r\n");
    check("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\n", "", 405, "Allow: GET, HEAD\r\n");
    check(POST("/readyz", ""), body, 405, "Allow: GET, HEAD\r\n");
    check("POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n", body, 415,
          "application/json");
    check(POST("/v1/encode", "Content-Encoding: gzip\r\n"), body, 415, "compressed");
    check(POST("/v1/encode", "Origin: http://evil.example\r\n"), body, 403, "Origin");
}

static void a_foreign_host_is_refused_but_for_probes(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        unsigned status;
    } cases[] = {
        { "evil.example", 403 },   { "evil.example:80", 403 },
        { "localhost.evil", 403 }, { "127.0.0.1.evil", 403 },
        { "[::1", 403 },           { "127.0.0.1:8080", 200 },
        { "[::1]:8080", 200 },     { "LocalHost", 200 },
        { "My.Host:1", 200 },      { "10.0.0.7", 200 },
    };
    char head[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(head, sizeof head, "GET /v1/models HTTP/1.1\r\nHost: %s\r\n", cases[i].host);
        check(head, "", cases[i].status, "");
        snprintf(head, sizeof head, "GET /livez HTTP/1.1\r\nHost: %s\r\n", cases[i].host);
        check(head, "", 200, "ok");
    }
    char *answer = ask("GET /v1/models HTTP/1.0\r\n", "");
    assert_non_null(strstr(answer, " 200 "));
    free(answer);
}

static void failures_of_the_engine_have_their_status(void **state)
{
    (void)state;
    const char *body = "{\"input_ids\":[5]}";
    behaviour = ENGINE_IS_FULL;
    const int before = rejected_count;
    check(POST("/v1/encode", ""), body, 429, "Retry-After: 1\r\n");
    check(POST("/v1/encode", ""), "{\"input_ids\":[10]}", 400, "token_out_of_range");
    assert_int_equal(rejected_count, before + 2);
    behaviour = ENGINE_FAILS;
    check(POST("/v1/encode", ""), body, 500, "x-should-retry: false\r\n");
    behaviour = ENGINE_ANSWERS;
    check(POST("/v1/encode", ""), body, 200, "list");
}

/* Sends `count` bytes of body under `head` and hears the answer. */
static char *upload(const char *head, size_t count)
{
    const int fd = dial();
    char piece[500];
    memset(piece, ' ', sizeof piece);
    say(fd, head, strlen(head));
    for (size_t sent = 0; sent < count; sent += sizeof piece)
        say(fd, piece, sizeof piece);
    return hear(fd);
}

static void a_body_over_the_limit_is_413_and_the_client_can_read_it(void **state)
{
    (void)state;
    char *answer = upload(POST("/v1/encode", "Content-Length: 2000000\r\n\r\n"), 2000000);
    assert_non_null(strstr(answer, " 413 "));
    assert_non_null(strstr(answer, "limits.body_bytes is 1000"));
    free(answer);
    answer = upload(POST("/v1/encode", "Content-Length: 99999999999\r\n\r\n"), 0);
    assert_non_null(strstr(answer, " 413 "));
    free(answer);

    /* 0x5dc is 1500. */
    char chunk[1600];
    memset(chunk, ' ', sizeof chunk);
    const int fd = dial();
    const char *head = POST("/v1/encode", "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
                                          "5dc\r\n");
    say(fd, head, strlen(head));
    say(fd, chunk, 1500);
    say(fd, "\r\n0\r\n\r\n", 7);
    answer = hear(fd);
    assert_non_null(strstr(answer, " 413 "));
    free(answer);
}

static void a_body_has_its_room_until_its_request_is_answered(void **state)
{
    (void)state;
    char body[17001];
    snprintf(body, sizeof body, "%-17000s", "{\"input_ids\":[5]}");
    limits.body_bytes = limits.bodies_bytes = 17000;
    behaviour = ENGINE_WAITS;
    const int fd = dial();
    const char *head = POST("/v1/encode", "Connection: close\r\nContent-Length: 17000\r\n\r\n");
    say(fd, head, strlen(head));
    say(fd, body, strlen(body));
    for (int i = 0; i < 2000 && server_open_exchanges(server) == 0; i++)
        usleep(1000);
    check(POST("/v1/encode", ""), body, 429, "limits.bodies_bytes is 17000");
    /* A short one is read all the same. */
    check(POST("/v1/encode", ""), "{\"input_ids\":[10]}", 400, "token_out_of_range");
    check(GET("/metrics", ""), "", 200, "seqd_http_bodies_refused_total 1\n");
    check(GET("/livez", ""), "", 200, "ok");
    behaviour = ENGINE_ANSWERS;
    char *answer = hear(fd);
    assert_non_null(strstr(answer, " 200 "));
    free(answer);
    check(POST("/v1/encode", ""), body, 200, "list");
    check(POST("/v1/encode", ""), "{\"input_ids\":[10]}", 400, "token_out_of_range");
    check(POST("/v1/encode", ""), body, 200, "list");
}

static void a_body_without_end_is_cut_off(void **state)
{
    (void)state;
    const int fd = dial();
    const char *head = POST("/v1/encode", "Transfer-Encoding: chunked\r\n\r\n");
    char chunk[505] = "1f4\r\n"; /* 500 */
    memset(chunk + 5, ' ', 500);
    say(fd, head, strlen(head));
    size_t sent = 0;
    for (; sent < 100000; sent++) {
        struct pollfd closed = { .fd = fd, .events = POLLRDHUP };
        if (poll(&closed, 1, 0) > 0)
            break;
        say(fd, chunk, 505);
        say(fd, "\r\n", 2);
        usleep(100);
    }
    assert_true(sent < 100000);
    close(fd);
}

static void a_body_that_ends_in_two_places_is_refused(void **state)
{
    (void)state;
    static const char *const heads[] = {
        POST("/v1/encode", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        POST("/v1/encode", "Content-Length: 4\r\nContent-Length: 5\r\n\r\n[5] "),
        POST("/v1/encode", "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
        POST("/v1/encode", "Content-Length: +5\r\n\r\n[5]  "),
        POST("/v1/encode", "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const int fd = dial();
        say(fd, heads[i], strlen(heads[i]));
        shutdown(fd, SHUT_WR);
        char *answer = hear(fd);
        if (answer[0] && strncmp(answer, "HTTP/1.1 4", 10) != 0)
            fail_msg("%s\n%s", heads[i], answer);
        free(answer);
    }
}

static void a_kept_connection_serves_one_request_after_another(void **state)
{
    (void)state;
    const int fd = dial();
    const char *one = POST("/v1/encode", "Content-Length: 17\r\n\r\n{\"input_ids\":[5]}");
    const char *wrong = POST("/v1/nothing", "Content-Length: 17\r\n\r\n{\"input_ids\":[5]}");
    const char *last = GET("/livez", "Connection: close\r\n\r\n");
    say(fd, one, strlen(one));
    say(fd, wrong, strlen(wrong));
    say(fd, one, strlen(one));
    say(fd, last, strlen(last));
    char *answer = hear(fd);
    size_t count = 0;
    for (const char *at = answer; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
        count++;
    assert_int_equal(count, 4);
    assert_non_null(strstr(answer, "\"status\":\"ok\""));
    free(answer);
}

static void a_head_answer_has_the_length_but_no_body(void **state)
{
    (void)state;
    char *answer = ask("HEAD /livez HTTP/1.1\r\nHost: localhost\r\n", "");
    assert_non_null(strstr(answer, " 200 "));
    assert_non_null(strstr(answer, "Content-Length: 15\r\n"));
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    free(answer);
}

static void models_are_found_by_their_escaped_names(void **state)
{
    (void)state;
    check(GET("/v1/models", ""), "", 200, "\"object\":\"list\"");
    check(GET("/v1/models/a%2Fb%20c", ""), "", 200, "\"id\":\"a/b c\"");
    check(GET("/v1/models/x", ""), "", 404, "model_not_found");
    check(GET("/v1/models/", ""), "", 404, "_not_found");
}

static void metrics_have_closed_labels(void **state)
{
    (void)state;
    check(POST("/v1/encode", ""), "{\"input_ids\":[5]}", 200, "list");
    check("BREW /v1/tea HTTP/1.1\r\nHost: localhost\r\n", "", 404, "");
    char *answer = ask(GET("/metrics", ""), "");
    assert_non_null(strstr(answer, "text/plain; version=0.0.4; charset=utf-8\r\n"));
    static const char *const series[] = {
        "seqd_http_requests_total{route=\"/v1/encode\",method=\"POST\",status=\"200\"} 1\n",
        "seqd_http_requests_total{route=\"other\",method=\"other\",status=\"404\"} 1\n",
        "seqd_request_duration_seconds_count{route=\"/v1/encode\",model=\"a/b c\"} 1\n",
        "seqd_ready 1\n",
        "# TYPE seqd_http_connections gauge\n",
    };
    for (size_t i = 0; i < sizeof series / sizeof *series; i++)
        if (!strstr(answer, series[i]))
            fail_msg("%s is not in\n%s", series[i], answer);
    free(answer);
}

static void a_client_that_leaves_cancels_its_request(void **state)
{
    (void)state;
    behaviour = ENGINE_WAITS;
    const int before = cancelled_count;
    const int fd = dial();
    const char *text = POST("/v1/encode", "Content-Length: 17\r\n\r\n{\"input_ids\":[5]}");
    say(fd, text, strlen(text));
    for (int i = 0; i < 10000 && server_open_exchanges(server) == 0; i++)
        usleep(1000);
    assert_int_equal(server_open_exchanges(server), 1);
    assert_int_equal(cancelled_count, before);
    close(fd);
    for (int i = 0; i < 2000 && server_open_exchanges(server); i++)
        usleep(1000);
    assert_int_equal(server_open_exchanges(server), 0);
    assert_int_equal(cancelled_count, before + 1);
}

static void a_slow_request_is_cut_at_its_deadline(void **state)
{
    (void)state;
    limits.request_timeout_ms = 200;
    static const char *const starts[] = { "GE", GET("/livez", "X-Slow: "),
                                          POST("/v1/encode", "Content-Length: 100\r\n\r\n{") };
    for (size_t i = 0; i < 3; i++) {
        const uint64_t start_ns = clock_ns();
        const int fd = dial();
        say(fd, starts[i], strlen(starts[i]));
        struct pollfd closed = { .fd = fd, .events = POLLIN | POLLRDHUP };
        while (poll(&closed, 1, 20) == 0 && clock_ns() - start_ns < 2 * NS_PER_S)
            say(fd, "a", 1);
        const uint64_t took_ms = (clock_ns() - start_ns) / NS_PER_MS;
        assert_in_range(took_ms, 150, 1000);
        close(fd);
    }
}

static void a_body_in_single_bytes_is_read(void **state)
{
    (void)state;
    const char *text = POST("/v1/encode", "Connection: close\r\nContent-Length: 17\r\n\r\n"
                                          "{\"input_ids\":[5]}");
    const int fd = dial();
    for (; *text; text++) {
        say(fd, text, 1);
        usleep(200);
    }
    char *answer = hear(fd);
    assert_non_null(strstr(answer, " 200 "));
    free(answer);
}

static void deep_nesting_is_refused_and_the_server_lives(void **state)
{
    (void)state;
    limits.body_bytes = 300000;
    static const size_t depths[] = { 2047, 2049, 100000 };
    for (size_t i = 0; i < 3; i++) {
        char head[256];
        snprintf(head, sizeof head,
                 POST("/v1/encode", "Connection: close\r\nContent-Length: %zu\r\n\r\n"),
                 2 * depths[i]);
        char *body = malloc(2 * depths[i]);
        memset(body, '[', depths[i]);
        memset(body + depths[i], ']', depths[i]);
        const int fd = dial();
        say(fd, head, strlen(head));
        say(fd, body, 2 * depths[i]);
        char *answer = hear(fd);
        assert_non_null(strstr(answer, " 400 "));
        free(answer);
        free(body);
    }
    check(GET("/livez", ""), "", 200, "ok");
}

static void readiness_follows_the_life_of_the_daemon(void **state)
{
    (void)state;
    server_set_registry(server, NULL);
    check(GET("/readyz", ""), "", 503, "\"loading\"");
    check(POST("/v1/encode", ""), "{\"input_ids\":[5]}", 503, "Retry-After: 1\r\n");
    check(GET("/v1/models", ""), "", 503, "\"code\":\"loading\"");
    server_set_registry(server, &registry);
    check(GET("/readyz", ""), "", 200, "\"ready\"");

    const int kept = dial();
    server_drain(server);
    check(GET("/health", ""), "", 503, "\"draining\"");
    check(POST("/v1/encode", ""), "{\"input_ids\":[5]}", 200, "Connection: close\r\n");
    check(GET("/livez", ""), "", 200, "ok");
    server_quiesce(server);
    const char *text = POST("/v1/encode", "Content-Length: 17\r\n\r\n{\"input_ids\":[5]}");
    say(kept, text, strlen(text));
    char *answer = hear(kept);
    assert_non_null(strstr(answer, "shutting_down"));
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    free(answer);
    const int late = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(server_port(server)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_int_equal(connect(late, (struct sockaddr *)&address, sizeof address), -1);
    close(late);
}

static void a_request_is_answered_from_the_service_it_began_with(void **state)
{
    (void)state;
    struct limits narrow = fake_limits;
    narrow.sequences = 1;
    struct service next = { .limits = &narrow, .hosts = hosts, .registry = &registry };
    const char body[] = "{\"input_ids\":[[5],[6]]}";
    const char head[] = POST("/v1/encode", "Content-Length: 23\r\nConnection: close\r\n\r\n{");
    const int slow = dial();
    say(slow, head, sizeof head - 1);
    while (service.users == 0)
        usleep(1000);
    server_set_service(server, &next);
    check(POST("/v1/encode", ""), body, 413, "limits.sequences");
    assert_int_equal(service.users, 1);
    say(slow, body + 1, sizeof body - 2);
    char *answer = hear(slow);
    assert_non_null(strstr(answer, " 200 "));
    free(answer);
    while (service.users || next.users)
        usleep(1000);
    server_set_service(server, &service);
}

static void no_failed_allocation_stops_the_server(void **state)
{
    (void)state;
    bool served = false;
    for (long failures = 0; !served; failures++) {
        assert_true(failures < 200);
        mem_fail_after(failures);
        char *answer = ask(POST("/v1/encode", ""), "{\"input_ids\":[[5,6]]}");
        served = strstr(answer, " 200 ") != NULL;
        /* No connection, a refusal, or all of it. */
        assert_true(served || !answer[0] || strstr(answer, " 503 "));
        mem_fail_after(-1);
        free(answer);
        check(GET("/livez", ""), "", 200, "ok");
    }
}

static void *many_requests(void *context)
{
    int *good = context;
    for (int i = 0; i < 20; i++) {
        char *answer = ask(POST("/v1/encode", ""), "{\"input_ids\":[[5],[6],[7]]}");
        *good += strstr(answer, " 200 ") != NULL;
        free(answer);
    }
    return NULL;
}

static void many_clients_are_all_answered(void **state)
{
    (void)state;
    enum { CLIENTS = 16 };
    pthread_t threads[CLIENTS];
    int good[CLIENTS] = { 0 };
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, many_requests, &good[i]);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(good[i], 20);
    }
}

static void an_address_in_use_is_an_error_that_names_it(void **state)
{
    (void)state;
    const struct http_config config = {
        .address = "127.0.0.1", .port = server_port(server), .threads = 1, .connections = 8
    };
    struct server *second;
    struct error err = { 0 };
    assert_int_equal(server_start(&second, &config, &service, metrics, &err), -1);
    assert_null(second);
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.message, "127.0.0.1 port"));
    assert_non_null(strstr(err.message, "in use"));
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, start_server, stop_server)

int main(void)
{
    model = fake_served("a/b c", &fake_tokenizer);
    log_set_level(LOG_NONE);
    const struct CMUnitTest tests[] = {
        SERVED(requests_are_answered_by_the_engine),
        SERVED(an_unusable_request_id_is_replaced),
        SERVED(what_cannot_be_served_is_refused_with_its_status),
        SERVED(a_foreign_host_is_refused_but_for_probes),
        SERVED(failures_of_the_engine_have_their_status),
        SERVED(a_body_over_the_limit_is_413_and_the_client_can_read_it),
        SERVED(a_body_has_its_room_until_its_request_is_answered),
        SERVED(a_body_without_end_is_cut_off),
        SERVED(a_body_that_ends_in_two_places_is_refused),
        SERVED(a_kept_connection_serves_one_request_after_another),
        SERVED(a_head_answer_has_the_length_but_no_body),
        SERVED(models_are_found_by_their_escaped_names),
        SERVED(metrics_have_closed_labels),
        SERVED(a_client_that_leaves_cancels_its_request),
        SERVED(a_slow_request_is_cut_at_its_deadline),
        SERVED(a_body_in_single_bytes_is_read),
        SERVED(deep_nesting_is_refused_and_the_server_lives),
        SERVED(a_request_is_answered_from_the_service_it_began_with),
        SERVED(readiness_follows_the_life_of_the_daemon),
        SERVED(no_failed_allocation_stops_the_server),
        SERVED(many_clients_are_all_answered),
        SERVED(an_address_in_use_is_an_error_that_names_it),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(model.name);
    return failed;
}
