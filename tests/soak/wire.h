/* wire.h — HTTP over a bare socket of the loopback, so that a client can be as slow or as rude as
 * it likes.  A connection belongs to one thread. */
#ifndef WIRE_H
#define WIRE_H

#include <stddef.h>
#include <stdint.h>

struct wire_answer {
    int status;
    char *bytes; /* the body and a NUL; the caller's to free() */
    size_t length;
};

/* In what pieces bytes are sent or received, and how long to rest between two; all 0: at once. */
struct wire_pace {
    size_t piece;
    unsigned pause_ms;
};

/* Nothing waits for longer than this. */
#define WIRE_TIMEOUT_S 600

int wire_open(int port); /* a descriptor, or −1 */
void wire_close(int fd); /* −1 is none */
void wire_reset(int fd); /* the other side sees a reset, not an end */

/* A whole request as text, for the caller to free().  With an empty body a GET without one. */
char *wire_request(const char *path, const char *body, size_t *length);

/* 0, or −1 when the other side is gone. */
int wire_send(int fd, const char *bytes, size_t count, struct wire_pace pace);

/* The answer to one request that has a Content-Length; −1: there is none, or half of one. */
int wire_receive(int fd, struct wire_answer *answer, struct wire_pace pace);

/* Both, on a connection of its own that is closed after it. */
int wire_ask(int port, const char *path, const char *body, struct wire_answer *answer);

void wire_sleep_ms(unsigned ms);
uint64_t wire_clock_ns(void);

#endif
