/* connection.h — what the server keeps of an open connection.
 *
 * Threads: the connection's HTTP thread, always the same one. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "server_state.h"

/* libmicrohttpd's callbacks; `context` is the server. */
void connection_notify(void *context, struct MHD_Connection *connection, void **link,
                       enum MHD_ConnectionNotificationCode what);
void *connection_request_line(void *context, const char *uri, struct MHD_Connection *connection);

/* NULL: there was no memory for it. */
struct peer *connection_peer(struct MHD_Connection *connection);

#endif
