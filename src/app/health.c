#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/commands.h"
#include "base/clock.h"
#include "http/tls_client.h"

/* For all addresses together: who runs this may give up after 3 s, of which the start of a process
 * on a busy machine takes some. */
enum { LIMIT_MS = 2000, STATUS_BYTES = 12 /* "HTTP/1.1 200" */ };

struct line {
    int fd; /* non-blocking */
    uint64_t deadline_ns;
    struct tls_client *tls; /* NULL: plain */
};

/* False: the time is over first. */
static bool wait_for(const struct line *line, short events)
{
    const uint64_t now_ns = clock_ns();
    struct pollfd poller = { .fd = line->fd, .events = events };
    return now_ns < line->deadline_ns &&
           poll(&poller, 1, (int)((line->deadline_ns - now_ns) / NS_PER_MS) + 1) > 0;
}

static ssize_t receive(const struct line *line, char *bytes, size_t count)
{
    if (line->tls)
        return tls_client_receive(line->tls, bytes, count);
    return wait_for(line, POLLIN) ? recv(line->fd, bytes, count, 0) : -1;
}

/* A new socket's buffer has room for all of it. */
static ssize_t send_all(const struct line *line, const char *bytes, size_t count)
{
    if (line->tls)
        return tls_client_send(line->tls, bytes, count);
    return send(line->fd, bytes, count, MSG_NOSIGNAL);
}

/* The first STATUS_BYTES of the answer; false: it ended before, or the time did. */
static bool read_status(const struct line *line, char status[static STATUS_BYTES + 1])
{
    size_t length = 0;
    while (length < STATUS_BYTES) {
        const ssize_t got = receive(line, status + length, STATUS_BYTES - length);
        if (got <= 0)
            return false;
        length += (size_t)got;
    }
    status[length] = '\0';
    return true;
}

/* Connects to the first of the addresses where somebody listens; errno says why the last one did
 * not. */
static bool connect_any(struct line *line, const struct listen_address *listen,
                        struct listen_address *reached)
{
    struct listen_address peers[LISTEN_PEERS_MAX];
    const size_t count = listen_peers(listen, peers);
    for (size_t i = 0; i < count; i++) {
        struct sockaddr_storage to;
        const socklen_t length = listen_socket_address(&peers[i], &to);
        *reached = peers[i];
        line->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (line->fd < 0)
            continue; /* no IPv6 here, for one */
        if (connect(line->fd, (const struct sockaddr *)&to, length) == 0)
            return true;
        int why = errno;
        socklen_t size = sizeof why;
        if (why == EINPROGRESS) {
            if (!wait_for(line, POLLOUT))
                why = ETIMEDOUT;
            else if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &why, &size) == 0 && why == 0)
                return true;
        }
        close(line->fd);
        line->fd = -1;
        errno = why;
    }
    return false;
}

/* A daemon whose files have been renewed shows the former certificate until SIGHUP, or for as long
 * as the new files are bad: it is well all the same, and ending it would be no help. */
static int begin_tls(struct line *line, const char *certificate_file, const char *address,
                     struct error *err)
{
    struct error why = { 0 };
    if (tls_client_open(&line->tls, line->fd, line->deadline_ns, &why) < 0)
        return error_set(err, why.code, "%s: %s", address, why.message);
    if (!tls_client_sees(line->tls, certificate_file))
        log_write(LOG_WARNING, "%s: the daemon's certificate is not the one in %s", address,
                  certificate_file);
    return 0;
}

static int ask(const struct line *line, const char *address, struct error *err)
{
    char request[200], status[STATUS_BYTES + 1];
    const int count =
        snprintf(request, sizeof request,
                 "GET /readyz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", address);
    if (send_all(line, request, (size_t)count) != count)
        return error_set(err, ERR_IO, "%s: the connection ended", address);
    if (!read_status(line, status))
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
    struct line line = { .fd = -1, .deadline_ns = clock_ns() + LIMIT_MS * NS_PER_MS };
    struct listen_address reached;
    const bool connected = connect_any(&line, &config->listen, &reached);
    const int why = errno;
    char address[80];
    listen_print(&reached, reached.port, address);
    if (!connected)
        return error_set(err, ERR_IO, "%s: %s", address, strerror(why));
    const char *file = config->server.tls_certificate;
    int result = file && *file ? begin_tls(&line, file, address, err) : 0;
    if (result == 0)
        result = ask(&line, address, err);
    tls_client_close(&line.tls);
    close(line.fd);
    return result;
}
