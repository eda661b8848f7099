#include "admission.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

/* Shorter bodies whose length is known need no room: server.connections bounds them, and a few slow
 * uploads must not keep everybody out. */
enum { SMALL_BODY_BYTES = 16 << 10 };

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Cuts ":8080" off the end. */
static void cut_port(char *host)
{
    char *colon = strrchr(host, ':');
    if (colon && colon[1 + strspn(colon + 1, "0123456789")] == '\0')
        *colon = '\0';
}

bool admission_host_is_known(const char *host, char *const *names)
{
    char name[256];
    unsigned char address[sizeof(struct in6_addr)];
    if (strlen(host) >= sizeof name)
        return false;
    strcpy(name, host);
    cut_port(name);
    const size_t length = strlen(name);
    if (name[0] == '[' && name[length - 1] == ']') {
        name[length - 1] = '\0';
        return inet_pton(AF_INET6, name + 1, address) == 1;
    }
    if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1)
        return true;
    for (; names && *names; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}

/* A page that a browser has open must not reach a daemon that only this machine should.  It knows
 * no key: where one is asked for, any name will do. */
static int check_host(const struct server *server, const struct service *service,
                      const struct request_head *head, const struct route *route, struct error *err)
{
    const char *host = header(head->connection, "Host");
    /* Without one it is HTTP/1.0: the library refuses the others. */
    if (!host || !server->loopback || service->keys || routes_is_probe(route) ||
        admission_host_is_known(host, service->hosts))
        return 0;
    return error_at(err, ERR_FORBIDDEN, "Host",
                    "Host \"%.128s\" is neither an address nor localhost nor in server.hosts",
                    host);
}

/* A page may post only where it came from, or where it is listed.  A page that made its own name
 * lead here also "came from here": without keys the name must be one of ours, on any address. */
static int check_origin(const struct admission *admission, const struct service *service,
                        const struct request_head *head, struct error *err)
{
    const char *origin = header(head->connection, "Origin");
    const char *host = header(head->connection, "Host");
    if (!origin || strcmp(head->method, "POST") != 0 || admission->cors.allow_origin)
        return 0;
    if (host && cors_is_same_origin(origin, host) &&
        (service->keys || admission_host_is_known(host, service->hosts)))
        return 0;
    return error_at(err, ERR_FORBIDDEN, "Origin",
                    "pages of \"%.128s\" may not ask: it is not in cors.origins", origin);
}

/* Where "Bearer KEY" has its key; NULL: it is nothing of the kind. */
static const char *bearer(const char *authorization)
{
    static const char scheme[] = "Bearer";
    if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0)
        return NULL;
    const char *key = authorization + strlen(scheme);
    return *key == ' ' ? key + strspn(key, " ") : NULL;
}

static int check_key(struct admission *admission, const struct service *service,
                     const struct request_head *head, struct error *err)
{
    const struct route *route = admission->route;
    if (!service->keys ||
        (routes_is_probe(route) && (route->kind != ROUTE_METRICS || service->metrics_public)))
        return 0;
    const char *key = bearer(header(head->connection, "Authorization"));
    if (!key)
        return error_at(err, ERR_NO_KEY, "Authorization",
                        "an API key is needed; send \"Authorization: Bearer KEY\"");
    size_t length = strlen(key);
    while (length > 0 && (key[length - 1] == ' ' || key[length - 1] == '\t'))
        length--;
    admission->key = keys_find(service->keys, key, length);
    if (admission->key)
        return 0;
    return error_at(err, ERR_WRONG_KEY, "Authorization",
                    "this API key is not, or no longer, valid");
}

/* JSON is UTF-8 (RFC 8259, 8.1): no other charset may be named. */
static bool is_charset_of_json(const char *parameter, size_t length)
{
    static const char *const allowed[] = { "charset=utf-8", "charset=\"utf-8\"", "charset=utf8" };
    if (strncasecmp(parameter, allowed[0], strlen("charset=")) != 0)
        return true; /* another parameter, which means nothing here */
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strlen(allowed[i]) == length && strncasecmp(parameter, allowed[i], length) == 0)
            return true;
    return false;
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t length = strcspn(type, "; \t");
    bool good = length == sizeof json - 1 && strncasecmp(type, json, length) == 0;
    while (good && *(type += length)) {
        type += strspn(type, "; \t");
        length = strcspn(type, "; \t");
        good = is_charset_of_json(type, length);
    }
    return good;
}

static int check_media(struct MHD_Connection *connection, struct error *err)
{
    const char *encoding = header(connection, "Content-Encoding");
    if (encoding && strcasecmp(encoding, "identity") != 0)
        return error_at(err, ERR_MEDIA_TYPE, "Content-Encoding",
                        "compressed bodies are not read; send it without Content-Encoding");
    const char *type = header(connection, "Content-Type");
    if (!type || is_json(type + strspn(type, " \t")))
        return 0;
    return error_at(err, ERR_MEDIA_TYPE, "Content-Type",
                    "the body must be JSON in UTF-8; send \"Content-Type: application/json\"");
}

struct framing {
    size_t lengths, codings, hosts, types;
    bool malformed; /* a name or a value that other readers may take for another one */
};

/* The library takes "Content-Length : 5" for a name that ends in a space, and so for no length. */
static bool is_name(const char *text, size_t length)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "!#$%&'*+-.^_`|~";
    return length > 0 && strspn(text, allowed) == length;
}

static bool is_value(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((text[i] >= '\0' && text[i] < ' ' && text[i] != '\t') || text[i] == 127)
            return false;
    return true;
}

/* The library (0.9.75) joins a folded line to the name of its header, not to the value, and moves
 * the name behind the value to do so: "Transfer-: chunked", " Encoding" is the coding to it. */
static bool is_folded(const char *name, const char *value)
{
    return (uintptr_t)name > (uintptr_t)value;
}

static enum MHD_Result see_header(void *context, enum MHD_ValueKind kind, const char *name,
                                  size_t name_length, const char *value, size_t value_length)
{
    (void)kind;
    struct framing *framing = context;
    framing->lengths += strcasecmp(name, "Content-Length") == 0;
    framing->codings += strcasecmp(name, "Transfer-Encoding") == 0;
    framing->hosts += strcasecmp(name, "Host") == 0;
    framing->types += strcasecmp(name, "Content-Type") == 0;
    framing->malformed |= !is_name(name, name_length) || !value || is_folded(name, value) ||
                          !is_value(value, value_length);
    return MHD_YES;
}

/* A target may be a whole URL (RFC 9112, 3.2.2); its path, and in *length how long the host before
 * it is.  That host is what counts then, so who sends another one as Host is refused. */
static const char *find_path(const char *target, size_t *length)
{
    const char *host = cors_without_scheme(target);
    *length = host ? strcspn(host, "/") : 0;
    return host ? host + *length : target;
}

static int check_target(const struct request_head *head, struct error *err)
{
    size_t length;
    const char *path = find_path(head->path, &length);
    const char *host = header(head->connection, "Host");
    if (path == head->path || !host ||
        (strlen(host) == length && strncasecmp(host, path - length, length) == 0))
        return 0;
    return error_at(err, ERR_UNSUPPORTED, "Host",
                    "Host \"%.128s\" is not the host of the URL in the request line", host);
}

/* A body whose end two readers could see at different places is how requests are smuggled. */
static int check_framing(struct MHD_Connection *connection, struct error *err)
{
    struct framing framing = { 0 };
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, see_header, &framing);
    const char *coding = header(connection, "Transfer-Encoding");
    if (framing.malformed)
        return error_set(err, ERR_UNSUPPORTED,
                         "a header is folded or has a character that no name or value may have");
    if (framing.hosts > 1)
        return error_at(err, ERR_UNSUPPORTED, "Host", "there is more than one Host header");
    if (framing.types > 1)
        return error_at(err, ERR_UNSUPPORTED, "Content-Type",
                        "there is more than one Content-Type header");
    if (framing.lengths + framing.codings > 1)
        return error_at(err, ERR_UNSUPPORTED, "Content-Length",
                        "the length of the body is given more than once");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return error_at(err, ERR_UNSUPPORTED, "Transfer-Encoding",
                        "the only Transfer-Encoding is \"chunked\"");
    return 0;
}

static int check_length(struct admission *admission, const struct server *server,
                        struct MHD_Connection *connection, const struct limits *limits,
                        struct error *err)
{
    const char *length = header(connection, "Content-Length");
    const size_t bytes = length ? strtoull(length, NULL, 10) : 0;
    if (bytes > limits->body_bytes)
        return error_set(err, ERR_OVER_LIMIT, "the body has %.20s bytes; limits.body_bytes is %zu",
                         length, limits->body_bytes);
    admission->small_body = bytes && bytes < SMALL_BODY_BYTES;
    /* Only what has come counts: who announces much and sends nothing takes no room. */
    if (bytes >= SMALL_BODY_BYTES && bytes + server->body_bytes > limits->bodies_bytes)
        return admission_no_room(server, limits, err);
    return 0;
}

int admission_no_room(const struct server *server, const struct limits *limits, struct error *err)
{
    counter_add(server->bodies_refused, 1);
    return error_set(err, ERR_BUSY,
                     "the bodies of other requests leave no room for this one; "
                     "limits.bodies_bytes is %zu",
                     limits->bodies_bytes);
}

/* Last, so that only what is served counts. */
static int check_quota(struct admission *admission, const struct server *server,
                       const struct service *service, const struct request_head *head,
                       struct error *err)
{
    const struct limits *limits = service->limits;
    const struct quota quota = { limits->key_requests_per_second, limits->key_burst,
                                 limits->key_concurrency };
    if (quota.requests_per_second == 0 && quota.concurrency == 0)
        return 0;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(head->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct client client = admission->key
                                     ? client_of_key(admission->key->identity)
                                     : client_of_address(info ? info->client_addr : NULL);
    return quotas_take(server->quotas, client, &quota, clock_ns(), &admission->share,
                       &admission->retry_after_s, err);
}

int admission_check(struct admission *admission, const struct server *server,
                    const struct service *service, const struct request_head *head,
                    struct error *err)
{
    struct MHD_Connection *connection = head->connection;
    *admission = (struct admission){ .name = "" };
    size_t host_length;
    const struct route *route = routes_find(find_path(head->path, &host_length), &admission->name);
    if (route && route->kind == ROUTE_METRICS && !server->metrics_enabled)
        route = NULL;
    admission->route = route;
    admission->cors = cors_read(service, connection, route, head->method);

    if (check_framing(connection, err) < 0 ||
        check_length(admission, server, connection, service->limits, err) < 0) {
        admission->at_once = true;
        return -1;
    }
    admission->at_once = header(connection, "Expect") != NULL;
    if (check_target(head, err) < 0 || check_host(server, service, head, route, err) < 0 ||
        check_origin(admission, service, head, err) < 0)
        return -1;
    if (admission->cors.preflight)
        return 0; /* browsers send no key with it */
    if (check_key(admission, service, head, err) < 0)
        return -1;
    if (!route)
        return error_set(err, ERR_NO_ROUTE, "there is nothing at this path");
    if (!routes_allows(route, head->method))
        return error_set(err, ERR_METHOD, "%s answers to %s", route->label, routes_allow(route));
    if (route->kind == ROUTE_WORK && check_media(connection, err) < 0)
        return -1;
    return routes_is_probe(route) ? 0 : check_quota(admission, server, service, head, err);
}
