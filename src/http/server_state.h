/* server_state.h — what every exchange shares.  Const after server_start() but for the atomics. */
#ifndef HTTP_SERVER_STATE_H
#define HTTP_SERVER_STATE_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "http/server.h"
#include "peers.h"

enum server_phase { SERVER_SERVING, SERVER_DRAINING, SERVER_QUIESCED };

struct server {
    const struct limits *limits;
    struct metrics *metrics;
    uint64_t idle_timeout_ms;
    bool metrics_enabled;
    bool loopback; /* listens there: a Host that is a foreign name is refused */
    char *const *hosts;
    uint16_t port;

    struct MHD_Daemon *daemon;
    struct peers *peers;
    int quiesced_fd; /* the listener once it is ours again; −1 */
    struct gauge *connections, *ready;

    _Atomic(const struct registry *) registry; /* NULL while loading */
    _Atomic enum server_phase phase;
    atomic_size_t open_exchanges; /* complete requests whose answer is not yet sent */
};

#endif
