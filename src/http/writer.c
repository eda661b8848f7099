#include "http/writer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "float_text.h"

static void comma(struct writer *writer)
{
    if (writer->comma)
        buffer_append(writer->out, ",", 1);
    writer->comma = true;
}

void writer_begin(struct writer *writer, char bracket)
{
    comma(writer);
    buffer_append(writer->out, &bracket, 1);
    writer->comma = false;
}

void writer_end(struct writer *writer, char bracket)
{
    buffer_append(writer->out, &bracket, 1);
    writer->comma = true;
}

void writer_key(struct writer *writer, const char *name)
{
    writer_text(writer, name);
    buffer_append(writer->out, ":", 1);
    writer->comma = false;
}

void writer_null(struct writer *writer)
{
    comma(writer);
    buffer_text(writer->out, "null");
}

void writer_bool(struct writer *writer, bool value)
{
    comma(writer);
    buffer_text(writer->out, value ? "true" : "false");
}

/* `value` in decimal; returns the length, at most 20. */
static size_t integer_text(char *out, int64_t value)
{
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char reversed[20];
    size_t n = 0;
    do {
        reversed[n++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    size_t length = 0;
    if (value < 0)
        out[length++] = '-';
    while (n)
        out[length++] = reversed[--n];
    return length;
}

void writer_integer(struct writer *writer, int64_t value)
{
    comma(writer);
    char text[21];
    buffer_append(writer->out, text, integer_text(text, value));
}

void writer_float(struct writer *writer, float value)
{
    if (!isfinite(value)) {
        writer->nonfinite = true;
        return;
    }
    comma(writer);
    char *room = buffer_room(writer->out, FLOAT_TEXT_MAX);
    if (room)
        buffer_added(writer->out, float_text(room, value));
}

void writer_ms(struct writer *writer, uint64_t ns)
{
    comma(writer);
    const uint64_t us = ns / 1000;
    buffer_printf(writer->out, "%llu.%03llu", (unsigned long long)(us / 1000),
                  (unsigned long long)(us % 1000));
}

void writer_text(struct writer *writer, const char *text)
{
    if (!text) {
        writer_null(writer);
        return;
    }
    comma(writer);
    struct buffer *out = writer->out;
    buffer_append(out, "\"", 1);
    while (*text) {
        const unsigned char first = (unsigned char)*text;
        const size_t bytes = utf8_bytes(text);
        if (first == '"' || first == '\\')
            buffer_printf(out, "\\%c", first);
        else if (first < 0x20)
            buffer_printf(out, "\\u%04x", first);
        else if (bytes)
            buffer_append(out, text, bytes);
        else
            buffer_text(out, "\xef\xbf\xbd");
        text += bytes ? bytes : 1;
    }
    buffer_append(out, "\"", 1);
}

void writer_ids(struct writer *writer, const int32_t *ids, size_t count)
{
    writer_begin(writer, '[');
    for (size_t i = 0; i < count; i++)
        writer_integer(writer, ids[i]);
    writer_end(writer, ']');
}

void writer_floats(struct writer *writer, const float *values, size_t count)
{
    writer_begin(writer, '[');
    for (size_t i = 0; i < count; i++)
        writer_float(writer, values[i]);
    writer_end(writer, ']');
}

void writer_tensor(struct writer *writer, const float *values, const size_t *shape, size_t rank)
{
    if (rank == 1) {
        writer_floats(writer, values, shape[0]);
        return;
    }
    size_t stride = 1;
    for (size_t i = 1; i < rank; i++)
        stride *= shape[i];
    writer_begin(writer, '[');
    for (size_t i = 0; i < shape[0]; i++)
        writer_tensor(writer, values + i * stride, shape + 1, rank - 1);
    writer_end(writer, ']');
}

size_t writer_base64_bytes(size_t count)
{
    return (count * sizeof(float) + 2) / 3 * 4;
}

/* The three bytes from `at` of the little-endian values, as one number; zeros behind the end. */
static uint32_t three_bytes(const float *values, size_t count, size_t at)
{
    uint32_t group = 0;
    for (size_t i = at; i < at + 3; i++) {
        uint32_t bits = 0;
        if (i / 4 < count)
            memcpy(&bits, &values[i / 4], sizeof bits);
        group = group << 8 | (bits >> 8 * (i % 4) & 0xff);
    }
    return group;
}

void writer_base64(struct writer *writer, const float *values, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            writer->nonfinite = true;
    comma(writer);
    const size_t bytes = count * sizeof *values, length = writer_base64_bytes(count);
    char *out = buffer_room(writer->out, length + 2);
    if (!out)
        return;
    out[0] = out[length + 1] = '"';
    char *next = out + 1;
    for (size_t at = 0; at < bytes; at += 3) {
        const uint32_t group = three_bytes(values, count, at);
        *next++ = digits[group >> 18];
        *next++ = digits[group >> 12 & 63];
        *next++ = at + 1 < bytes ? digits[group >> 6 & 63] : '=';
        *next++ = at + 2 < bytes ? digits[group & 63] : '=';
    }
    buffer_added(writer->out, length + 2);
}
