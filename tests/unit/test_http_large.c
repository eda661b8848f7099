/* Large bodies and answers, over a real socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "http_fakes.h"

enum { ROWS_MAX = 25000 };
static char body[32 + 6 * ROWS_MAX], text[256 + sizeof body];

/* Row after row of four floats, each row estimated as 48 bytes. */
static void write_request(size_t rows)
{
    strcpy(body, "{\"input_ids\":[[5,6]");
    char *end = body + strlen(body);
    for (size_t i = 1; i < rows; i++)
        end = stpcpy(end, ",[5,6]");
    strcpy(end, "]}");
    snprintf(text, sizeof text, "%sConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
             POST("/v1/encode", ""), strlen(body), body);
}

/* A connection on which the request was sent. */
static int begin(void)
{
    const int fd = dial();
    say(fd, text, strlen(text));
    return fd;
}

static void hears(int fd, const char *part)
{
    char *answer = hear(fd);
    if (!strstr(answer, part))
        fail_msg("%s is not in %.1000s", part, answer);
    free(answer);
}

static void await_open(size_t count)
{
    while (server_open_exchanges(server) != count)
        usleep(1000);
}

static int start_wide_server(void **state)
{
    const int rc = start_server(state);
    limits.sequences = ROWS_MAX;
    limits.body_bytes = sizeof body;
    limits.response_bytes = limits.answers_bytes = 10000000;
    return rc;
}

static void an_answer_has_its_room_from_its_request_on(void **state)
{
    (void)state;
    limits.answers_bytes = 150000;
    write_request(2000);
    behaviour = ENGINE_WAITS;
    const int before = submitted_count, waiting = begin();
    while (submitted_count == before)
        usleep(1000);
    hears(begin(), "limits.answers_bytes is 150000");
    write_request(1);
    const int small = begin();
    while (submitted_count == before + 1)
        usleep(1000);
    behaviour = ENGINE_ANSWERS;
    hears(waiting, " 200 ");
    hears(small, " 200 ");
}

static void whatever_becomes_of_a_request_its_room_comes_back(void **state)
{
    (void)state;
    static const struct {
        int behaviour;
        const char *part;
    } ends[] = { { ENGINE_IS_FULL, "the queue is full" },
                 { ENGINE_FAILS, "nonfinite" },
                 { ENGINE_ANSWERS, " 200 " },
                 { ENGINE_ANSWERS, " 200 " } };
    static const size_t rows[] = { 2000, ROWS_MAX };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        write_request(rows[k]);
        limits.answers_bytes = rows[k] * 48;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            await_open(0);
            behaviour = ends[i].behaviour;
            hears(begin(), ends[i].part);
        }
    }
}

static void a_client_that_leaves_takes_its_large_request_with_it(void **state)
{
    (void)state;
    write_request(ROWS_MAX);
    behaviour = ENGINE_WAITS;
    const int fd = begin();
    await_open(1);
    close(fd);
    await_open(0);
    behaviour = ENGINE_ANSWERS;
    hears(begin(), " 200 ");
}

static void no_failed_allocation_stops_the_server(void **state)
{
    (void)state;
    write_request(3000); /* its body is read at the desk */
    bool served = false;
    for (long failures = 0; !served; failures = failures * 5 / 4 + 1) {
        mem_fail_after(failures);
        char *answer = hear(begin());
        served = strstr(answer, " 200 ") != NULL;
        if (!served && answer[0] && !strstr(answer, " 503 "))
            fail_msg("%.1000s", answer);
        mem_fail_after(-1);
        free(answer);
        check(GET("/livez", ""), "", 200, "ok");
    }
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, start_wide_server, stop_server)

int main(void)
{
    model = fake_served("a", &fake_tokenizer);
    const struct CMUnitTest tests[] = {
        SERVED(an_answer_has_its_room_from_its_request_on),
        SERVED(whatever_becomes_of_a_request_its_room_comes_back),
        SERVED(a_client_that_leaves_takes_its_large_request_with_it),
        SERVED(no_failed_allocation_stops_the_server),
    };
    log_set_level(LOG_NONE);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(model.name);
    return failed;
}
