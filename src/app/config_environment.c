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

/* True when `entry`, "SEQD_SERVER_…=…", begins like a key's variable and is none. */
static bool is_mistaken(const char *entry)
{
    bool like_ours = false;
    const size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < config_key_count; i++) {
        char name[NAME_ROOM];
        variable(config_keys[i].name, name);
        if (strlen(name) == length && memcmp(name, entry, length) == 0)
            return false;
        const size_t section = PREFIX_LENGTH + strcspn(config_keys[i].name, ".") + 1;
        like_ours = like_ours || strncmp(name, entry, section) == 0;
    }
    return like_ours;
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
        if (is_mistaken(*entry))
            log_write(LOG_WARNING, "the environment variable %.*s is no key of the configuration",
                      (int)strcspn(*entry, "="), *entry);
    const char *models = config_environment_find(environment, "SEQD_MODEL");
    return models ? read_models(config, models, err) : 0;
}
