/* json.h — jansson with the daemon's rules, for model files here and for requests in http.
 *
 * Strict: duplicate keys, NaN, bytes after the end, bad UTF-8 and nesting beyond the library's 2048
 * are errors with line and column. */
#ifndef MODEL_JSON_H
#define MODEL_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "base/value.h"

/* Parses `bytes`.  NULL on failure: `code` (ERR_BAD_JSON for requests, ERR_BAD_MODEL for model
 * files) with `what`, line and column in the message.  The caller owns one reference. */
json_t *json_parse(const char *bytes, size_t count, const char *what, enum error_code code,
                   struct error *err);

/* The same for untrusted texts, with at most about `heap_max` bytes of memory: small values take
 * up to 80 times their text. */
json_t *json_parse_within(const char *bytes, size_t count, size_t heap_max, const char *what,
                          enum error_code code, struct error *err);

/* Parses the file DIR/NAME of at most `limit_bytes` (model/file.h), with memory of about 16 times
 * that at most.  A file that is not there gives NULL and leaves *err alone; other failures are
 * ERR_IO, ERR_BAD_MODEL and ERR_NO_MEMORY. */
json_t *json_read_file(const char *dir, const char *name, size_t limit_bytes, struct error *err);

/* *value = json, deeply copied; an object becomes VALUE_OBJECT without content.  Errors:
 * ERR_NO_MEMORY, and ERR_OUT_OF_RANGE for lists nested deeper than 8. */
int json_to_value(const json_t *json, struct value *value, struct error *err);

#endif
