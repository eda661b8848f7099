#include "http/tls_client.h"

#include <gnutls/x509.h>
#include <poll.h>

#include "base/clock.h"
#include "base/mem.h"

struct tls_client {
    int fd;
    uint64_t deadline_ns;
    gnutls_certificate_credentials_t credentials; /* none: a session needs them all the same */
    gnutls_session_t session;
};

/* After `code`, the library's: whether to call again, since the socket is ready or will be. */
static bool again(const struct tls_client *client, ssize_t code)
{
    if (code >= 0 || gnutls_error_is_fatal((int)code))
        return false;
    const uint64_t now_ns = clock_ns();
    if (now_ns >= client->deadline_ns)
        return false;
    if (code != GNUTLS_E_AGAIN)
        return true;
    struct pollfd poller = {
        .fd = client->fd,
        .events = gnutls_record_get_direction(client->session) ? POLLOUT : POLLIN,
    };
    return poll(&poller, 1, (int)((client->deadline_ns - now_ns) / NS_PER_MS) + 1) > 0;
}

static int shake_hands(struct tls_client *client)
{
    int code = gnutls_certificate_allocate_credentials(&client->credentials);
    if (code == 0)
        code = gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (code == 0)
        code = gnutls_set_default_priority(client->session);
    if (code == 0)
        code = gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    if (code < 0)
        return code;
    gnutls_transport_set_int(client->session, client->fd);
    do
        code = gnutls_handshake(client->session);
    while (again(client, code));
    return code;
}

int tls_client_open(struct tls_client **out, int fd, uint64_t deadline_ns, struct error *err)
{
    *out = NULL;
    struct tls_client *client = mem_alloc(1, sizeof *client);
    if (!client)
        return error_set(err, ERR_NO_MEMORY, "no memory for TLS");
    *client = (struct tls_client){ .fd = fd, .deadline_ns = deadline_ns };
    const int code = shake_hands(client);
    if (code == 0) {
        *out = client;
        return 0;
    }
    tls_client_close(&client);
    return error_set(err, ERR_IO, "no TLS: %s",
                     code == GNUTLS_E_AGAIN ? "no answer in time" : gnutls_strerror(code));
}

void tls_client_close(struct tls_client **in)
{
    struct tls_client *client = *in;
    *in = NULL;
    if (!client)
        return;
    if (client->session)
        gnutls_deinit(client->session);
    if (client->credentials)
        gnutls_certificate_free_credentials(client->credentials);
    mem_free(client);
}

/* The first certificate of the file in the form that goes over the wire; the caller frees. */
static bool read_first(gnutls_datum_t *wire, const char *file)
{
    gnutls_datum_t text = { 0 };
    gnutls_x509_crt_t first = NULL;
    const bool is_read = gnutls_load_file(file, &text) == 0 && gnutls_x509_crt_init(&first) == 0 &&
                         gnutls_x509_crt_import(first, &text, GNUTLS_X509_FMT_PEM) == 0 &&
                         gnutls_x509_crt_export2(first, GNUTLS_X509_FMT_DER, wire) == 0;
    gnutls_x509_crt_deinit(first);
    gnutls_free(text.data);
    return is_read;
}

bool tls_client_sees(const struct tls_client *client, const char *certificate_file)
{
    unsigned count = 0;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(client->session, &count);
    gnutls_datum_t wire = { 0 };
    const bool same = shown && count > 0 && read_first(&wire, certificate_file) &&
                      wire.size == shown[0].size &&
                      gnutls_memcmp(wire.data, shown[0].data, wire.size) == 0;
    gnutls_free(wire.data);
    return same;
}

ssize_t tls_client_send(struct tls_client *client, const void *bytes, size_t count)
{
    ssize_t code;
    do
        code = gnutls_record_send(client->session, bytes, count);
    while (again(client, code));
    return code;
}

ssize_t tls_client_receive(struct tls_client *client, void *bytes, size_t count)
{
    ssize_t code;
    do
        code = gnutls_record_recv(client->session, bytes, count);
    while (again(client, code));
    return code;
}
