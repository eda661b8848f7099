#include "wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEAD_BYTES_MAX 8192
#define BODY_BYTES_MAX ((size_t)256 << 20)

void wire_sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L }, NULL);
}

uint64_t wire_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int wire_open(int port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons((uint16_t)port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct timeval patience = { .tv_sec = WIRE_TIMEOUT_S };
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

void wire_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

void wire_reset(int fd)
{
    const struct linger linger = { .l_onoff = 1 };
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    wire_close(fd);
}

char *wire_request(const char *path, const char *body, size_t *length)
{
    char *text = NULL;
    const int written =
        body[0] ? asprintf(&text,
                           "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json"
                           "\r\nContent-Length: %zu\r\n\r\n%s",
                           path, strlen(body), body)
                : asprintf(&text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
    if (written < 0)
        abort();
    *length = (size_t)written;
    return text;
}

int wire_send(int fd, const char *bytes, size_t count, struct wire_pace pace)
{
    while (count > 0) {
        const size_t piece = pace.piece && pace.piece < count ? pace.piece : count;
        const ssize_t sent = send(fd, bytes, piece, MSG_NOSIGNAL);
        if (sent <= 0)
            return -1;
        bytes += sent;
        count -= (size_t)sent;
        if (pace.pause_ms && count > 0)
            wire_sleep_ms(pace.pause_ms);
    }
    return 0;
}

/* Reads until the head is whole; returns how many bytes of the body came
 * with it, which begin at *body, or −1. */
static ssize_t receive_head(int fd, char *head, char **body)
{
    size_t length = 0;
    while (length < HEAD_BYTES_MAX) {
        const ssize_t got = recv(fd, head + length, HEAD_BYTES_MAX - length, 0);
        if (got <= 0)
            return -1;
        length += (size_t)got;
        head[length] = '\0';
        char *end = strstr(head, "\r\n\r\n");
        if (end) {
            end[2] = '\0';
            *body = end + 4;
            return (ssize_t)length - (*body - head);
        }
    }
    return -1;
}

/* Sets status and length from the head. */
static int read_head(const char *head, struct wire_answer *answer)
{
    const char *length = strcasestr(head, "\r\nContent-Length:");
    if (sscanf(head, "HTTP/1.%*1d %3d", &answer->status) != 1 || !length)
        return -1;
    answer->length = strtoull(length + strlen("\r\nContent-Length:"), NULL, 10);
    return answer->length > BODY_BYTES_MAX ? -1 : 0;
}

int wire_receive(int fd, struct wire_answer *answer, struct wire_pace pace)
{
    char head[HEAD_BYTES_MAX + 1], *body = NULL;
    *answer = (struct wire_answer){ 0 };
    const ssize_t ahead = receive_head(fd, head, &body);
    if (ahead < 0 || read_head(head, answer) < 0 || (size_t)ahead > answer->length)
        return -1;
    answer->bytes = malloc(answer->length + 1);
    if (!answer->bytes)
        abort();
    memcpy(answer->bytes, body, (size_t)ahead);
    for (size_t have = (size_t)ahead; have < answer->length;) {
        const size_t left = answer->length - have;
        const ssize_t got =
            recv(fd, answer->bytes + have, pace.piece && pace.piece < left ? pace.piece : left, 0);
        if (got <= 0) {
            free(answer->bytes);
            *answer = (struct wire_answer){ 0 };
            return -1;
        }
        have += (size_t)got;
        if (pace.pause_ms)
            wire_sleep_ms(pace.pause_ms);
    }
    answer->bytes[answer->length] = '\0';
    return 0;
}

int wire_ask(int port, const char *path, const char *body, struct wire_answer *answer)
{
    size_t length;
    char *request = wire_request(path, body, &length);
    const int fd = wire_open(port);
    *answer = (struct wire_answer){ 0 };
    const int rc = fd < 0 || wire_send(fd, request, length, (struct wire_pace){ 0 }) < 0
                       ? -1
                       : wire_receive(fd, answer, (struct wire_pace){ 0 });
    wire_close(fd);
    free(request);
    return rc;
}
