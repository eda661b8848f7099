/* log.h — one JSON object a line on stderr.
 *
 * Every text is JSON-escaped, so no client can forge a line.  Lines are written whole, from any
 * thread.  One that stderr does not take, at once or nearly so, is dropped. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR, LOG_NONE };

/* Lines below `level` are dropped.  Default: LOG_INFO.  Call before other threads start. */
void log_set_level(enum log_level level);
enum log_level log_level(void);

/* {"time": …, "level": …, "message": …} */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From here on the messages of log_write() that are not below the level go to `take` instead; NULL:
 * to stderr again.  While no other thread runs. */
void log_divert(void (*take)(void *context, const char *message), void *context);

/* A line with fields: begin, add, end.  A line longer than the struct is cut at a field. */
struct log_line {
    enum log_level level;
    size_t length;
    char text[2048];
};
void log_begin(struct log_line *line, enum log_level level, const char *message);
void log_text(struct log_line *line, const char *name, const char *value);
void log_integer(struct log_line *line, const char *name, int64_t value);
void log_number(struct log_line *line, const char *name, double value);
void log_end(struct log_line *line);

/* How many lines were not written, or not to their end: full disk, reader that does not read. */
uint64_t log_lines_dropped(void);

#endif
