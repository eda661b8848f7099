/* admission.h — what the head of a request must be, before its body is looked at.  Any thread. */
#ifndef HTTP_ADMISSION_H
#define HTTP_ADMISSION_H

#include "routes.h"
#include "server_state.h"

struct admission {
    const struct route *route; /* NULL: none has that path */
    const char *name;          /* of a model in the path, borrowed from it */
    /* The answer cannot wait for the body: it is too long, or it is not clear where it ends, or the
     * client waits for a word before it sends any. */
    bool at_once;
};

/* Errors: ERR_FORBIDDEN, ERR_NO_ROUTE, ERR_METHOD, ERR_MEDIA_TYPE, ERR_OVER_LIMIT, ERR_UNSUPPORTED,
 * ERR_BUSY. */
int admission_check(struct admission *admission, const struct server *server,
                    const struct service *service, struct MHD_Connection *connection,
                    const char *path, const char *method, struct error *err);

/* −1 with ERR_BUSY: the bodies of other requests leave no room for this one. */
int admission_no_room(const struct limits *limits, struct error *err);

/* True if the value of a Host header is an address, localhost, or one of the NULL-terminated names.
 */
bool admission_host_is_known(const char *host, char *const *names);

#endif
