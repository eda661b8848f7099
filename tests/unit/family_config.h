/* family_config.h — a family's config.json by its fields, and what is read of it in a line. */
#ifndef TESTS_FAMILY_CONFIG_H
#define TESTS_FAMILY_CONFIG_H

#include "config_folder.h"

/* Reads {"model_type": TYPE, FIELDS}. */
static inline int read_config(const char *type, const char *fields, struct model_config *config,
                              struct error *err)
{
    static char text[8192];
    snprintf(text, sizeof text, "{\"model_type\": \"%s\"%s%s}", type, *fields ? ", " : "", fields);
    return read_text(text, config, err);
}

static inline struct model_config config_of(const char *type, const char *fields)
{
    struct model_config config;
    struct error err;
    if (read_config(type, fields, &config, &err) < 0)
        fail_msg("%s, %s: %s", type, fields, err.message);
    return config;
}

/* Width, layers × heads × head width / inner width of the stacks, vocabularies, positions,
 * activation, scales of embeddings and output, ids of padding, begin, end and start. */
static inline const char *describe(const struct model_config *c)
{
    static char text[512];
    char positions[32] = "any";
    if (c->positions_max != SIZE_MAX)
        snprintf(positions, sizeof positions, "%zu", c->positions_max);
    snprintf(text, sizeof text,
             "%zu %zux%zux%zu/%zu %zux%zux%zu/%zu %zu/%zu %s %s%d %g %g %d %d %d %d", c->width,
             c->encoder.layers, c->encoder.heads, c->encoder.key_width, c->encoder.inner_width,
             c->decoder.layers, c->decoder.heads, c->decoder.key_width, c->decoder.inner_width,
             c->source_vocabulary, c->target_vocabulary, positions, c->gated ? "gated " : "",
             (int)c->activation, (double)c->embedding_scale, (double)c->output_scale, c->pad_id,
             c->bos_id, c->eos_id, c->start_id);
    return text;
}

#endif
