/* config_reading.h — what tests of the configuration share: sources, a temporary file, a value. */
#ifndef TESTS_CONFIG_READING_H
#define TESTS_CONFIG_READING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/config_models.h"
#include "app/config_sources.h"
#include "app/config_table.h"
#include "base/mem.h"

enum { WORDS_MAX = 12 };

/* Reads the configuration from `words` (the command line, NULL at the end) and `environment`. */
static inline int read_all(struct configuration *config, char *const words[],
                           char *const environment[], enum command *command, struct error *err)
{
    static char program[] = "seqd";
    char *argv[WORDS_MAX + 2] = { program };
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = words[argc - 1];
    *err = (struct error){ 0 };
    return configuration_read(config, command, argc, argv, environment, err);
}

#define WORDS(...) ((char *[WORDS_MAX + 1]){ __VA_ARGS__ })

static char *file_path; /* a temporary file, of one test */

static inline int make_file(void **state)
{
    (void)state;
    static char path[64];
    strcpy(path, "/tmp/test_config.XXXXXX");
    const int fd = mkstemp(path);
    file_path = path;
    return fd < 0 ? -1 : close(fd);
}

static inline int remove_file(void **state)
{
    (void)state;
    return unlink(file_path);
}

static inline void write_file(const char *text)
{
    FILE *file = fopen(file_path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void check_value(const struct configuration *config, const char *name,
                               const char *expected)
{
    struct buffer value;
    buffer_init(&value, 1000);
    buffer_text(&value, "");
    config_key_print(config_key_find(name), config, &value);
    assert_string_equal(value.data, expected);
    buffer_free(&value);
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_file, remove_file)

#endif
