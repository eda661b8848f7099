/* keys.h — the API keys whose holders may use the daemon, read from a file.
 *
 * One key a line, perhaps after a label, "LABEL: KEY"; empty lines and those that begin with # are
 * passed over.  A key is 16 to 128 visible ASCII characters without a colon.  No message, no log
 * and no metric has a key.  Const once open: any thread. */
#ifndef HTTP_KEYS_H
#define HTTP_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { KEY_BYTES_MIN = 16, KEY_BYTES_MAX = 128, KEY_LABEL_BYTES_MAX = 64, KEYS_MAX = 1024 };

struct keys;

struct key {
    char label[KEY_LABEL_BYTES_MAX + 1]; /* for the log; "": none */
    uint64_t identity;                   /* the same for the same key in every reading */
};

/* The file must be a regular one, have a key, and not be readable or writable by everyone.
 * Errors: ERR_CONFIG names file and line, ERR_NO_MEMORY. */
int keys_open(struct keys **out, const char *path, struct error *err);
/* The memory of the keys is overwritten first.  *keys may be NULL. */
void keys_close(struct keys **keys);

size_t keys_count(const struct keys *keys);

/* The key that is these bytes; NULL: none.  Every key is compared over all its bytes, so that the
 * time says nothing about how much of one was right. */
const struct key *keys_find(const struct keys *keys, const char *text, size_t length);

#endif
