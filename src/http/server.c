#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/abstract.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "access.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "connection.h"
#include "exchange.h"

/* jansson goes 2048 deep into a hostile body, on the thread's stack. */
enum { THREAD_STACK_BYTES = 1 << 20 };

/* TLS 1.3 and 1.2, with forward secrecy and authenticated encryption only. */
#define TLS_PRIORITIES                                                                             \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:"   \
    "+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:%SERVER_PRECEDENCE"

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *body, size_t *body_count, void **state)
{
    (void)version;
    struct exchange *x = *state;
    if (!x) {
        const struct request_head head = { connection, path, method };
        *state = x = exchange_open(context, &head);
        if (!x)
            return MHD_NO;
        return x->error.code != ERR_NONE && x->admission.at_once ? exchange_refuse(x) : MHD_YES;
    }
    if (*body_count) {
        const bool go_on = exchange_read(x, body, *body_count);
        *body_count = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    return exchange_run(x);
}

/* Also called for a request whose first call failed: then there is no state. */
static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    const struct server *server = context;
    struct exchange *x = *state;
    *state = NULL;
    exchange_close(&x);
    if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
        exchange_set_idle_timeout(connection, server->idle_timeout_ms);
}

struct service *service_take(struct server *server)
{
    pthread_mutex_lock(&server->service_lock);
    struct service *service = server->service;
    atomic_fetch_add(&service->users, 1);
    pthread_mutex_unlock(&server->service_lock);
    return service;
}

void service_release(struct service *service)
{
    atomic_fetch_sub(&service->users, 1);
}

/* %00 would end the path early and make it another one: such a path stays as it is, and is
 * nobody's. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static void on_library_message(void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
static void on_library_message(void *context, const char *format, va_list arguments)
{
    (void)context;
    char message[512];
    vsnprintf(message, sizeof message, format, arguments);
    message[strcspn(message, "\n")] = '\0';
    log_write(LOG_DEBUG, "libmicrohttpd: %s", message);
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Errors: ERR_IO for a text that is no numeric address. */
static int parse_address(union address *out, socklen_t *length, const struct http_config *config,
                         struct error *err)
{
    *out = (union address){ 0 };
    if (inet_pton(AF_INET, config->address, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(config->port);
        *length = sizeof out->v4;
        return 0;
    }
    if (inet_pton(AF_INET6, config->address, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(config->port);
        *length = sizeof out->v6;
        return 0;
    }
    return error_set(err, ERR_IO, "cannot listen on \"%s\": it is no numeric address",
                     config->address);
}

/* A listening socket, or −1.  Sets server->port. */
static int listen_on(const struct http_config *config, struct server *server, struct error *err)
{
    union address address;
    socklen_t length;
    if (parse_address(&address, &length, config, err) < 0)
        return -1;
    const int one = 1, zero = 0;
    const int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        goto fail;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address.any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, &address.any, length) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, &address.any, &length) < 0)
        goto fail;
    /* The port lies at the same place in both kinds. */
    server->port = ntohs(address.v4.sin_port);
    return fd;

fail:
    error_set(err, ERR_IO, "cannot listen on %s port %u: %s", config->address,
              (unsigned)config->port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Every connection has a certificate of its own (http/connection.c); the library asks here for one
 * that had no memory for it, and ends its handshake. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *issuers, int issuer_count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                          gnutls_pcert_st **chain, unsigned *chain_length, gnutls_privkey_t *key)
{
    (void)session;
    (void)issuers;
    (void)issuer_count;
    (void)algorithms;
    (void)algorithm_count;
    (void)chain;
    (void)chain_length;
    (void)key;
    return -1;
}

/* With epoll, libmicrohttpd 0.9 spins while a client is silent in the middle of its handshake. */
static unsigned poller(const struct server *server)
{
    return server->tls ? MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_TLS : MHD_USE_EPOLL_INTERNAL_THREAD;
}

static struct MHD_Daemon *start_daemon(struct server *server, const struct http_config *config,
                                       int listener)
{
    const size_t threads =
        config->threads < config->connections ? config->threads : config->connections;
    const unsigned flags =
        poller(server) | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_library_message, NULL }, /* for the others too */
        { MHD_OPTION_LISTEN_SOCKET, listener, NULL },
        { MHD_OPTION_THREAD_POOL_SIZE, threads > 1 ? (intptr_t)threads : 0, NULL },
        { MHD_OPTION_THREAD_STACK_SIZE, THREAD_STACK_BYTES, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, (intptr_t)config->connections, NULL },
        { MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)config->connections_per_address, NULL },
        { MHD_OPTION_CONNECTION_TIMEOUT,
          (intptr_t)clock_whole_seconds(config->idle_timeout_ms * NS_PER_MS), NULL },
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server },
        { MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)connection_notify, server },
        { MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)connection_request_line, server },
        { MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)unescape, NULL },
        { MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL }, /* what is no HTTP/1.1 is refused */
        { MHD_OPTION_END, 0, NULL },
    };
    struct MHD_OptionItem tls_options[] = {
        { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(intptr_t)TLS_PRIORITIES },
        { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(intptr_t)no_certificate },
        { MHD_OPTION_END, 0, NULL },
    };
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_ARRAY, options,
                            server->tls ? MHD_OPTION_ARRAY : MHD_OPTION_END, tls_options,
                            MHD_OPTION_END);
}

int server_start(struct server **out, const struct http_config *config, struct service *service,
                 struct metrics *metrics, struct error *err)
{
    *out = NULL;
    struct server *server = mem_alloc(1, sizeof *server);
    if (!server)
        return error_set(err, ERR_NO_MEMORY, "no memory for the server");
    pthread_mutex_init(&server->service_lock, NULL);
    server->service = service;
    server->metrics = metrics;
    server->idle_timeout_ms = config->idle_timeout_ms;
    server->metrics_enabled = config->metrics_enabled;
    server->loopback = config->loopback;
    server->tls = service->certificate != NULL;
    server->quiesced_fd = -1;
    server->connections = metrics_gauge(metrics, "seqd_http_connections", "Open connections.", "");
    gauge_set(metrics_gauge(metrics, "seqd_http_connections_limit", "server.connections.", ""),
              (double)config->connections);
    server->bodies_refused = metrics_counter(metrics, "seqd_http_bodies_refused_total",
                                             "Bodies without room in limits.bodies_bytes.", "");
    server->ready = metrics_gauge(metrics, "seqd_ready", "1 while /readyz is 200.", "");
    access_prepare(metrics);

    const int listener = listen_on(config, server, err);
    if (listener < 0 || peers_start(&server->peers, err) < 0 ||
        quotas_create(&server->quotas, err) < 0 || desk_start(&server->desk, err) < 0)
        goto fail;
    server->daemon = start_daemon(server, config, listener);
    if (!server->daemon) {
        error_set(err, ERR_IO, "cannot serve %s port %u: libmicrohttpd does not start: %s",
                  config->address, (unsigned)server->port, strerror(errno));
        goto fail;
    }
    *out = server;
    return 0;

fail:
    if (listener >= 0)
        close(listener);
    server_stop(&server);
    return -1;
}

void server_set_registry(struct server *server, const struct registry *registry)
{
    access_prepare_models(server->metrics, registry);
    server->service->registry = registry;
    gauge_set(server->ready, 1);
}

void server_set_service(struct server *server, struct service *service)
{
    access_prepare_models(server->metrics, service->registry);
    pthread_mutex_lock(&server->service_lock);
    server->service = service;
    pthread_mutex_unlock(&server->service_lock);
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

void server_drain(struct server *server)
{
    server->phase = SERVER_DRAINING;
    gauge_set(server->ready, 0);
}

void server_quiesce(struct server *server)
{
    server->phase = SERVER_QUIESCED;
    gauge_set(server->ready, 0);
    server->quiesced_fd = MHD_quiesce_daemon(server->daemon);
    /* The library's threads may still look at the descriptor, so it stays open; but who connects
     * now shall be refused, not left waiting. */
    if (server->quiesced_fd >= 0)
        shutdown(server->quiesced_fd, SHUT_RDWR);
}

void server_give_up(struct server *server)
{
    server->phase = SERVER_GIVING_UP;
}

size_t server_open_exchanges(const struct server *server)
{
    return server->open_exchanges;
}

void server_stop(struct server **in)
{
    struct server *server = *in;
    if (!server)
        return;
    *in = NULL;
    desk_close(server->desk); /* the library must not stop while connections are suspended */
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    desk_destroy(&server->desk);
    if (server->quiesced_fd >= 0)
        close(server->quiesced_fd);
    peers_stop(&server->peers);
    quotas_destroy(&server->quotas);
    pthread_mutex_destroy(&server->service_lock);
    mem_free(server);
}
