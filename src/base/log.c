#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

enum { STALL_MS = 100 };

static _Atomic enum log_level lowest = LOG_INFO;
static _Atomic uint64_t dropped;

static struct {
    void (*take)(void *context, const char *message); /* NULL: stderr does */
    void *context;
} diverted;

static const char *const level_names[] = { "debug", "info", "warning", "error" };

void log_set_level(enum log_level level)
{
    lowest = level;
}

enum log_level log_level(void)
{
    return lowest;
}

void log_divert(void (*take)(void *context, const char *message), void *context)
{
    diverted.take = take;
    diverted.context = context;
}

/* The character at `value` as it stands in a JSON string; returns how many bytes it had.  Controls
 * are escaped, also those of C1, which terminals obey; what is no UTF-8 becomes U+FFFD. */
static size_t escape_character(char out[8], const char *value)
{
    const unsigned char c = (unsigned char)value[0];
    const size_t bytes = utf8_bytes(value);
    if (c == '"' || c == '\\')
        snprintf(out, 8, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
        snprintf(out, 8, "\\u%04x", c);
    else if (bytes == 0)
        snprintf(out, 8, "\\ufffd");
    else if (c == 0xc2 && (unsigned char)value[1] < 0xa0)
        snprintf(out, 8, "\\u%04x", (unsigned char)value[1]);
    else
        snprintf(out, 8, "%.*s", (int)bytes, value);
    return bytes ? bytes : 1;
}

/* `value` as the inside of a JSON string, cut at a character where it is too long. */
static void escape(char *out, size_t room, const char *value)
{
    size_t n = 0;
    while (*value) {
        char piece[8];
        value += escape_character(piece, value);
        const size_t length = strlen(piece);
        if (n + length >= room)
            break;
        memcpy(out + n, piece, length);
        n += length;
    }
    out[n] = '\0';
}

/* Appends a whole field or nothing; two bytes stay free for "}\n". */
static void add(struct log_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add(struct log_line *line, const char *format, ...)
{
    const size_t room = sizeof line->text - 3 - line->length;
    va_list args;
    va_start(args, format);
    const int count = vsnprintf(line->text + line->length, room, format, args);
    va_end(args);
    if (count >= 0 && (size_t)count < room)
        line->length += (size_t)count;
    line->text[line->length] = '\0';
}

void log_begin(struct log_line *line, enum log_level level, const char *message)
{
    line->level = level;
    line->length = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    add(line, "{\"time\": \"%s.%03ldZ\", \"level\": \"%s\"", stamp, now.tv_nsec / 1000000,
        level_names[level]);
    log_text(line, "message", message);
}

void log_text(struct log_line *line, const char *name, const char *value)
{
    char escaped[1024];
    escape(escaped, sizeof escaped, value);
    add(line, ", \"%s\": \"%s\"", name, escaped);
}

void log_integer(struct log_line *line, const char *name, int64_t value)
{
    add(line, ", \"%s\": %lld", name, (long long)value);
}

void log_number(struct log_line *line, const char *name, double value)
{
    add(line, ", \"%s\": %.6g", name, value);
}

_Static_assert(sizeof((struct log_line *)0)->text <= PIPE_BUF, "a pipe must take a line whole");

/* True when the line is written.  A reader of a pipe may have stopped: then one line waits for it,
 * and those behind it do not, until it reads on.  What has room for a line keeps it until it is
 * written: nobody else of this process is between poll() and write().  Not O_NONBLOCK: that would
 * be of the pipe, which other processes may share. */
static bool write_line(const struct log_line *line)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static bool stalled;
    pthread_mutex_lock(&turn);
    struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
    stalled = poll(&out, 1, stalled ? 0 : STALL_MS) <= 0;
    const bool written =
        !stalled && write(STDERR_FILENO, line->text, line->length) == (ssize_t)line->length;
    pthread_mutex_unlock(&turn);
    return written;
}

uint64_t log_lines_dropped(void)
{
    return dropped;
}

void log_end(struct log_line *line)
{
    if (line->level < lowest)
        return;
    line->text[line->length++] = '}';
    line->text[line->length++] = '\n';
    if (!write_line(line))
        dropped++; /* a log that cannot be written must not stop the daemon */
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level < lowest)
        return;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (diverted.take) {
        diverted.take(diverted.context, message);
        return;
    }
    struct log_line line;
    log_begin(&line, level, message);
    log_end(&line);
}
