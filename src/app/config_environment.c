#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "app/config_models.h"
#include "app/config_sources.h"
#include "app/config_table.h"
#include "base/mem.h"

static const char prefix[] = "SEQD_";
enum { PREFIX_LENGTH = sizeof prefix - 1, NAME_ROOM = 80 };

/* "server.listen" is SEQD_SERVER_LISTEN. */
static const char *variable(const char *key, char name[static NAME_ROOM])
{
    snprintf(name, NAME_ROOM, "%s%s", prefix, key);
    for (char *p = name + PREFIX_LENGTH; *p; p++)
        *p = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
    return name;
}

const char *config_environment_find(char *const environment[], const char *name)
{
    const size_t length = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return (*environment)[length + 1] ? *environment + length + 1 : NULL;
    return NULL;
}

static int read_variable(struct configuration *config, char *const environment[],
                         const struct config_key *key, const char *name, struct error *err)
{
    const char *value = config_environment_find(environment, name);
    return value ? config_key_set(key, config, value, ORIGIN_ENVIRONMENT, name, err) : 0;
}

static int read_models(struct configuration *config, const char *list, struct error *err)
{
    char *copy = mem_text(list), *rest = copy;
    if (!copy)
        return error_set(err, ERR_NO_MEMORY, "no memory for SEQD_MODEL");
    int result = 0;
    for (const char *item; result == 0 && (item = strsep(&rest, ","));)
        if (*item)
            result = config_models_add_text(config, item, ORIGIN_ENVIRONMENT, "SEQD_MODEL", err);
    mem_free(copy);
    return result;
}

static bool is_named(const char *entry, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(entry, name, length) == 0;
}

static bool is_ours(const char *entry, size_t length)
{
    char name[NAME_ROOM];
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++)
        if (is_named(entry, length, variable(key->name, name)) ||
            (key->short_name && is_named(entry, length, variable(key->short_name, name))))
            return true;
    return is_named(entry, length, "SEQD_MODEL") || is_named(entry, length, "SEQD_CONFIG");
}

/* Kubernetes sets SEQD_PORT, SEQD_SERVICE_HOST, SEQD_PORT_8080_TCP_ADDR and more where a service is
 * called seqd, or seqd-and-more: nobody's mistake. */
static bool is_of_service(const char *entry, size_t length)
{
    static const char *const parts[] = { "_PORT=", "_PORT_", "_SERVICE_HOST=", "_SERVICE_PORT" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *at = strstr(entry, parts[i]);
        if (at && at < entry + length)
            return true;
    }
    return false;
}

static void warn(const char *entry)
{
    const size_t length = strcspn(entry, "=");
    if (strncmp(entry, prefix, PREFIX_LENGTH) != 0 || is_of_service(entry, length))
        return;
    if (!is_ours(entry, length))
        log_write(LOG_WARNING, "the environment variable %.*s is no key of the configuration",
                  (int)length, entry);
    else if (entry[length] == '\0' || entry[length + 1] == '\0')
        log_write(LOG_WARNING, "the environment variable %.*s is empty, and so ignored",
                  (int)length, entry);
}

int config_environment_read(struct configuration *config, char *const environment[],
                            struct error *err)
{
    char name[NAME_ROOM];
    for (const struct config_key *key = config_keys; key < config_keys + config_key_count; key++) {
        if (key->short_name &&
            read_variable(config, environment, key, variable(key->short_name, name), err) < 0)
            return -1;
        if (read_variable(config, environment, key, variable(key->name, name), err) < 0)
            return -1;
    }
    for (char *const *entry = environment; *entry; entry++)
        warn(*entry);
    const char *models = config_environment_find(environment, "SEQD_MODEL");
    return models ? read_models(config, models, err) : 0;
}
