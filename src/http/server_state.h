/* server_state.h — what every exchange shares.  Const after server_start() but for the atomics. */
#ifndef HTTP_SERVER_STATE_H
#define HTTP_SERVER_STATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "desk.h"
#include "http/server.h"
#include "peers.h"
#include "quotas.h"

enum server_phase { SERVER_SERVING, SERVER_DRAINING, SERVER_QUIESCED, SERVER_GIVING_UP };

struct server {
    struct metrics *metrics;
    uint64_t idle_timeout_ms;
    bool metrics_enabled;
    bool loopback; /* listens there: a Host that is a foreign name is refused */
    bool tls;      /* every connection is; what it shows is the service's certificate */
    uint16_t port;

    struct MHD_Daemon *daemon;
    struct peers *peers;
    struct quotas *quotas;
    struct desk *desk;
    int quiesced_fd; /* the listener once it is ours again; −1 */
    struct gauge *connections, *ready;
    struct counter *bodies_refused; /* no model's: nothing of them was read */

    pthread_mutex_t service_lock; /* a leaf, for the pointer below and its users to be one */
    struct service *service;
    _Atomic enum server_phase phase;
    atomic_size_t open_exchanges; /* complete requests whose answer is not yet sent */
    atomic_size_t body_bytes;     /* received, of requests that are not answered yet */
    atomic_size_t answer_bytes;   /* foreseen or written, of large answers that are not taken yet */
};

/* The current service with one more user, and one less. */
struct service *service_take(struct server *server);
void service_release(struct service *service);

#endif
