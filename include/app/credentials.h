/* credentials.h — the files of a configuration that say who may ask and who answers: API keys, and
 * a certificate with its key. */
#ifndef APP_CREDENTIALS_H
#define APP_CREDENTIALS_H

#include "app/configuration.h"
#include "http/certificate.h"
#include "http/keys.h"

struct credentials {
    struct keys *keys;               /* NULL: everyone may ask */
    struct certificate *certificate; /* NULL: no TLS */
};

/* Reads what the configuration names; on failure nothing is open.
 * Errors: those of keys_open() and certificate_open(). */
int credentials_open(struct credentials *credentials, const struct configuration *config,
                     struct error *err);
void credentials_close(struct credentials *credentials);

#endif
