/* reply.h — one answer on its way out. */
#ifndef HTTP_REPLY_H
#define HTTP_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "cors.h"
#include "error_table.h"

struct reply {
    unsigned status;
    struct buffer body;       /* owned, until reply_send() */
    const char *content_type; /* NULL: JSON */
    const char *allow;        /* NULL: no such header */
    bool retry_later, never_retry, close;
    struct cors cors;
    bool wants_key;         /* WWW-Authenticate */
    unsigned retry_after_s; /* with retry_later; 0: 1 */
};

/* Queues the reply with `request_id` in its head and takes the body.  A body that failed for want
 * of memory is replaced by a 503. */
enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection,
                           const char *request_id);

/* Makes *reply the one for that error; a body it had is freed. */
void reply_error(struct reply *reply, const struct error *error);

#endif
