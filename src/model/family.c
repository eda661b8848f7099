#include "family.h"

#include <stdio.h>
#include <string.h>

static const struct family *const families[] = { &family_transformer };

const struct family *family_find(const char *model_type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i]->model_type, model_type) == 0)
            return families[i];
    return NULL;
}

void family_list(char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof families / sizeof *families && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%s", i ? ", " : "",
                                   families[i]->model_type);
}
