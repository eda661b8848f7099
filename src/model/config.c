#include "model/config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "family.h"
#include "model/json.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

/* Every field of `json` as a setting. */
static int to_settings(const json_t *json, struct settings *settings, struct error *err)
{
    const char *name;
    json_t *value;
    settings->items = mem_alloc(json_object_size(json), sizeof *settings->items);
    if (!settings->items)
        return error_set(err, ERR_NO_MEMORY, "generation defaults");
    json_object_foreach ((json_t *)(uintptr_t)json, name, value) {
        struct setting *setting = &settings->items[settings->count++];
        setting->name = mem_text(name);
        if (!setting->name)
            return error_set(err, ERR_NO_MEMORY, "generation defaults");
        if (json_to_value(value, &setting->value, err) < 0)
            return -1;
    }
    return 0;
}

/* generation_config.json hides the generation fields of config.json, also those it does not have.
 */
static int read_defaults(struct settings *defaults, json_t *config, const char *dir,
                         struct error *err)
{
    json_t *bos = json_object_get(config, "bos_token_id");
    json_t *generation = json_read_file(dir, "generation_config.json", CONFIG_BYTES_MAX, err);
    if (!generation && err->code != ERR_NONE)
        return -1;
    if (generation && !json_is_object(generation)) {
        json_decref(generation);
        return error_set(err, ERR_BAD_MODEL, "%s/generation_config.json is no JSON object", dir);
    }
    /* What files of BART said before there was forced_bos_token_id. */
    if (!generation && bos &&
        json_is_true(json_object_get(config, "force_bos_token_to_be_generated")) &&
        json_object_set(config, "forced_bos_token_id", bos) < 0)
        return error_set(err, ERR_NO_MEMORY, "generation defaults");
    const int rc = to_settings(generation ? generation : config, defaults, err);
    json_decref(generation);
    return rc;
}

/* There is no config.json: say what there is instead. */
static int no_config(const char *dir, const char *file, struct error *err)
{
    char snapshots[512];
    snprintf(snapshots, sizeof snapshots, "%s/snapshots", dir);
    if (access(dir, F_OK) != 0)
        return error_set(err, ERR_IO, "%s: no such folder", dir);
    if (access(snapshots, F_OK) == 0)
        return error_set(err, ERR_IO,
                         "%s: no such file; in a Hugging Face cache the model's folder is %s/"
                         "REVISION",
                         file, snapshots);
    return error_set(err, ERR_IO, "%s: no such file", file);
}

int config_read(struct model_config *config, struct settings *defaults, const char *dir,
                struct error *err)
{
    char file[512], families[256];
    const struct family *family = NULL;
    *defaults = (struct settings){ 0 };
    snprintf(file, sizeof file, "%s/config.json", dir);
    json_t *json = json_read_file(dir, "config.json", CONFIG_BYTES_MAX, err);
    if (!json)
        return no_config(dir, file, err);
    family_list(families, sizeof families);
    const char *model_type = json_string_value(json_object_get(json, "model_type"));
    if (!model_type)
        error_set(err, ERR_BAD_MODEL, "%s: \"model_type\" is missing", file);
    else if (!(family = family_find(model_type)))
        error_set(err, ERR_BAD_MODEL, "%s: \"model_type\" is \"%.40s\"; served families are: %s",
                  file, model_type, families);
    if (!family || family->read(family, config, json, file, err) < 0 ||
        read_defaults(defaults, json, dir, err) < 0) {
        settings_free(defaults);
        json_decref(json);
        return -1;
    }
    json_decref(json);
    return 0;
}
