#include <errno.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "certificate_parts.h"

struct certificate {
    gnutls_certificate_credentials_t credentials;
    atomic_size_t holders;
};

/* The certificates of the PEM file, the server's own first. */
struct chain {
    gnutls_x509_crt_t *certificates; /* (count), the library's memory */
    unsigned count;
};

static int refuse(const char *file, int code, struct error *err)
{
    if (code == GNUTLS_E_MEMORY_ERROR)
        return error_set(err, ERR_NO_MEMORY, "no memory for %s", file);
    return error_set(err, ERR_IO, "%s: %s", file, gnutls_strerror(code));
}

/* The bytes are for forget(), which leaves no key behind. */
static int load(gnutls_datum_t *bytes, const char *file, struct error *err)
{
    errno = 0;
    const int code = gnutls_load_file(file, bytes);
    if (code == GNUTLS_E_FILE_ERROR && errno)
        return error_set(err, ERR_IO, "%s: %s", file, strerror(errno));
    return code < 0 ? refuse(file, code, err) : 0;
}

static void forget(gnutls_datum_t *bytes)
{
    if (bytes->data)
        gnutls_memset(bytes->data, 0, bytes->size);
    gnutls_free(bytes->data);
}

static int read_chain(struct chain *chain, const char *file, struct error *err)
{
    gnutls_datum_t bytes = { 0 };
    if (load(&bytes, file, err) < 0)
        return -1;
    const int code = gnutls_x509_crt_list_import2(&chain->certificates, &chain->count, &bytes,
                                                  GNUTLS_X509_FMT_PEM, 0);
    forget(&bytes);
    if (code < 0)
        return refuse(file, code, err);
    if (gnutls_x509_crt_get_expiration_time(chain->certificates[0]) < time(NULL))
        log_write(LOG_WARNING, "%s: the certificate is no longer valid", file);
    return 0;
}

static void free_chain(struct chain *chain)
{
    for (unsigned i = 0; i < chain->count; i++)
        gnutls_x509_crt_deinit(chain->certificates[i]);
    gnutls_free(chain->certificates);
}

static int read_key(gnutls_x509_privkey_t key, const char *file, struct error *err)
{
    gnutls_datum_t bytes = { 0 };
    if (load(&bytes, file, err) < 0)
        return -1;
    const int code = gnutls_x509_privkey_import2(key, &bytes, GNUTLS_X509_FMT_PEM, NULL, 0);
    forget(&bytes);
    return code < 0 ? refuse(file, code, err) : 0;
}

static int read_pair(gnutls_certificate_credentials_t credentials, gnutls_x509_privkey_t key,
                     const char *certificate_file, const char *key_file, struct error *err)
{
    struct chain chain = { 0 };
    if (read_chain(&chain, certificate_file, err) < 0 || read_key(key, key_file, err) < 0) {
        free_chain(&chain);
        return -1;
    }
    /* It keeps copies. */
    const int code =
        gnutls_certificate_set_x509_key(credentials, chain.certificates, (int)chain.count, key);
    free_chain(&chain);
    if (code == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        return error_set(err, ERR_IO, "%s is not the key of the certificate %s", key_file,
                         certificate_file);
    return code < 0 ? refuse(certificate_file, code, err) : 0;
}

int certificate_open(struct certificate **out, const char *certificate_file, const char *key_file,
                     struct error *err)
{
    *out = NULL;
    struct certificate *certificate = mem_alloc(1, sizeof *certificate);
    if (!certificate)
        return error_set(err, ERR_NO_MEMORY, "no memory for %s", certificate_file);
    certificate->holders = 1;
    gnutls_x509_privkey_t key = NULL;
    int code = gnutls_certificate_allocate_credentials(&certificate->credentials);
    if (code == 0)
        code = gnutls_x509_privkey_init(&key);
    const int result =
        code < 0 ? refuse(certificate_file, code, err)
                 : read_pair(certificate->credentials, key, certificate_file, key_file, err);
    gnutls_x509_privkey_deinit(key);
    if (result < 0)
        certificate_close(&certificate);
    *out = certificate;
    return result;
}

struct certificate *certificate_share(struct certificate *certificate)
{
    if (certificate)
        atomic_fetch_add(&certificate->holders, 1);
    return certificate;
}

void certificate_close(struct certificate **in)
{
    struct certificate *certificate = *in;
    *in = NULL;
    if (!certificate || atomic_fetch_sub(&certificate->holders, 1) != 1)
        return;
    if (certificate->credentials)
        gnutls_certificate_free_credentials(certificate->credentials);
    mem_free(certificate);
}

bool certificate_show(const struct certificate *certificate, gnutls_session_t session)
{
    return gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, certificate->credentials) == 0;
}
