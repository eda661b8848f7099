/* error_table.h — what each error is in HTTP: status, JSON type and code, headers.  Const. */
#ifndef HTTP_ERROR_TABLE_H
#define HTTP_ERROR_TABLE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

struct error_row {
    unsigned status;
    const char *type;
    const char *code;
    bool retry_later; /* Retry-After */
    bool never_retry; /* x-should-retry: false */
};

const struct error_row *error_table_row(enum error_code code);

/* Appends {"error": {"type", "code", "param", "message"}}. */
void error_table_write(struct buffer *out, const struct error *error);

#endif
