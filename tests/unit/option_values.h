/* option_values.h — plain values, and options set by name, for the tests of options. */
#ifndef OPTION_VALUES_H
#define OPTION_VALUES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "search/options.h"

static const struct option_limits limits = { .vocabulary = 40,
                                             .positions_max = 32,
                                             .default_max_new_tokens = 20,
                                             .max_new_tokens = 25,
                                             .beams_max = 8,
                                             .sequences_max = 6,
                                             .top_logprobs_max = 5,
                                             .option_tokens_max = 12 };

#define INT(n)                                                                                     \
    {                                                                                              \
        .kind = VALUE_INT, .integer = (n)                                                          \
    }
#define REAL(x)                                                                                    \
    {                                                                                              \
        .kind = VALUE_REAL, .real = (x)                                                            \
    }
#define BOOL(b)                                                                                    \
    {                                                                                              \
        .kind = VALUE_BOOL, .boolean = (b)                                                         \
    }
#define TEXT(t)                                                                                    \
    {                                                                                              \
        .kind = VALUE_TEXT, .text = (t)                                                            \
    }
#define NOTHING                                                                                    \
    {                                                                                              \
        .kind = VALUE_NULL                                                                         \
    }
#define LIST(...)                                                                                  \
    {                                                                                              \
        .kind = VALUE_LIST, .items = (struct value[]){ __VA_ARGS__ },                              \
        .count = sizeof((struct value[]){ __VA_ARGS__ }) / sizeof(struct value)                    \
    }

static inline struct options fresh(void)
{
    struct options o;
    options_init(&o);
    o.start_id = 2;
    return o;
}

static inline void set(struct options *o, const char *name, struct value value)
{
    struct error err = { 0 };
    if (options_set(o, name, &value, &limits, "parameters.", &err) < 0)
        fail_msg("%s", err.message);
}

struct refused_value {
    const char *place; /* the option's name, and behind it the indices that the error names */
    struct value value;
    enum error_code code;
};

/* Each value is refused with its code and place, and nothing is set. */
static inline void check_refused(const struct refused_value *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct error err = { 0 };
        struct options o = fresh(), before = o;
        char name[64], place[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(cases[i].place, "["), cases[i].place);
        snprintf(place, sizeof place, "parameters.%s", cases[i].place);
        print_message("    %s (%zu)\n", place, i);
        assert_int_equal(options_set(&o, name, &cases[i].value, &limits, "parameters.", &err), -1);
        assert_int_equal(err.code, cases[i].code);
        assert_string_equal(err.param, place);
        assert_non_null(strstr(err.message, place));
        assert_memory_equal(&o, &before, sizeof o);
    }
}

static inline char *name_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* A model's defaults. */
static inline int defaults(struct options *o, const struct setting *items, size_t count,
                           struct error *err)
{
    struct setting copy[8];
    memcpy(copy, items, count * sizeof *items);
    const struct settings settings = { .items = copy, .count = count };
    options_init(o);
    return options_set_defaults(o, &settings, &limits, err);
}

/* What options_describe() says, as "name=value ". */
static inline void describe(void *context, const char *option, const struct value *value)
{
    char *const text = context;
    char *const end = text + strlen(text);
    const size_t left = 512 - strlen(text);
    if (value->kind == VALUE_INT)
        snprintf(end, left, "%s=%lld ", option, (long long)value->integer);
    else if (value->kind == VALUE_REAL)
        snprintf(end, left, "%s=%g ", option, value->real);
    else if (value->kind == VALUE_BOOL)
        snprintf(end, left, "%s=%s ", option, value->boolean ? "true" : "false");
    else if (value->kind == VALUE_TEXT)
        snprintf(end, left, "%s=%s ", option, value->text);
    else
        snprintf(end, left, "%s=[%zu] ", option, value->count);
}

#endif
