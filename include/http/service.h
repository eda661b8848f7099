/* service.h — what requests are answered from: the models, and what one reading of the
 * configuration allows.
 *
 * A daemon that reads its configuration again makes a new service; a request uses to its end the
 * one that was the server's when its head arrived.  Const, but for the atomics. */
#ifndef HTTP_SERVICE_H
#define HTTP_SERVICE_H

#include <stdatomic.h>

#include "http/certificate.h"
#include "serve/registry.h"

struct service {
    const struct limits *limits;
    char *const *hosts; /* names a Host header may carry on loopback; NULL-terminated, or NULL */
    struct certificate *certificate;           /* for connections that begin; NULL: no TLS */
    _Atomic(const struct registry *) registry; /* NULL while the models are being loaded */
    atomic_size_t users;                       /* requests that are answered from it */
};

#endif
