/* listen.h — "HOST:PORT": 127.0.0.1:8080, [::1]:8080, localhost:8080, 0.0.0.0:0. */
#ifndef APP_LISTEN_H
#define APP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

struct listen_address {
    char host[64]; /* a number: "127.0.0.1", "::1"; "localhost" is 127.0.0.1 */
    uint16_t port; /* 0: the system picks one */
    bool loopback; /* nobody beyond this machine can connect */
};

/* Errors: ERR_CONFIG. */
int listen_parse(struct listen_address *out, const char *text, struct error *err);

/* "[::1]:8080" again, with another port. */
void listen_print(const struct listen_address *address, uint16_t port, char text[static 80]);

enum { LISTEN_PEERS_MAX = 2 };

/* Where to ask a daemon that listens there, in this order: the wildcard 0.0.0.0 is 127.0.0.1, and
 * [::], which takes both kinds, is ::1 and 127.0.0.1.  Returns how many. */
size_t listen_peers(const struct listen_address *address,
                    struct listen_address peers[static LISTEN_PEERS_MAX]);

/* Returns its length. */
socklen_t listen_socket_address(const struct listen_address *address,
                                struct sockaddr_storage *socket_address);

#endif
