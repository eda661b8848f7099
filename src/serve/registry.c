#include "serve/registry.h"

#include <string.h>

struct served_model *registry_find(const struct registry *registry, const char *name)
{
    if (!name)
        return registry->count == 1 ? &registry->models[0] : NULL;
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->models[i].name, name) == 0)
            return &registry->models[i];
    return NULL;
}

int registry_defaults(struct options *options, const struct model *model, struct error *err)
{
    options_init(options);
    options->start_id = model->config.start_id;
    options->pad_id = model->config.pad_id;
    if (model->config.eos_id >= 0) {
        options->eos_ids[0] = model->config.eos_id;
        options->eos_count = 1;
    }
    return options_set_defaults(options, &model->defaults, err);
}
