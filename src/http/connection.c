#include "connection.h"

#include "base/clock.h"
#include "base/mem.h"
#include "certificate_parts.h"

struct link {
    struct peer *peer;               /* NULL: no memory */
    struct certificate *certificate; /* shown to it; NULL without TLS */
};

/* The current certificate is this connection's to its end. */
static struct certificate *take_certificate(struct server *server, gnutls_session_t session)
{
    struct service *service = service_take(server);
    struct certificate *certificate = certificate_share(service->certificate);
    service_release(service);
    if (certificate && !certificate_show(certificate, session))
        certificate_close(&certificate); /* there is none to show, and the handshake fails */
    return certificate;
}

static uint64_t request_deadline_ns(struct server *server)
{
    struct service *service = service_take(server);
    const uint64_t limit_ms = service->limits->request_timeout_ms;
    service_release(service);
    return clock_ns() + limit_ms * NS_PER_MS;
}

/* A handshake is part of the first request, and has its deadline. */
static struct link *begin(struct server *server, struct MHD_Connection *connection)
{
    struct link *link = mem_alloc(1, sizeof *link);
    if (!link)
        return NULL;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    link->peer = peers_add(server->peers, info->connect_fd, request_deadline_ns(server));
    if (server->tls) {
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        link->certificate = take_certificate(server, info->tls_session);
    }
    return link;
}

void connection_notify(void *context, struct MHD_Connection *connection, void **link_place,
                       enum MHD_ConnectionNotificationCode what)
{
    struct server *server = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *link_place = begin(server, connection);
        gauge_add(server->connections, 1);
        return;
    }
    /* The library has freed the TLS session, but not yet closed the socket. */
    struct link *link = *link_place;
    *link_place = NULL;
    if (link && link->peer)
        peers_remove(server->peers, link->peer);
    if (link)
        certificate_close(&link->certificate);
    mem_free(link);
    gauge_add(server->connections, -1);
}

struct peer *connection_peer(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const struct link *link = info ? info->socket_context : NULL;
    return link ? link->peer : NULL;
}

/* The request line is there: from now on the whole request has one deadline. */
void *connection_request_line(void *context, const char *uri, struct MHD_Connection *connection)
{
    (void)uri;
    struct server *server = context;
    struct peer *peer = connection_peer(connection);
    if (peer)
        peers_expect(server->peers, peer, request_deadline_ns(server));
    return NULL; /* the state that on_request() begins with */
}
