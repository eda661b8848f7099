#include <stdio.h>
#include <string.h>

#include "app/config_models.h"
#include "app/config_sources.h"
#include "app/config_table.h"
#include "base/mem.h"

static const struct {
    const char *word;
    enum command command;
} words[] = {
    { "check", COMMAND_CHECK },       { "inspect", COMMAND_INSPECT },
    { "health", COMMAND_HEALTH },     { "--help", COMMAND_HELP },
    { "-h", COMMAND_HELP },           { "--help-config", COMMAND_HELP_CONFIG },
    { "--version", COMMAND_VERSION },
};

static const struct config_key *find(const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].short_name && strcmp(config_keys[i].short_name, name) == 0)
            return &config_keys[i];
    return config_key_find(name);
}

static bool parse_word(struct command_line *line, const char *argument)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, argument) == 0) {
            line->command = words[i].command;
            return true;
        }
    return false;
}

/* "--name value" or "--name=value"; *i moves over what was read. */
static int parse_option(struct command_line *line, int argc, char *const argv[], int *i,
                        struct error *err)
{
    const char *text = argv[*i] + 2;
    const size_t length = strcspn(text, "=");
    char *name = mem_alloc(length + 1, 1);
    if (!name)
        return error_set(err, ERR_NO_MEMORY, "no memory for the command line");
    memcpy(name, text, length);
    struct command_option *option = &line->options[line->option_count++];
    option->name = name;

    const bool is_file = strcmp(name, "config") == 0;
    if (!is_file && strcmp(name, "model") != 0 && !find(name))
        return error_set(err, ERR_CONFIG, "unknown option --%s; --help lists what there is", name);
    if (text[length] == '=')
        option->value = text + length + 1;
    else if (*i + 1 < argc)
        option->value = argv[++*i];
    else
        return error_set(err, ERR_CONFIG, "--%s needs a value", name);
    if (is_file)
        line->file = option->value;
    return 0;
}

/* What only `seqd inspect` takes. */
static bool parse_inspect(struct command_line *line, const char *argument)
{
    if (line->command != COMMAND_INSPECT)
        return false;
    if (strcmp(argument, "--json") == 0)
        return line->inspect.json = true;
    if (line->inspect.folder || argument[0] == '-' || argument[0] == '\0')
        return false;
    line->inspect.folder = argument;
    return true;
}

int command_line_parse(struct command_line *line, int argc, char *const argv[], struct error *err)
{
    *line = (struct command_line){ .command = COMMAND_SERVE };
    line->options = mem_alloc((size_t)argc + 1, sizeof *line->options);
    if (!line->options)
        return error_set(err, ERR_NO_MEMORY, "no memory for the command line");
    for (int i = 1; i < argc; i++) {
        const bool may_be_word = argv[i][0] == '-' || i == 1;
        if (may_be_word && parse_word(line, argv[i]))
            continue;
        if (parse_inspect(line, argv[i]))
            continue;
        if (strncmp(argv[i], "--", 2) != 0)
            return error_set(err, ERR_CONFIG, "unknown argument %s; --help lists what there is",
                             argv[i]);
        if (parse_option(line, argc, argv, &i, err) < 0)
            return -1;
    }
    if (line->command == COMMAND_INSPECT && !line->inspect.folder)
        return error_set(err, ERR_CONFIG, "inspect needs a model folder: seqd inspect DIR");
    return 0;
}

static int apply(const struct command_option *option, struct configuration *config,
                 struct error *err)
{
    char where[80];
    snprintf(where, sizeof where, "--%s", option->name);
    if (strcmp(option->name, "config") == 0)
        return 0;
    if (strcmp(option->name, "model") == 0)
        return config_models_add_text(config, option->value, ORIGIN_COMMAND_LINE, where, err);
    return config_key_set(find(option->name), config, option->value, ORIGIN_COMMAND_LINE, where,
                          err);
}

int command_line_apply(const struct command_line *line, struct configuration *config,
                       struct error *err)
{
    for (size_t i = 0; i < line->option_count; i++)
        if (apply(&line->options[i], config, err) < 0)
            return -1;
    return 0;
}

void command_line_free(struct command_line *line)
{
    for (size_t i = 0; i < line->option_count; i++)
        mem_free(line->options[i].name);
    mem_free(line->options);
    *line = (struct command_line){ 0 };
}
