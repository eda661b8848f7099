/* buffer.h — bytes that grow up to a limit.  Failure is sticky: append as much as you like, ask
 * once. One thread at a time. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

enum buffer_state { BUFFER_OK, BUFFER_OVER_LIMIT, BUFFER_NO_MEMORY };

struct buffer {
    char *data; /* `length` bytes, then a NUL; NULL while nothing was appended */
    size_t length;
    size_t capacity;
    size_t limit; /* bytes that `length` may reach */
    enum buffer_state state;
};

void buffer_init(struct buffer *buffer, size_t limit);
void buffer_free(struct buffer *buffer);

void buffer_append(struct buffer *buffer, const void *bytes, size_t count);
void buffer_text(struct buffer *buffer, const char *text);
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Room for `count` more bytes at the returned place, NULL on failure; buffer_added() says how many
 * were written there. */
char *buffer_room(struct buffer *buffer, size_t count);
void buffer_added(struct buffer *buffer, size_t count);

/* The bytes, now the caller's to mem_free(); the buffer is empty again.  NULL if it failed. */
char *buffer_take(struct buffer *buffer, size_t *length);

#endif
