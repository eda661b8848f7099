/* admission.h — what the head of a request must be, before its body is looked at.  Any thread. */
#ifndef HTTP_ADMISSION_H
#define HTTP_ADMISSION_H

#include "cors.h"
#include "quotas.h"
#include "routes.h"
#include "server_state.h"

/* The first line of a request, and where its headers are. */
struct request_head {
    struct MHD_Connection *connection;
    const char *path, *method;
};

struct admission {
    const struct route *route; /* NULL: none has that path */
    const char *name;          /* of a model in the path, borrowed from it */
    struct cors cors;
    const struct key *key;    /* the client's, of the service; NULL: none was needed */
    struct quota_share share; /* of what the client may do at once; for quotas_release() */
    unsigned retry_after_s;   /* ERR_TOO_OFTEN: when there is room again; else 0 */
    bool small_body;          /* it is let in whatever the bodies of others take */
    /* The answer cannot wait for the body: it is too long, or it is not clear where it ends, or the
     * client waits for a word before it sends any. */
    bool at_once;
};

/* `admission->name` points into head->path.
 * Errors: ERR_NO_KEY, ERR_WRONG_KEY, ERR_FORBIDDEN, ERR_NO_ROUTE, ERR_METHOD, ERR_MEDIA_TYPE,
 * ERR_OVER_LIMIT, ERR_UNSUPPORTED, ERR_TOO_OFTEN, ERR_BUSY. */
int admission_check(struct admission *admission, const struct server *server,
                    const struct service *service, const struct request_head *head,
                    struct error *err);

/* −1 with ERR_BUSY, counted: the bodies of other requests leave no room for this one. */
int admission_no_room(const struct server *server, const struct limits *limits, struct error *err);

/* True if the value of a Host header is an address, localhost, or one of the NULL-terminated names.
 */
bool admission_host_is_known(const char *host, char *const *names);

#endif
