/* options_read.h — from a plain value to an option's own form, with errors that name the place.
 *
 * Any thread. */
#ifndef SEARCH_OPTIONS_READ_H
#define SEARCH_OPTIONS_READ_H

#include "options_table.h"
#include "phrases.h"

/* What is read, and how errors name it: `param` stands before the option's name. */
struct reading {
    const struct option *option;
    const struct option_limits *limits;
    const char *param;
    struct error *err;
};

/* "parameters[2].top_k", and behind it the index of an item. */
struct option_place {
    char text[128];
};
struct option_place option_place(const char *param, const char *name);

/* A number of the option's kind and within its range, a flag, or one of early_stopping. */
int option_read_number(const struct reading *reading, const struct value *value, double *number);

/* An id or a list of at most EOS_MAX. */
int option_read_few(const struct reading *reading, const struct value *value, int32_t ids[EOS_MAX],
                    size_t *count);

/* [start, factor] */
int option_read_decay(const struct reading *reading, const struct value *value, int64_t *start,
                      double *factor);

/* A list of the option's kind, sorted; *phrases is the caller's to drop, NULL when it is empty. */
int option_read_list(const struct reading *reading, const struct value *value,
                     struct phrases **phrases);

#endif
