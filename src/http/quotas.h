/* quotas.h — how often one client may ask, and how much at once.
 *
 * A bounded table of clients, each with a bucket of tokens and a count of its requests.  A client
 * has a place among few, chosen by its identity and a secret; the one that has been idle longest
 * makes room for a new one.  One that finds all places busy is let in without being counted:
 * the table bounds what a client can do, not how many clients there are.
 *
 * Threads: any.  The lock is a leaf; under it there is only a look at the few places. */
#ifndef HTTP_QUOTAS_H
#define HTTP_QUOTAS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

enum { QUOTA_SETS = 1024, QUOTA_WAYS = 8 };

struct quotas;

struct client {
    uint64_t high, low;
};
struct client client_of_key(uint64_t identity);
/* An IPv6 client is its /64, all of which one machine can have.  NULL: one client for all. */
struct client client_of_address(const struct sockaddr *address);

struct quota {
    uint64_t requests_per_second; /* in the long run; 0: any number */
    uint64_t burst;               /* at once after a pause; ≥ 1 */
    uint64_t concurrency;         /* between quotas_take() and quotas_release(); 0: any number */
};

/* A counted request of a client; all zero: none. */
struct quota_share {
    struct quota_place *place;
};

/* Errors: ERR_NO_MEMORY. */
int quotas_create(struct quotas **out, struct error *err);
void quotas_destroy(struct quotas **quotas);

/* One more request at `now_ns`.  It may be taken from another `quota` than the one before.
 * Errors: ERR_TOO_OFTEN, with the seconds until there is room in *retry_after_s; nothing is counted
 * then. */
int quotas_take(struct quotas *quotas, struct client client, const struct quota *quota,
                uint64_t now_ns, struct quota_share *share, unsigned *retry_after_s,
                struct error *err);
void quotas_release(struct quotas *quotas, struct quota_share *share);

#endif
