#include "app/config_models.h"

#include <string.h>

#include "base/mem.h"

enum { NAME_MAX_BYTES = 128 };

void config_models_clear(struct configuration *config)
{
    for (size_t i = 0; i < config->model_count; i++) {
        mem_free(config->models[i].name);
        mem_free(config->models[i].path);
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

static bool is_taken(const struct configuration *config, const char *name, size_t length)
{
    for (size_t i = 0; i < config->model_count; i++) {
        const char *other = config->models[i].name;
        if (strlen(other) == length && memcmp(other, name, length) == 0)
            return true;
    }
    return false;
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
    const size_t length = own.length;
    name = own.start;
    if (!is_name(name, length))
        return error_set(err, ERR_CONFIG,
                         "%s: \"%.*s\" cannot be a model's name: 1 to %d letters, digits and "
                         "._-/:@+, not beginning with . or /; name it with NAME=DIR",
                         where, (int)length, name, NAME_MAX_BYTES);
    if (is_taken(config, name, length))
        return error_set(err, ERR_CONFIG, "%s: two models are called \"%.*s\"", where, (int)length,
                         name);

    struct model_entry *models =
        mem_resize(config->models, config->model_count + 1, sizeof *models);
    if (!models)
        return error_set(err, ERR_NO_MEMORY, "no memory for the list of models");
    config->models = models;
    struct model_entry entry = { .name = mem_alloc(length + 1, 1), .path = mem_text(path) };
    if (!entry.name || !entry.path) {
        mem_free(entry.name);
        mem_free(entry.path);
        return error_set(err, ERR_NO_MEMORY, "no memory for the list of models");
    }
    memcpy(entry.name, name, length);
    models[config->model_count++] = entry;
    return 0;
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
