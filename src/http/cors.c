#include "cors.h"

#include <string.h>
#include <strings.h>

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

const char *cors_without_scheme(const char *url)
{
    static const char *const schemes[] = { "http://", "https://" };
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(schemes[i]);
        if (strncasecmp(url, schemes[i], length) == 0)
            return url + length;
    }
    return NULL;
}

bool cors_is_same_origin(const char *origin, const char *host)
{
    const char *own = cors_without_scheme(origin);
    return own && strcasecmp(own, host) == 0;
}

/* The entry of the list that allows the origin, "*" among them. */
static const char *find_allowed(char *const *origins, const char *origin)
{
    for (; origins && *origins; origins++)
        if (strcmp(*origins, "*") == 0 || strcasecmp(*origins, origin) == 0)
            return *origins;
    return NULL;
}

struct cors cors_read(const struct service *service, struct MHD_Connection *connection,
                      const struct route *route, const char *method)
{
    struct cors cors = { .vary = service->origins && service->origins[0] };
    const char *origin = header(connection, "Origin");
    if (origin)
        cors.allow_origin = find_allowed(service->origins, origin);
    if (cors.allow_origin && route && strcmp(method, "OPTIONS") == 0 &&
        header(connection, "Access-Control-Request-Method")) {
        cors.preflight = true;
        cors.methods = routes_allow(route);
        cors.headers = header(connection, "Access-Control-Request-Headers");
    }
    return cors;
}

void cors_add_headers(const struct cors *cors, struct MHD_Response *response)
{
    if (cors->vary)
        MHD_add_response_header(response, "Vary", "Origin");
    if (!cors->allow_origin)
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", cors->allow_origin);
    if (!cors->preflight) {
        MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                "X-Request-Id, Retry-After, x-should-retry, WWW-Authenticate");
        return;
    }
    MHD_add_response_header(response, "Access-Control-Allow-Methods", cors->methods);
    if (cors->headers)
        MHD_add_response_header(response, "Access-Control-Allow-Headers", cors->headers);
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
}
