/* probes.h — what GET answers: probes, /metrics and the loaded models.  Any thread; never waits. */
#ifndef HTTP_PROBES_H
#define HTTP_PROBES_H

#include "admission.h"
#include "reply.h"

/* Fills status, body and type.  The models are loaded if the route is about them.
 * Errors: ERR_NO_MODEL; the reply is then empty. */
int probes_answer(struct reply *reply, const struct server *server, const struct service *service,
                  const struct admission *admission, struct error *err);

#endif
