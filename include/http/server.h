/* server.h — the HTTP face of the daemon: routes, JSON, probes and /metrics.
 *
 * Threads: libmicrohttpd's own threads parse, check and push, with one more for what is large; a
 * connection is suspended while the engine works on its request.  main starts and stops.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/metrics.h"
#include "http/service.h"

struct http_config {
    const char *address;            /* "127.0.0.1", "::1", "0.0.0.0" … */
    bool loopback;                  /* nobody beyond this machine can connect to the address */
    uint16_t port;                  /* 0: the system picks one */
    size_t threads;                 /* epoll threads */
    size_t connections;             /* open at once */
    size_t connections_per_address; /* of them; 0: any number */
    uint64_t idle_timeout_ms;       /* a kept connection without a request */
    bool metrics_enabled;
};

struct server;

/* Listens and answers probes at once; model routes say 503 "loading" until server_set_registry().
 * If the service has a certificate, every connection is TLS, and those of later services too.
 * Borrows everything until server_stop().  Errors: ERR_IO names address, port and reason. */
int server_start(struct server **out, const struct http_config *config, struct service *service,
                 struct metrics *metrics, struct error *err);

/* The models of the current service are there: ready. */
void server_set_registry(struct server *server, const struct registry *registry);

/* New requests are answered from `service`, which has its models, and a certificate if the first
 * one had.  The former one is the caller's
 * again once it has no users. */
void server_set_service(struct server *server, struct service *service);

/* The port that is listened on. */
uint16_t server_port(const struct server *server);

/* Draining: /readyz is 503, answers carry `Connection: close`; requests are still served. */
void server_drain(struct server *server);
/* No new connections and no new requests on old ones (503 shutting_down). */
void server_quiesce(struct server *server);
/* Bodies that wait to be read are answered 503 instead. */
void server_give_up(struct server *server);
/* Exchanges whose request was complete and whose answer is not yet sent. */
size_t server_open_exchanges(const struct server *server);

/* Closes every connection.  No request may be with an engine any more. */
void server_stop(struct server **server);

#endif
