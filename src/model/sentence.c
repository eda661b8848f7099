/* Reading modules.json: which modules there are. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "config_fields.h"
#include "model/json.h"
#include "sentence_modules.h"
#include "weights.h"

enum { MODULES_MAX = 64, MODULES_BYTES_MAX = 1 << 20 };

/* What sentence-transformers keeps beside config.json, under one of these names by its age. */
static int read_encoder_file(struct sentence_reader *r)
{
    static const char *const names[] = { "bert",   "roberta",     "distilbert", "camembert",
                                         "albert", "xlm-roberta", "xlnet" };
    for (size_t i = 0; !r->config && i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "sentence_%s_config.json", names[i]);
        if (sentence_read_file(r, name) < 0)
            return -1;
    }
    return 0;
}

/* The encoder itself was read from config.json; what would make it another one is refused. */
static int read_transformer(struct sentence_reader *r)
{
    static const struct field fields[] = {
        { "max_seq_length", FIELD_SIZE, offsetof(struct sentence, tokens_max), NULL, 1, INT_MAX },
    };
    if (r->path[0])
        return error_set(r->err, ERR_BAD_MODEL,
                         "%s/modules.json: the encoder lies in \"%s\"; only one that lies in the "
                         "folder itself is served",
                         r->dir, r->path);
    if (read_encoder_file(r) < 0 ||
        sentence_require(r, r->config, "transformer_task", "feature-extraction") < 0 ||
        sentence_require(r, r->config, "module_output_name", "token_embeddings") < 0)
        return -1;
    const json_t *modalities = json_object_get(r->config, "modality_config");
    const json_t *text = json_object_get(modalities, "text");
    if (modalities && !text)
        return sentence_refuse(r, "modality_config", "has no \"text\"");
    if (sentence_require(r, text, "method", "forward") < 0 ||
        sentence_require(r, text, "method_output_name", "last_hidden_state") < 0)
        return -1;
    static const char *const overrides[] = { "config_args", "config_kwargs" };
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++)
        if (json_object_size(json_object_get(r->config, overrides[i])) > 0)
            return sentence_refuse(r, overrides[i], "would change the encoder; change config.json");
    return fields_read(r->sentence, fields, 1, r->config, r->file, r->err);
}

/* Does something in training only. */
static int read_dropout(struct sentence_reader *r)
{
    (void)r;
    return 0;
}

/* A path of the folder's own: relative, and nowhere upwards. */
static bool is_inside(const char *path)
{
    if (path[0] == '/' || strlen(path) >= SENTENCE_NAME_BYTES)
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

/* The classes that are served, by the last part of "type". */
static const struct module_kind {
    const char *name;
    int (*read)(struct sentence_reader *r);
} kinds[] = {
    { "Transformer", read_transformer },      { "Pooling", sentence_read_pooling },
    { "Dense", sentence_read_dense },         { "LayerNorm", sentence_read_layer_norm },
    { "Normalize", sentence_read_normalize }, { "Dropout", read_dropout },
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds, KINDS_IN_PLACE = 2 };

/* "sentence_transformers.models.Dense", and longer paths of newer versions; KIND_COUNT: none. */
static size_t find_kind(const char *type)
{
    static const char library[] = "sentence_transformers.";
    size_t kind = strncmp(type, library, sizeof library - 1) == 0 ? 0 : KIND_COUNT;
    while (kind < KIND_COUNT && strcmp(strrchr(type, '.') + 1, kinds[kind].name) != 0)
        kind++;
    return kind;
}

static int read_module(struct sentence_reader *r, const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    r->path = json_string_value(json_object_get(entry, "path"));
    if (!type || !r->path)
        return error_set(r->err, ERR_BAD_MODEL, "%s/modules.json: module %zu has no type or path",
                         r->dir, r->index);
    if (!is_inside(r->path))
        return error_set(r->err, ERR_BAD_MODEL,
                         "%s/modules.json: the path \"%.80s\" leads out of the folder", r->dir,
                         r->path);
    const size_t kind = find_kind(type);
    if (kind == KIND_COUNT)
        return error_set(r->err, ERR_BAD_MODEL,
                         "%s/modules.json: module %zu is \"%.100s\"; served are Transformer, "
                         "Pooling, Dense, LayerNorm, Normalize and Dropout",
                         r->dir, r->index, type);
    if (r->index < KINDS_IN_PLACE ? kind != r->index : kind < KINDS_IN_PLACE)
        return error_set(r->err, ERR_BAD_MODEL,
                         "%s/modules.json: module %zu is %s; module 0 must be the Transformer, "
                         "module 1 the Pooling",
                         r->dir, r->index, kinds[kind].name);
    const int rc = kinds[kind].read(r);
    json_decref(r->config);
    r->config = NULL;
    return rc;
}

/* Prompts are texts: whoever sends token ids sends the prompt's too. */
static void note_prompt(const struct sentence_reader *r)
{
    const char *name = json_string_value(json_object_get(r->config, "default_prompt_name"));
    const json_t *prompts = json_object_get(r->config, "prompts");
    const char *prompt = name ? json_string_value(json_object_get(prompts, name)) : NULL;
    if (prompt && prompt[0])
        log_write(LOG_WARNING, "%s: the default prompt \"%.80s\" is not put before the rows",
                  r->file, name);
}

/* What the folder says of the whole: how much of the vector is kept. */
static int read_settings(struct sentence_reader *r)
{
    struct settings_config {
        size_t dim;
    } config = { .dim = r->width };
    static const struct field fields[] = {
        { "truncate_dim", FIELD_SIZE, offsetof(struct settings_config, dim), NULL, 1, INT_MAX },
    };
    if (sentence_read_file(r, "config_sentence_transformers.json") < 0 ||
        fields_read(&config, fields, 1, r->config, r->file, r->err) < 0)
        return -1;
    note_prompt(r);
    r->sentence->dim = config.dim < r->width ? config.dim : r->width;
    return 0;
}

/* A Normalize at the very end is what a request may switch off. */
static void take_last_normalize(struct sentence *sentence, size_t width)
{
    if (sentence->step_count == 0 || sentence->dim < width ||
        sentence->steps[sentence->step_count - 1].kind != STEP_NORMALIZE)
        return;
    sentence->step_count--;
    sentence->normalize = true;
}

static int read_modules(struct sentence_reader *r, const json_t *list)
{
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 2 || count > MODULES_MAX)
        return error_set(r->err, ERR_BAD_MODEL,
                         "%s/modules.json must be an array of a Transformer, a Pooling and at most "
                         "%d modules more",
                         r->dir, MODULES_MAX - 2);
    r->sentence->steps = mem_alloc(count, sizeof *r->sentence->steps);
    if (!r->sentence->steps)
        return error_set(r->err, ERR_NO_MEMORY, "no memory for %zu modules", count);
    for (; r->index < count; r->index++)
        if (read_module(r, json_array_get(list, r->index)) < 0)
            return -1;
    if (read_settings(r) < 0)
        return -1;
    take_last_normalize(r->sentence, r->width);
    return 0;
}

int sentence_open(struct sentence **out, const char *dir, size_t width,
                  const struct kernels *kernels, struct error *err)
{
    *out = NULL;
    json_t *list = json_read_file(dir, "modules.json", MODULES_BYTES_MAX, err);
    if (!list)
        return err->code == ERR_NONE ? 0 : -1;
    struct sentence *sentence = mem_alloc(1, sizeof *sentence);
    struct sentence_reader reader = {
        .sentence = sentence, .dir = dir, .kernels = kernels, .err = err, .encoder_width = width
    };
    int rc = -1;
    if (!sentence) {
        error_set(err, ERR_NO_MEMORY, "no memory for the modules of %s", dir);
    } else {
        sentence->tokens_max = SIZE_MAX;
        rc = read_modules(&reader, list);
    }
    json_decref(reader.config);
    json_decref(list);
    if (rc < 0)
        sentence_close(&sentence);
    *out = sentence;
    return rc;
}

void sentence_close(struct sentence **sentence)
{
    struct sentence *s = *sentence;
    *sentence = NULL;
    if (!s)
        return;
    for (size_t i = 0; i < s->step_count; i++)
        weights_close(&s->steps[i].weights);
    mem_free(s->steps);
    mem_free(s);
}

bool sentence_module(const struct sentence *sentence, size_t index, struct sentence_module *module)
{
    static const char *const names[] = {
        [STEP_DENSE] = "Dense", [STEP_LAYER_NORM] = "LayerNorm", [STEP_NORMALIZE] = "Normalize"
    };
    if (index >= sentence->step_count)
        return false;
    const struct sentence_step *step = &sentence->steps[index];
    *module = (struct sentence_module){ names[step->kind],
                                        step->kind == STEP_DENSE && step->activated
                                            ? activation_name(step->activation)
                                            : NULL,
                                        step->out };
    return true;
}
