/* config_models.h — the list of models to serve. */
#ifndef APP_CONFIG_MODELS_H
#define APP_CONFIG_MODELS_H

#include "app/configuration.h"

/* Adds a model.  The first one of a source that ranks higher than what is there replaces the list.
 * `name` NULL: the folder's own.  Names are 1 to 128 of letters, digits and . _ - / : @ +, each
 * once. Errors: ERR_CONFIG led by `where`, ERR_NO_MEMORY. */
int config_models_add(struct configuration *config, const char *name, const char *path,
                      enum config_origin origin, const char *where, struct error *err);

/* Another name for the model that was added last; no two models share one.
 * Errors: ERR_CONFIG led by `where`, ERR_NO_MEMORY. */
int config_models_alias(struct configuration *config, const char *alias, const char *where,
                        struct error *err);

/* "[NAME=]DIR".  A text that begins with / or . is all folder, so that its = is no name's end. */
int config_models_add_text(struct configuration *config, const char *text,
                           enum config_origin origin, const char *where, struct error *err);

void config_models_clear(struct configuration *config);

#endif
