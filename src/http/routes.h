/* routes.h — which path is what.  Const. */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H

#include <stdbool.h>

#include "serve/request.h"

enum route_kind {
    ROUTE_WORK, /* POST: a request for an engine */
    ROUTE_MODELS,
    ROUTE_MODEL,
    ROUTE_LIVE,
    ROUTE_READY,
    ROUTE_METRICS
};

struct route {
    const char *path;  /* ends with '/': the rest of the path is a name */
    const char *label; /* in logs and metrics */
    enum route_kind kind;
    enum request_kind work; /* ROUTE_WORK */
};

/* All of them, (*count). */
const struct route *routes_all(size_t *count);

/* NULL: no route has that path.  *name is what follows a path that ends with '/', else "". */
const struct route *routes_find(const char *path, const char **name);

/* "POST", or "GET, HEAD". */
const char *routes_allow(const struct route *route);
bool routes_allows(const struct route *route, const char *method);

/* For probes and scrapers: any Host will do, and the log mentions them at debug level only. */
bool routes_is_probe(const struct route *route);

#endif
