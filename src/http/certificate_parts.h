/* certificate_parts.h — for the connections that show a certificate. */
#ifndef HTTP_CERTIFICATE_PARTS_H
#define HTTP_CERTIFICATE_PARTS_H

#include <gnutls/gnutls.h>
#include <stdbool.h>

#include "http/certificate.h"

/* Has `session`, which has not begun to shake hands, show the certificate.  The session is gone
 * before the certificate is closed.  False: no memory. */
bool certificate_show(const struct certificate *certificate, gnutls_session_t session);

#endif
