#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void buffer_init(struct buffer *buffer, size_t limit)
{
    *buffer = (struct buffer){ .limit = limit };
}

void buffer_free(struct buffer *buffer)
{
    mem_free(buffer->data);
    buffer_init(buffer, buffer->limit);
}

char *buffer_room(struct buffer *buffer, size_t count)
{
    if (buffer->state != BUFFER_OK)
        return NULL;
    if (count > buffer->limit - buffer->length) {
        buffer->state = BUFFER_OVER_LIMIT;
        return NULL;
    }
    const size_t needed = buffer->length + count + 1;
    if (needed > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity * 2 : 512;
        if (capacity < needed)
            capacity = needed;
        char *data = mem_resize(buffer->data, capacity, 1);
        if (!data) {
            buffer->state = BUFFER_NO_MEMORY;
            return NULL;
        }
        buffer->data = data;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->length;
}

void buffer_added(struct buffer *buffer, size_t count)
{
    buffer->length += count;
    buffer->data[buffer->length] = '\0';
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t count)
{
    char *room = buffer_room(buffer, count);
    if (!room)
        return;
    if (count)
        memcpy(room, bytes, count);
    buffer_added(buffer, count);
}

void buffer_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int count = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *room = count < 0 ? NULL : buffer_room(buffer, (size_t)count);
    if (!room)
        return;
    va_start(args, format);
    vsnprintf(room, (size_t)count + 1, format, args);
    va_end(args);
    buffer_added(buffer, (size_t)count);
}

char *buffer_take(struct buffer *buffer, size_t *length)
{
    char *data = NULL;
    if (buffer->state == BUFFER_OK) {
        *length = buffer->length;
        data = buffer->data;
        buffer->data = NULL;
    }
    buffer_free(buffer);
    return data;
}
