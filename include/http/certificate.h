/* certificate.h — a certificate with its key, as TLS shows it.
 *
 * Counted: who began a connection with it holds it to the connection's end, whatever the
 * configuration says by then.  Const but for the count; any thread. */
#ifndef HTTP_CERTIFICATE_H
#define HTTP_CERTIFICATE_H

#include "base/error.h"

struct certificate;

/* Reads two PEM files: the certificate, its issuers after it, and its key.  One that is no longer
 * valid is taken, with a warning.  Errors: ERR_IO names the file and what is wrong with it, also
 * when the two do not belong together; ERR_NO_MEMORY. */
int certificate_open(struct certificate **out, const char *certificate_file, const char *key_file,
                     struct error *err);

/* One more holder; returns its argument, which may be NULL. */
struct certificate *certificate_share(struct certificate *certificate);
/* One less; the last one frees.  *certificate may be NULL. */
void certificate_close(struct certificate **certificate);

#endif
