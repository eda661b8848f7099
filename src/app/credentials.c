#include "app/credentials.h"

int credentials_open(struct credentials *credentials, const struct configuration *config,
                     struct error *err)
{
    const char *keys = config->server.keys_file, *certificate = config->server.tls_certificate;
    *credentials = (struct credentials){ 0 };
    if ((*keys && keys_open(&credentials->keys, keys, err) < 0) ||
        (*certificate && certificate_open(&credentials->certificate, certificate,
                                          config->server.tls_key, err) < 0)) {
        credentials_close(credentials);
        return -1;
    }
    return 0;
}

void credentials_close(struct credentials *credentials)
{
    keys_close(&credentials->keys);
    certificate_close(&credentials->certificate);
}
