#include "app/configuration.h"

#include <string.h>

#include "app/config_models.h"
#include "app/config_sources.h"
#include "app/config_table.h"

static const char *const origin_names[] = { "default", "file", "environment", "command line" };

static int set_defaults(struct configuration *config, struct error *err)
{
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++)
        if (config_key_set(key, config, key->initial, ORIGIN_DEFAULT, "default", err) < 0)
            return -1;
    return 0;
}

/* Help and version need no valid configuration. */
static bool needs_sources(enum command command)
{
    return command != COMMAND_HELP && command != COMMAND_HELP_CONFIG && command != COMMAND_VERSION;
}

static int read_sources(struct configuration *config, const struct command_line *line,
                        char *const environment[], struct error *err)
{
    const char *file =
        line->file ? line->file : config_environment_find(environment, "SEQD_CONFIG");
    if (file && config_yaml_read(config, file, err) < 0)
        return -1;
    if (config_environment_read(config, environment, err) < 0)
        return -1;
    return command_line_apply(line, config, err);
}

int configuration_read(struct configuration *config, enum command *command, int argc,
                       char *const argv[], char *const environment[], struct error *err)
{
    *config = (struct configuration){ 0 };
    struct command_line line;
    int result = -1;
    const bool parsed = command_line_parse(&line, argc, argv, err) == 0;
    *command = line.command;
    config->inspect = line.inspect;
    config->quantize = line.quantize;
    config->bench_pipe = line.bench_pipe;
    if (!parsed || set_defaults(config, err) < 0)
        goto done;
    if (needs_sources(line.command) && read_sources(config, &line, environment, err) < 0)
        goto done;
    for (size_t i = 0; i < config_key_count; i++)
        config_key_resolve(&config_keys[i], config);
    if (config->limits.default_max_new_tokens > config->limits.max_new_tokens)
        config->limits.default_max_new_tokens = config->limits.max_new_tokens;
    result = 0;
done:
    command_line_free(&line);
    return result;
}

void configuration_free(struct configuration *config)
{
    for (size_t i = 0; i < config_key_count; i++)
        config_key_clear(&config_keys[i], config);
    config_models_clear(config);
    *config = (struct configuration){ 0 };
}

/* "https://app.example:8443": what a browser says in an Origin header. */
static bool is_origin(const char *text)
{
    const size_t scheme = strcspn(text, ":");
    if (scheme == 0 || strncmp(text + scheme, "://", 3) != 0)
        return false;
    const char *host = text + scheme + 3;
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    return *host && !strpbrk(host, "/?#@*\\");
}

static int check_origins(const struct configuration *config, struct error *err)
{
    for (char *const *origin = config->cors_origins; *origin; origin++) {
        const bool all = strcmp(*origin, "*") == 0;
        if (all && !config->server.keys_file[0])
            return error_at(err, ERR_CONFIG, "cors.origins",
                            "cors.origins has *, which lets every web page ask: that needs keys "
                            "(server.keys_file)");
        if (!all && !is_origin(*origin))
            return error_at(err, ERR_CONFIG, "cors.origins",
                            "cors.origins has \"%s\"; an origin is SCHEME://HOST or "
                            "SCHEME://HOST:PORT, with nothing behind",
                            *origin);
    }
    return 0;
}

static int check_tls(const struct configuration *config, struct error *err)
{
    const bool certificate = *config->server.tls_certificate, key = *config->server.tls_key;
    if (certificate == key)
        return 0;
    const char *missing = key ? "server.tls_certificate" : "server.tls_key";
    return error_at(err, ERR_CONFIG, missing, "%s is missing: TLS needs a certificate and its key",
                    missing);
}

int configuration_check_serving(const struct configuration *config, struct error *err)
{
    if (config->model_count == 0)
        return error_set(err, ERR_CONFIG,
                         "no model to serve: give --model DIR, SEQD_MODEL or `models` in the file");
    if (!config->listen.loopback && !config->server.keys_file[0] &&
        !config->server.allow_unauthenticated)
        return error_at(err, ERR_CONFIG, "server.listen",
                        "server.listen is %s, which others can reach, and there are no keys: name "
                        "a file of keys in server.keys_file, or set server.allow_unauthenticated "
                        "(SEQD_SERVER_ALLOW_UNAUTHENTICATED) to true if everyone who can connect "
                        "may use the models",
                        config->server.listen);
    return check_origins(config, err) < 0 ? -1 : check_tls(config, err);
}

enum log_level configuration_log_level(const struct configuration *config)
{
    int level = LOG_DEBUG;
    while (config->log_level != config_log_levels[level])
        level++;
    return (enum log_level)level;
}

static void log_models(const struct configuration *config)
{
    for (size_t i = 0; i < config->model_count; i++) {
        struct log_line line;
        log_begin(&line, LOG_DEBUG, "configuration: model");
        log_text(&line, "name", config->models[i].name);
        log_text(&line, "path", config->models[i].path);
        struct buffer aliases;
        buffer_init(&aliases, 1024);
        for (char *const *alias = config->models[i].aliases; alias && *alias; alias++)
            buffer_printf(&aliases, "%s%s", aliases.length ? "," : "", *alias);
        if (aliases.data)
            log_text(&line, "aliases", aliases.data);
        buffer_free(&aliases);
        log_text(&line, "from", origin_names[config->models_origin]);
        log_end(&line);
    }
}

void configuration_log(const struct configuration *config)
{
    struct log_line changed;
    log_begin(&changed, LOG_INFO, "configuration beside the defaults");
    for (size_t i = 0; i < config_key_count; i++) {
        struct buffer value;
        buffer_init(&value, 1024);
        config_key_print(&config_keys[i], config, &value);
        const char *text = value.data ? value.data : "";
        struct log_line line;
        log_begin(&line, LOG_DEBUG, "configuration: key");
        log_text(&line, "key", config_keys[i].name);
        log_text(&line, "value", text);
        log_text(&line, "from", origin_names[config->origins[i]]);
        log_end(&line);
        if (config->origins[i] != ORIGIN_DEFAULT)
            log_text(&changed, config_keys[i].name, text);
        buffer_free(&value);
    }
    log_end(&changed);
    log_models(config);
}
