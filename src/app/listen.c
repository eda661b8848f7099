#include "app/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_port(const char *text, uint16_t *port)
{
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits])
        return false;
    const unsigned long value = strtoul(text, NULL, 10);
    *port = (uint16_t)value;
    return value <= UINT16_MAX;
}

/* Numbers only: a name could mean other addresses at each start. */
static bool parse_host(struct listen_address *out, bool bracketed)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (bracketed) {
        if (inet_pton(AF_INET6, out->host, &v6) != 1)
            return false;
        out->loopback = IN6_IS_ADDR_LOOPBACK(&v6);
        return true;
    }
    if (strcmp(out->host, "localhost") == 0)
        strcpy(out->host, "127.0.0.1");
    if (inet_pton(AF_INET, out->host, &v4) != 1)
        return false;
    out->loopback = ntohl(v4.s_addr) >> 24 == 127;
    return true;
}

int listen_parse(struct listen_address *out, const char *text, struct error *err)
{
    struct listen_address address = { 0 };
    const bool bracketed = text[0] == '[';
    const char *host = bracketed ? text + 1 : text;
    const char *end = bracketed ? strstr(host, "]:") : strchr(host, ':');
    const size_t length = end ? (size_t)(end - host) : sizeof address.host;
    if (length < sizeof address.host) {
        memcpy(address.host, host, length);
        if (parse_port(end + (bracketed ? 2 : 1), &address.port) &&
            parse_host(&address, bracketed)) {
            *out = address;
            return 0;
        }
    }
    return error_set(err, ERR_CONFIG,
                     "\"%s\" is not HOST:PORT with a numeric address, as 127.0.0.1:8080 or "
                     "[::1]:8080",
                     text);
}

void listen_print(const struct listen_address *address, uint16_t port, char text[static 80])
{
    const bool v6 = strchr(address->host, ':');
    snprintf(text, 80, v6 ? "[%s]:%u" : "%s:%u", address->host, (unsigned)port);
}

size_t listen_peers(const struct listen_address *address,
                    struct listen_address peers[static LISTEN_PEERS_MAX])
{
    struct in_addr v4;
    struct in6_addr v6;
    peers[0] = peers[1] = *address;
    if (inet_pton(AF_INET, address->host, &v4) == 1) {
        if (v4.s_addr == htonl(INADDR_ANY))
            strcpy(peers[0].host, "127.0.0.1");
        return 1;
    }
    inet_pton(AF_INET6, address->host, &v6);
    if (!IN6_IS_ADDR_UNSPECIFIED(&v6))
        return 1;
    strcpy(peers[0].host, "::1");
    strcpy(peers[1].host, "127.0.0.1");
    return 2;
}

socklen_t listen_socket_address(const struct listen_address *address,
                                struct sockaddr_storage *socket_address)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(address->port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(address->port) };
    memset(socket_address, 0, sizeof *socket_address);
    if (inet_pton(AF_INET, address->host, &v4.sin_addr) == 1) {
        memcpy(socket_address, &v4, sizeof v4);
        return sizeof v4;
    }
    inet_pton(AF_INET6, address->host, &v6.sin6_addr);
    memcpy(socket_address, &v6, sizeof v6);
    return sizeof v6;
}
