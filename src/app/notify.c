#include "app/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

/* One datagram, as sd_notify(3) says: a path, or with @ an abstract name. */
static void notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t length = path ? strlen(path) : 0;
    if (length < 2 || (path[0] != '/' && path[0] != '@') || length >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
        log_write(LOG_WARNING, "$NOTIFY_SOCKET, %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

void notify_ready(void)
{
    notify("READY=1");
}

void notify_reloading(void)
{
    char text[64];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)(clock_ns() / 1000));
    notify(text);
}

void notify_stopping(void)
{
    notify("STOPPING=1");
}

void notify_alive(void)
{
    notify("WATCHDOG=1");
}

uint64_t notify_watchdog_ns(void)
{
    const char *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!period || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    return strtoull(period, NULL, 10) * 1000;
}
