/* cors.h — which pages of other origins may use the daemon.
 *
 * None, unless the configuration lists their origin; a browser then asks first (a preflight) and
 * looks for headers in the answers.  Any thread. */
#ifndef HTTP_CORS_H
#define HTTP_CORS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "http/service.h"
#include "routes.h"

struct cors {
    const char *allow_origin; /* the service's, or "*"; NULL: the request came from no such page */
    bool vary;                /* answers differ by origin: a cache must know */
    bool preflight;           /* the browser's question; nothing else shall be answered */
    const char *methods;      /* of a preflight: those of its route */
    const char *headers;      /* of a preflight: what it asked for, borrowed; NULL: nothing */
};

/* From the head of a request; `route` NULL: there is no preflight. */
struct cors cors_read(const struct service *service, struct MHD_Connection *connection,
                      const struct route *route, const char *method);

/* True if `origin` is that of a page that came from `host`, the value of a Host header: the
 * scheme, which a proxy before us may have changed, is not compared. */
bool cors_is_same_origin(const char *origin, const char *host);

/* What follows "http://" or "https://"; NULL: `url` begins with neither. */
const char *cors_without_scheme(const char *url);

void cors_add_headers(const struct cors *cors, struct MHD_Response *response);

#endif
