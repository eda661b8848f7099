/* writer.h — JSON text, written straight into a buffer.
 *
 * Commas are the writer's.  Bytes that are not UTF-8 become U+FFFD.  Nothing here fails on the
 * spot: a NaN or an infinity sets `nonfinite`, a full buffer its own state; ask once at the end.
 * One thread at a time. */
#ifndef HTTP_WRITER_H
#define HTTP_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct writer {
    struct buffer *out;
    bool comma;     /* the next value needs one in front */
    bool nonfinite; /* a number had no JSON text: what was written is no answer */
};

void writer_begin(struct writer *writer, char bracket); /* '{' or '[' */
void writer_end(struct writer *writer, char bracket);   /* '}' or ']' */
void writer_key(struct writer *writer, const char *name);

void writer_null(struct writer *writer);
void writer_bool(struct writer *writer, bool value);
void writer_integer(struct writer *writer, int64_t value);
void writer_float(struct writer *writer, float value);
void writer_ms(struct writer *writer, uint64_t ns);        /* milliseconds, to the microsecond */
void writer_text(struct writer *writer, const char *text); /* NULL: null */

void writer_ids(struct writer *writer, const int32_t *ids, size_t count);
void writer_floats(struct writer *writer, const float *values, size_t count);
/* Nested arrays of the given shape, row-major; `rank` ≥ 1. */
void writer_tensor(struct writer *writer, const float *values, const size_t *shape, size_t rank);
/* A string: base64 of the values as little-endian float32. */
void writer_base64(struct writer *writer, const float *values, size_t count);
size_t writer_base64_bytes(size_t count);

#endif
