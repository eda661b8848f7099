#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/notify.h"
#include "base/clock.h"
#include "base/log.h"

static int receiver;

/* An abstract address needs no folder. */
static int listen_as_systemd(void **state)
{
    (void)state;
    char name[64];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(name, sizeof name, "@seqd-test-%ld", (long)getpid());
    memcpy(address.sun_path, name, strlen(name));
    address.sun_path[0] = '\0';
    receiver = socket(AF_UNIX, SOCK_DGRAM, 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return bind(receiver, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
}

static int stop_listening(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    return close(receiver);
}

static const char *received(void)
{
    static char text[256];
    const ssize_t got = recv(receiver, text, sizeof text - 1, MSG_DONTWAIT);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

static void each_event_is_one_datagram(void **state)
{
    (void)state;
    notify_ready();
    assert_string_equal(received(), "READY=1");
    notify_stopping();
    assert_string_equal(received(), "STOPPING=1");
    notify_alive();
    assert_string_equal(received(), "WATCHDOG=1");
    assert_string_equal(received(), "");
}

static void a_reload_says_when_it_began(void **state)
{
    (void)state;
    const uint64_t before = clock_ns() / 1000;
    unsigned long long began;
    notify_reloading();
    assert_int_equal(sscanf(received(), "RELOADING=1\nMONOTONIC_USEC=%llu", &began), 1);
    assert_in_range(began, before, clock_ns() / 1000);
}

static void without_a_usable_socket_nothing_happens(void **state)
{
    (void)state;
    static const char *const names[] = { "", "@", "relative", "/nowhere/socket" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        notify_ready();
    }
    unsetenv("NOTIFY_SOCKET");
    notify_ready();
    assert_string_equal(received(), "");
}

static void the_watchdog_is_for_the_process_it_names(void **state)
{
    (void)state;
    char pid[32];
    assert_int_equal(notify_watchdog_ns(), 0);
    setenv("WATCHDOG_USEC", "3000000", 1);
    assert_int_equal(notify_watchdog_ns(), 3 * NS_PER_S);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(notify_watchdog_ns(), 0);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_watchdog_ns(), 3 * NS_PER_S);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

#define HEARD(test) cmocka_unit_test_setup_teardown(test, listen_as_systemd, stop_listening)

int main(void)
{
    log_set_level(LOG_NONE);
    const struct CMUnitTest tests[] = {
        HEARD(each_event_is_one_datagram),
        HEARD(a_reload_says_when_it_began),
        HEARD(without_a_usable_socket_nothing_happens),
        cmocka_unit_test(the_watchdog_is_for_the_process_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
