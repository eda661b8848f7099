#include "serve/registry.h"

#include <stdbool.h>
#include <string.h>

#include "base/log.h"

static bool is_called(const struct served_model *served, const char *name)
{
    if (strcmp(served->name, name) == 0)
        return true;
    for (char *const *alias = served->aliases; alias && *alias; alias++)
        if (strcmp(*alias, name) == 0)
            return true;
    return false;
}

struct served_model *registry_find(const struct registry *registry, const char *name)
{
    if (!name)
        return registry->count == 1 ? &registry->models[0] : NULL;
    for (size_t i = 0; i < registry->count; i++)
        if (is_called(&registry->models[i], name))
            return &registry->models[i];
    return NULL;
}

struct option_limits registry_option_limits(const struct model_config *config,
                                            const struct limits *limits)
{
    return (struct option_limits){
        .vocabulary = config->target_vocabulary,
        .positions_max = config->positions_max,
        .default_max_new_tokens = limits->default_max_new_tokens,
        .max_new_tokens = limits->max_new_tokens,
        .beams_max = limits->beams,
        .sequences_max = limits->return_sequences,
        .top_logprobs_max = limits->top_logprobs,
        .option_tokens_max = limits->option_tokens,
    };
}

struct option_limits registry_folder_limits(const struct model_config *config,
                                            const struct limits *limits)
{
    struct option_limits allowed = registry_option_limits(config, limits);
    allowed.option_tokens_max = SIZE_MAX;
    return allowed;
}

/* As a request that says nothing would use them. */
static int check_defaults(const struct options *options, const struct option_limits *allowed,
                          const struct model *model, struct error *err)
{
    struct options resolved = *options;
    if (options_resolve(&resolved, allowed, 1, "", err) == 0)
        return 0;
    if (err->code != ERR_OVER_LIMIT)
        return -1;
    log_write(LOG_WARNING, "%s: the default generation options are beyond a limit: %s", model->dir,
              err->message);
    *err = (struct error){ 0 };
    return 0;
}

int registry_defaults(struct options *options, const struct model *model,
                      const struct limits *limits, struct error *err)
{
    struct error reason = { 0 };
    const struct option_limits allowed = registry_folder_limits(&model->config, limits);
    options_init(options);
    if (!config_generates(&model->config))
        return 0;
    options->start_id = model->config.start_id;
    options->bos_id = model->config.bos_id;
    options->pad_id = model->config.pad_id;
    if (model->config.eos_id >= 0) {
        options->eos_ids[0] = model->config.eos_id;
        options->eos_count = 1;
    }
    if (options_set_defaults(options, &model->defaults, &allowed, &reason) == 0 &&
        check_defaults(options, &allowed, model, &reason) == 0)
        return 0;
    options_clear(options);
    return error_set(err, reason.code, "%s: default generation options: %s", model->dir,
                     reason.message);
}
