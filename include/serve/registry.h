/* registry.h — the models that are served, by name.  Const once the daemon is ready. */
#ifndef SERVE_REGISTRY_H
#define SERVE_REGISTRY_H

#include "serve/engine.h"
#include "text/tokenizer.h"

struct served_model {
    char *name;
    char *const *aliases;        /* other names it answers to; NULL-terminated, or NULL; borrowed */
    struct model *model;         /* owned */
    struct tokenizer *tokenizer; /* owned; NULL: token ids only */
    struct engine *engine;       /* owned */
    struct options defaults;     /* the model's generation options over the table's; cleared by
                                  * whoever closes the model */
    int64_t created_unix;        /* when it was loaded */
};

struct registry {
    struct served_model *models;
    size_t count;
};

/* The model of that name or alias; NULL: none.  `name` NULL: the only one loaded, NULL when there
 * are several. */
struct served_model *registry_find(const struct registry *registry, const char *name);

/* What options_resolve() checks a row's options against. */
struct option_limits registry_option_limits(const struct model_config *config,
                                            const struct limits *limits);

/* The same for the folder's own defaults, whose lists its file bounds. */
struct option_limits registry_folder_limits(const struct model_config *config,
                                            const struct limits *limits);

/* The generation options that a model's folder asks for: the table's, then the special ids of
 * config.json, then the folder's defaults.  Defaults that no request could be served with are an
 * error; those beyond a configured limit are a warning, since requests may ask for less.  A model
 * that only encodes has the table's.  *options is for options_clear().
 * Errors: those of options_set_defaults() and options_resolve(), naming the folder. */
int registry_defaults(struct options *options, const struct model *model,
                      const struct limits *limits, struct error *err);

#endif
