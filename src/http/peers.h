/* peers.h — the open connections, and the thread that looks after what libmicrohttpd does not see.
 *
 *   - A request that is not complete at its deadline: the library's timeout starts again with every
 * byte, so a slow client could keep a connection for ever.  The connection is shut down.
 *   - A client that leaves while its connection is suspended: its request is cancelled.
 *   - A client that is still sending when its answer, an early refusal, has left: closing at once
 * would make its kernel drop the answer unread, so what it sends is read and thrown away for a
 * moment.
 *
 * Threads: any.  The lock guards the list and every peer; it is a leaf.  Under it there are only
 * system calls that do not wait, and the thread's look at all peers, every 50 ms while there are
 * any. */
#ifndef HTTP_PEERS_H
#define HTTP_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/request.h"

struct peers;
struct peer;

#define PEERS_NO_DEADLINE UINT64_MAX

/* Errors: ERR_NO_MEMORY. */
int peers_start(struct peers **out, struct error *err);
/* Every peer has been removed.  *peers may be NULL. */
void peers_stop(struct peers **peers);

/* A connection, from its accept to just before the library closes `fd`.  NULL: no memory. */
struct peer *peers_add(struct peers *peers, int fd, uint64_t deadline_ns);
void peers_remove(struct peers *peers, struct peer *peer);

/* When the next whole request must be there; PEERS_NO_DEADLINE: none is awaited. */
void peers_expect(struct peers *peers, struct peer *peer, uint64_t deadline_ns);

/* The request to cancel when the client leaves; NULL: none.  After that the request is not touched.
 */
void peers_watch(struct peers *peers, struct peer *peer, struct request *request);

/* Whether the client has left. */
bool peers_has_left(struct peers *peers, const struct peer *peer);

/* The answer leaves before the request is read. */
void peers_linger(struct peers *peers, struct peer *peer);

#endif
