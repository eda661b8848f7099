/* service.h — what requests are answered from: the models, and what one reading of the
 * configuration allows.
 *
 * A daemon that reads its configuration again makes a new service; a request uses to its end the
 * one that was the server's when its head arrived.  Const, but for the atomics. */
#ifndef HTTP_SERVICE_H
#define HTTP_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "http/certificate.h"
#include "http/keys.h"
#include "serve/registry.h"

struct service {
    const struct limits *limits;
    char *const *hosts;   /* names a Host header may carry on loopback; NULL-terminated, or NULL */
    char *const *origins; /* of pages that may ask, perhaps "*"; NULL-terminated, or NULL */
    const struct keys *keys;                   /* who may ask; NULL: everyone */
    struct certificate *certificate;           /* for connections that begin; NULL: no TLS */
    bool metrics_public;                       /* /metrics asks for no key */
    bool log_access, log_client_address;       /* a line for each request; with who asked */
    _Atomic(const struct registry *) registry; /* NULL while the models are being loaded */
    atomic_size_t users;                       /* requests that are answered from it */
};

#endif
