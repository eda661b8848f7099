/* kit_client.h — a keep-alive HTTP connection to a daemon on the loopback.  One thread at a time.
 */
#ifndef KIT_CLIENT_H
#define KIT_CLIENT_H

#include <jansson.h>
#include <stddef.h>

struct kit_client;

/* Once, before any client and any thread. */
void kit_client_setup(void);

struct kit_client *kit_client_open(int port); /* NULL: it failed */
void kit_client_close(struct kit_client *client);

/* POSTs a JSON body.  The answer, for the caller to json_decref(), if the status is 200; else NULL
 * and the reason in `why`. */
json_t *kit_client_post(struct kit_client *client, const char *path, const char *body, char *why,
                        size_t why_bytes);

#endif
