/* config_sources.h — the three places besides the defaults that configuration comes from.
 *
 * Errors of all: ERR_CONFIG, ERR_NO_MEMORY. */
#ifndef APP_CONFIG_SOURCES_H
#define APP_CONFIG_SOURCES_H

#include "app/configuration.h"

/* A YAML file of at most 1 MiB: a mapping of sections of keys, and `models`, a list of {name,
 * path, aliases}. Refused: unknown and duplicate keys, anchors, aliases, merge keys, tags, further
 * documents. */
int config_yaml_read(struct configuration *config, const char *path, struct error *err);

/* SEQD_SECTION_KEY, the short names, and SEQD_MODEL as a list with commas.  An empty variable is as
 * one that is not set.  A name that begins like one of ours and is none is logged as a warning, not
 * refused: Kubernetes sets variables that are called after services. */
int config_environment_read(struct configuration *config, char *const environment[],
                            struct error *err);
/* The value of NAME in `environment`; NULL when it is not set or empty. */
const char *config_environment_find(char *const environment[], const char *name);

/* The command line, read once and applied after the other sources. */
struct command_line {
    enum command command;
    const char *file; /* --config, borrowed from argv; or NULL */
    struct inspect inspect;
    struct quantize quantize;
    bool bench_pipe;
    struct command_option {
        char *name;        /* without the dashes; owned */
        const char *value; /* borrowed from argv */
    } * options;
    size_t option_count;
};
int command_line_parse(struct command_line *line, int argc, char *const argv[], struct error *err);
int command_line_apply(const struct command_line *line, struct configuration *config,
                       struct error *err);
void command_line_free(struct command_line *line);

#endif
