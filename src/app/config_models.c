#include "app/config_models.h"

#include <string.h>

#include "base/mem.h"

enum { NAME_MAX_BYTES = 128 };

void config_models_clear(struct configuration *config)
{
    for (size_t i = 0; i < config->model_count; i++) {
        mem_free(config->models[i].name);
        mem_free(config->models[i].path);
        for (char **alias = config->models[i].aliases; alias && *alias; alias++)
            mem_free(*alias);
        mem_free(config->models[i].aliases);
    }
    mem_free(config->models);
    config->models = NULL;
    config->model_count = 0;
}

/* A part of a path: `length` bytes at `start`. */
struct part {
    const char *start;
    size_t length;
};

/* The last part of the path's first `end` bytes, without slashes after it. */
static struct part last_part(const char *path, size_t end)
{
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    return (struct part){ path + start, end - start };
}

/* The folder's own name; in a Hugging Face cache, models--ORGANISATION--NAME/snapshots/REVISION,
 * that is NAME. */
static struct part folder_name(const char *path)
{
    static const char snapshots[] = "snapshots", models[] = "models--";
    const struct part own = last_part(path, strlen(path));
    const struct part parent = last_part(path, (size_t)(own.start - path));
    const struct part top = last_part(path, (size_t)(parent.start - path));
    if (parent.length != strlen(snapshots) ||
        strncmp(parent.start, snapshots, parent.length) != 0 || top.length <= strlen(models) ||
        strncmp(top.start, models, strlen(models)) != 0)
        return own;
    size_t start = top.length;
    while (strncmp(top.start + start - 2, "--", 2) != 0)
        start--;
    return start < top.length ? (struct part){ top.start + start, top.length - start } : own;
}

static bool is_name(const char *name, size_t length)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-/:@+";
    if (length == 0 || length > NAME_MAX_BYTES || name[0] == '.' || name[0] == '/')
        return false;
    return strspn(name, allowed) >= length;
}

static bool is_same(const char *other, const struct part *name)
{
    return strlen(other) == name->length && memcmp(other, name->start, name->length) == 0;
}

static bool is_taken(const struct configuration *config, const struct part *name)
{
    for (size_t i = 0; i < config->model_count; i++) {
        if (is_same(config->models[i].name, name))
            return true;
        for (char *const *alias = config->models[i].aliases; alias && *alias; alias++)
            if (is_same(*alias, name))
                return true;
    }
    return false;
}

static int check_name(const struct configuration *config, const struct part *name,
                      const char *where, struct error *err)
{
    if (!is_name(name->start, name->length))
        return error_set(err, ERR_CONFIG,
                         "%s: \"%.*s\" cannot be a model's name: 1 to %d letters, digits and "
                         "._-/:@+, not beginning with . or /; name it with NAME=DIR",
                         where, (int)name->length, name->start, NAME_MAX_BYTES);
    if (is_taken(config, name))
        return error_set(err, ERR_CONFIG, "%s: two models are called \"%.*s\"", where,
                         (int)name->length, name->start);
    return 0;
}

int config_models_add(struct configuration *config, const char *name, const char *path,
                      enum config_origin origin, const char *where, struct error *err)
{
    if (!*path)
        return error_set(err, ERR_CONFIG, "%s: a model needs the path of its folder", where);
    if (origin > config->models_origin)
        config_models_clear(config);
    config->models_origin = origin;

    const struct part own = name ? (struct part){ name, strlen(name) } : folder_name(path);
    if (check_name(config, &own, where, err) < 0)
        return -1;

    struct model_entry *models =
        mem_resize(config->models, config->model_count + 1, sizeof *models);
    if (!models)
        return error_set(err, ERR_NO_MEMORY, "no memory for the list of models");
    config->models = models;
    struct model_entry entry = { .name = mem_alloc(own.length + 1, 1), .path = mem_text(path) };
    if (!entry.name || !entry.path) {
        mem_free(entry.name);
        mem_free(entry.path);
        return error_set(err, ERR_NO_MEMORY, "no memory for the list of models");
    }
    memcpy(entry.name, own.start, own.length);
    models[config->model_count++] = entry;
    return 0;
}

int config_models_alias(struct configuration *config, const char *alias, const char *where,
                        struct error *err)
{
    struct model_entry *entry = &config->models[config->model_count - 1];
    const struct part name = { alias, strlen(alias) };
    if (check_name(config, &name, where, err) < 0)
        return -1;
    size_t count = 0;
    while (entry->aliases && entry->aliases[count])
        count++;
    char **aliases = mem_resize(entry->aliases, count + 2, sizeof *aliases);
    if (!aliases)
        return error_set(err, ERR_NO_MEMORY, "no memory for the list of models");
    entry->aliases = aliases;
    aliases[count] = mem_text(alias);
    aliases[count + 1] = NULL;
    return aliases[count] ? 0 : error_set(err, ERR_NO_MEMORY, "no memory for the list of models");
}

int config_models_add_text(struct configuration *config, const char *text,
                           enum config_origin origin, const char *where, struct error *err)
{
    const size_t length = strcspn(text, "=");
    if (text[length] != '=' || text[0] == '/' || text[0] == '.')
        return config_models_add(config, NULL, text, origin, where, err);
    char name[NAME_MAX_BYTES + 2] = ""; /* one byte too many is room enough to be refused */
    memcpy(name, text, length < sizeof name ? length : sizeof name - 1);
    return config_models_add(config, name, text + length + 1, origin, where, err);
}
