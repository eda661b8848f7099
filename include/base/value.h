/* value.h — a plain value that came from JSON or YAML, and lists of named ones.
 *
 * Layers that know no JSON (search) take their options in this form.  One thread at a time. */
#ifndef BASE_VALUE_H
#define BASE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_kind {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_OBJECT
};

struct value {
    enum value_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        char *text;          /* owned */
        struct value *items; /* owned, `count` of them; kind LIST */
    };
    size_t count;
};

/* Frees what the value owns and makes it null.  An OBJECT carries no content: no option takes one.
 */
void value_clear(struct value *value);

struct setting {
    char *name; /* owned */
    struct value value;
};

struct settings {
    struct setting *items; /* owned */
    size_t count;
};

void settings_free(struct settings *settings);

#endif
