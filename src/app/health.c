#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "app/commands.h"
#include "base/clock.h"

enum { LIMIT_MS = 3000, STATUS_BYTES = 12 /* "HTTP/1.1 200" */ };

static int milliseconds_left(uint64_t deadline_ns)
{
    const uint64_t now = clock_ns();
    return now < deadline_ns ? (int)((deadline_ns - now) / NS_PER_MS) + 1 : 0;
}

/* The first STATUS_BYTES of the answer; false: it ended before, or the time did. */
static bool read_status(int fd, char status[static STATUS_BYTES + 1], uint64_t deadline_ns)
{
    size_t length = 0;
    while (length < STATUS_BYTES) {
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
        if (poll(&poll_fd, 1, milliseconds_left(deadline_ns)) <= 0)
            return false;
        const ssize_t got = recv(fd, status + length, STATUS_BYTES - length, 0);
        if (got <= 0)
            return false;
        length += (size_t)got;
    }
    status[length] = '\0';
    return true;
}

static int ask(int fd, const struct listen_address *listen, const char *address, struct error *err)
{
    const uint64_t deadline_ns = clock_ns() + LIMIT_MS * NS_PER_MS;
    const struct timeval limit = { .tv_sec = LIMIT_MS / 1000 };
    struct sockaddr_storage peer;
    const socklen_t length = listen_peer(listen, &peer);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0 ||
        connect(fd, (const struct sockaddr *)&peer, length) < 0)
        return error_set(err, ERR_IO, "%s: %s", address, strerror(errno));

    char request[200], status[STATUS_BYTES + 1];
    const int count =
        snprintf(request, sizeof request,
                 "GET /readyz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", address);
    if (send(fd, request, (size_t)count, MSG_NOSIGNAL) != count)
        return error_set(err, ERR_IO, "%s: %s", address, strerror(errno));
    if (!read_status(fd, status, deadline_ns))
        return error_set(err, ERR_IO, "%s: no answer within %d ms", address, LIMIT_MS);
    if (strcmp(status + strcspn(status, " "), " 200") != 0 || strncmp(status, "HTTP/1.", 7) != 0)
        return error_set(err, ERR_IO, "%s: GET /readyz answers %s", address, status);
    return 0;
}

int command_health(const struct configuration *config, struct error *err)
{
    if (config->listen.port == 0)
        return error_at(err, ERR_CONFIG, "server.listen",
                        "server.listen has port 0: nobody knows which port the daemon got");
    char address[80];
    listen_print(&config->listen, config->listen.port, address);
    const int family = strchr(config->listen.host, ':') ? AF_INET6 : AF_INET;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(err, ERR_IO, "%s: %s", address, strerror(errno));
    const int result = ask(fd, &config->listen, address, err);
    close(fd);
    return result;
}
