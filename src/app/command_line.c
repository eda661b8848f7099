#include <stdio.h>
#include <string.h>

#include "app/commands.h"
#include "app/config_models.h"
#include "app/config_sources.h"
#include "app/config_table.h"
#include "base/mem.h"

static const struct {
    const char *word;
    enum command command;
} words[] = {
    { "check", COMMAND_CHECK },       { "inspect", COMMAND_INSPECT },
    { "quantize", COMMAND_QUANTIZE }, { "bench", COMMAND_BENCH },
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

/* Of "--name=value", or what follows "--name"; *i moves over it. */
static const char *option_value(int argc, char *const argv[], int *i, struct error *err)
{
    const char *name = argv[*i], *equals = strchr(name, '=');
    if (equals)
        return equals + 1;
    if (*i + 1 < argc)
        return argv[++*i];
    error_set(err, ERR_CONFIG, "%s needs a value", name);
    return NULL;
}

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
    option->value = option_value(argc, argv, i, err);
    if (!option->value)
        return -1;
    if (is_file)
        line->file = option->value;
    return 0;
}

static bool parse_folder(const char **folder, const char *argument)
{
    if (*folder || argument[0] == '-' || argument[0] == '\0')
        return false;
    *folder = argument;
    return true;
}

static bool is_dtype(const char *argument)
{
    static const char name[] = "--dtype";
    const size_t length = sizeof name - 1;
    return strncmp(argument, name, length) == 0 &&
           (argument[length] == '\0' || argument[length] == '=');
}

/* What only one command takes; *i moves over what was read. */
static bool parse_own(struct command_line *line, int argc, char *const argv[], int *i,
                      struct error *err)
{
    const char *argument = argv[*i];
    switch (line->command) {
    case COMMAND_INSPECT:
        if (strcmp(argument, "--json") == 0)
            return line->inspect.json = true;
        return parse_folder(&line->inspect.folder, argument);
    case COMMAND_QUANTIZE:
        if (!is_dtype(argument))
            return parse_folder(&line->quantize.in, argument) ||
                   parse_folder(&line->quantize.out, argument);
        line->quantize.dtype = option_value(argc, argv, i, err);
        return true;
    case COMMAND_BENCH:
        return strcmp(argument, "--pipe") == 0 && (line->bench_pipe = true);
    default:
        return false;
    }
}

static int check_complete(const struct command_line *line, struct error *err)
{
    if (line->command == COMMAND_INSPECT && !line->inspect.folder)
        return error_set(err, ERR_CONFIG, "inspect needs a model folder: seqd inspect DIR");
    if (line->command == COMMAND_QUANTIZE && !line->quantize.out)
        return error_set(err, ERR_CONFIG,
                         "quantize needs a model folder and one to make: seqd quantize IN OUT "
                         "--dtype " QUANTIZE_DTYPES);
    if (line->command == COMMAND_QUANTIZE && !line->quantize.dtype)
        return error_set(err, ERR_CONFIG, "quantize needs --dtype " QUANTIZE_DTYPES);
    return 0;
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
        if (parse_own(line, argc, argv, &i, err)) {
            if (err->code != ERR_NONE)
                return -1;
            continue;
        }
        if (strncmp(argv[i], "--", 2) != 0)
            return error_set(err, ERR_CONFIG, "unknown argument %s; --help lists what there is",
                             argv[i]);
        if (parse_option(line, argc, argv, &i, err) < 0)
            return -1;
    }
    return check_complete(line, err);
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
