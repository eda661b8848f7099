#include "admission.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* A page that a browser has open must not reach a daemon that only this machine should. */
static int check_origin(const struct server *server, const struct service *service,
                        struct MHD_Connection *connection, const struct route *route,
                        const char *method, struct error *err)
{
    const char *host = header(connection, "Host");
    if (server->loopback && host && !routes_is_probe(route) &&
        !admission_host_is_known(host, service->hosts))
        return error_at(err, ERR_FORBIDDEN, "Host",
                        "Host \"%.128s\" is neither an address nor localhost nor in server.hosts",
                        host);
    const char *origin = header(connection, "Origin");
    if (origin && strcmp(method, "POST") == 0)
        return error_at(err, ERR_FORBIDDEN, "Origin", "requests of pages of \"%.128s\" are refused",
                        origin);
    return 0;
}

static int check_media(struct MHD_Connection *connection, struct error *err)
{
    static const char json[] = "application/json";
    const char *encoding = header(connection, "Content-Encoding");
    if (encoding && strcasecmp(encoding, "identity") != 0)
        return error_at(err, ERR_MEDIA_TYPE, "Content-Encoding",
                        "compressed bodies are not read; send it without Content-Encoding");
    const char *type = header(connection, "Content-Type");
    if (!type)
        return 0;
    type += strspn(type, " \t");
    const size_t length = strcspn(type, "; \t");
    if (length == sizeof json - 1 && strncasecmp(type, json, length) == 0)
        return 0;
    return error_at(err, ERR_MEDIA_TYPE, "Content-Type",
                    "the body must be JSON; send \"Content-Type: application/json\"");
}

struct framing {
    size_t lengths, codings, hosts;
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
    framing->malformed |= !is_name(name, name_length) || !value || is_folded(name, value) ||
                          !is_value(value, value_length);
    return MHD_YES;
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
    if (framing.lengths + framing.codings > 1)
        return error_at(err, ERR_UNSUPPORTED, "Content-Length",
                        "the length of the body is given more than once");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return error_at(err, ERR_UNSUPPORTED, "Transfer-Encoding",
                        "the only Transfer-Encoding is \"chunked\"");
    return 0;
}

static int check_length(const struct server *server, struct MHD_Connection *connection,
                        const struct limits *limits, struct error *err)
{
    const char *length = header(connection, "Content-Length");
    const size_t bytes = length ? strtoull(length, NULL, 10) : 0;
    if (bytes > limits->body_bytes)
        return error_set(err, ERR_OVER_LIMIT, "the body has %.20s bytes; limits.body_bytes is %zu",
                         length, limits->body_bytes);
    /* Only what has come counts: who announces much and sends nothing takes no room. */
    if (bytes && bytes + server->body_bytes > limits->bodies_bytes)
        return admission_no_room(limits, err);
    return 0;
}

int admission_no_room(const struct limits *limits, struct error *err)
{
    return error_set(err, ERR_BUSY,
                     "the bodies of other requests leave no room for this one; "
                     "limits.bodies_bytes is %zu",
                     limits->bodies_bytes);
}

int admission_check(struct admission *admission, const struct server *server,
                    const struct service *service, struct MHD_Connection *connection,
                    const char *path, const char *method, struct error *err)
{
    *admission = (struct admission){ .name = "" };
    const struct route *route = routes_find(path, &admission->name);
    if (route && route->kind == ROUTE_METRICS && !server->metrics_enabled)
        route = NULL;
    admission->route = route;

    if (check_framing(connection, err) < 0 ||
        check_length(server, connection, service->limits, err) < 0) {
        admission->at_once = true;
        return -1;
    }
    admission->at_once = header(connection, "Expect") != NULL;
    if (check_origin(server, service, connection, route, method, err) < 0)
        return -1;
    if (!route)
        return error_set(err, ERR_NO_ROUTE, "there is nothing at this path");
    if (!routes_allows(route, method))
        return error_set(err, ERR_METHOD, "%s answers to %s", route->label, routes_allow(route));
    return route->kind == ROUTE_WORK ? check_media(connection, err) : 0;
}
