#include "routes.h"

#include <string.h>

static const struct route routes[] = {
    { "/v1/encode", "/v1/encode", ROUTE_WORK, REQUEST_ENCODE },
    { "/v1/generate", "/v1/generate", ROUTE_WORK, REQUEST_GENERATE },
    { "/v1/score", "/v1/score", ROUTE_WORK, REQUEST_SCORE },
    { .path = "/v1/models", .label = "/v1/models", .kind = ROUTE_MODELS },
    { .path = "/v1/models/", .label = "/v1/models/NAME", .kind = ROUTE_MODEL },
    { .path = "/livez", .label = "/livez", .kind = ROUTE_LIVE },
    { .path = "/readyz", .label = "/readyz", .kind = ROUTE_READY },
    { .path = "/health", .label = "/health", .kind = ROUTE_READY },
    { .path = "/metrics", .label = "/metrics", .kind = ROUTE_METRICS },
};

const struct route *routes_all(size_t *count)
{
    *count = sizeof routes / sizeof *routes;
    return routes;
}

const struct route *routes_find(const char *path, const char **name)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const size_t length = strlen(routes[i].path);
        const bool takes_name = routes[i].path[length - 1] == '/';
        if (strncmp(path, routes[i].path, length) != 0 || (path[length] != '\0') != takes_name)
            continue;
        *name = path + length;
        return &routes[i];
    }
    return NULL;
}

const char *routes_allow(const struct route *route)
{
    return route->kind == ROUTE_WORK ? "POST" : "GET, HEAD";
}

bool routes_allows(const struct route *route, const char *method)
{
    if (route->kind == ROUTE_WORK)
        return strcmp(method, "POST") == 0;
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

bool routes_is_probe(const struct route *route)
{
    return route && route->kind >= ROUTE_LIVE;
}
