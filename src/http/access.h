/* access.h — who asks: ids of requests, the access log, and metrics of requests.  Any thread. */
#ifndef HTTP_ACCESS_H
#define HTTP_ACCESS_H

#include "exchange.h"

/* Fills id, traceparent and, if it is logged, the client's address from the head of the request.
 */
void access_identify(struct exchange *exchange);

/* The method if it is one that HTTP has, else "other": a label must come from a closed set. */
const char *access_method(const char *method);

/* Makes the series that alerts look at, so that they are 0 before anything happens: answers of
 * model routes, and how long those of each model (NULL: none yet) took. */
void access_prepare(struct metrics *metrics);
void access_prepare_models(struct metrics *metrics, const struct registry *registry);

/* One more answered request, and how long an accepted one took. */
void access_count(const struct exchange *exchange);
void access_observe(const struct exchange *exchange);

/* One line, if the service logs them; of probes at debug level.  Never tokens or texts, and a path
 * only where it is no route. */
void access_log(const struct exchange *exchange);

#endif
