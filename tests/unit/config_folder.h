/* config_folder.h — a folder that holds a config.json, and how it is read. */
#ifndef TESTS_CONFIG_FOLDER_H
#define TESTS_CONFIG_FOLDER_H

#include "model/config.h"
#include "model_folder.h"

static struct folder folder;

static inline int make(void **state)
{
    (void)state;
    folder = folder_create();
    return 0;
}

static inline int clear(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

static inline int read_text(const char *text, struct model_config *config, struct error *err)
{
    struct settings defaults;
    *err = (struct error){ 0 };
    folder_text(&folder, "config.json", text);
    const int rc = config_read(config, &defaults, folder.path, err);
    if (rc == 0)
        settings_free(&defaults);
    return rc;
}

#endif
