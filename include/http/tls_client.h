/* tls_client.h — the other side of TLS, for a process that asks a daemon on its own machine.
 *
 * Nobody's name is checked: what it shows is compared with a file instead.  One thread at
 * a time. */
#ifndef HTTP_TLS_CLIENT_H
#define HTTP_TLS_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct tls_client;

/* Shakes hands over a connected, non-blocking socket, which stays the caller's and open.
 * `deadline_ns`, of clock_ns(), ends everything here.  Errors: ERR_IO, ERR_NO_MEMORY. */
int tls_client_open(struct tls_client **out, int fd, uint64_t deadline_ns, struct error *err);
void tls_client_close(struct tls_client **client);

/* Whether the peer's own certificate is the first one of the PEM file. */
bool tls_client_sees(const struct tls_client *client, const char *certificate_file);

/* Like send() and recv(), with less than 0 also when the time is over. */
ssize_t tls_client_send(struct tls_client *client, const void *bytes, size_t count);
ssize_t tls_client_receive(struct tls_client *client, void *bytes, size_t count);

#endif
