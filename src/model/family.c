#include "family.h"

#include <stdio.h>
#include <string.h>

/* The `index`-th of all; NULL behind the last. */
static const struct family *family_at(size_t index)
{
    const struct {
        const struct family *families;
        size_t count;
    } groups[] = { { &family_transformer, 1 },
                   { families_bart, families_bart_count },
                   { families_t5, families_t5_count },
                   { families_bert, families_bert_count } };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (index < groups[i].count)
            return &groups[i].families[index];
        index -= groups[i].count;
    }
    return NULL;
}

const struct family *family_find(const char *model_type)
{
    const struct family *family;
    for (size_t i = 0; (family = family_at(i)); i++)
        if (strcmp(family->model_type, model_type) == 0)
            return family;
    return NULL;
}

void family_list(char *out, size_t size)
{
    const struct family *family;
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; (family = family_at(i)) && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%s", i ? ", " : "",
                                   family->model_type);
}

int family_check(const struct model_config *config, const char *file, struct error *err)
{
    const struct {
        const char *name;
        int32_t id;
    } ids[] = { { "decoder_start_token_id", config->start_id },
                { "eos_token_id", config->eos_id } };
    if (!config_generates(config))
        return 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i].id >= 0 && (size_t)ids[i].id >= config->target_vocabulary)
            return error_set(err, ERR_BAD_MODEL, "%s: \"%s\" is %d; the vocabulary is 0..%zu", file,
                             ids[i].name, ids[i].id, config->target_vocabulary - 1);
    return 0;
}
