#include "family.h"

#include <string.h>

static const struct family *const families[] = { &family_transformer };

const struct family *family_find(const char *model_type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i]->model_type, model_type) == 0)
            return families[i];
    return NULL;
}

const char *family_list(void)
{
    return "transformer";
}
