#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app/commands.h"

struct peer {
    int fd;
    const char *answer;
    char request[400];
};

/* Answers one connection and reads what it was asked. */
static void *answer_once(void *context)
{
    struct peer *peer = context;
    const int fd = accept(peer->fd, NULL, NULL);
    const ssize_t got = recv(fd, peer->request, sizeof peer->request - 1, 0);
    peer->request[got > 0 ? got : 0] = '\0';
    send(fd, peer->answer, strlen(peer->answer), MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

/* A listening socket on loopback; its port in *port. */
static int listen_anywhere(uint16_t *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void only_200_is_healthy_and_the_wildcard_is_asked_on_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        int result;
    } cases[] = {
        { "HTTP/1.1 200 OK\r\n\r\n", 0 },
        { "HTTP/1.1 503 Busy\r\n\r\n", -1 },
        { "HTTP/1.1 20", -1 },
        { "", -1 },
        { "200 200 200 200", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct configuration config = { .listen = { .host = "0.0.0.0" } };
        struct error err = { 0 };
        struct peer peer = { .fd = listen_anywhere(&config.listen.port),
                             .answer = cases[i].answer };
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, answer_once, &peer), 0);
        assert_int_equal(command_health(&config, &err), cases[i].result);
        pthread_join(thread, NULL);
        close(peer.fd);
        assert_int_equal(err.code, cases[i].result ? ERR_IO : ERR_NONE);
        assert_memory_equal(peer.request, "GET /readyz HTTP/1.1\r\nHost: ", 28);
    }
}

static void a_port_where_nobody_listens_is_unhealthy_at_once(void **state)
{
    (void)state;
    struct configuration config = { .listen = { .host = "127.0.0.1" } };
    struct error err = { 0 };
    close(listen_anywhere(&config.listen.port));
    assert_int_equal(command_health(&config, &err), -1);
    assert_non_null(strstr(err.message, "Connection refused"));
}

static void port_0_cannot_be_asked(void **state)
{
    (void)state;
    struct configuration config = { .listen = { .host = "127.0.0.1" } };
    struct error err = { 0 };
    assert_int_equal(command_health(&config, &err), -1);
    assert_int_equal(err.code, ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_200_is_healthy_and_the_wildcard_is_asked_on_loopback),
        cmocka_unit_test(a_port_where_nobody_listens_is_unhealthy_at_once),
        cmocka_unit_test(port_0_cannot_be_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
