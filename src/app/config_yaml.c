/* Events of libyaml, read by descent: file, section, key.  What is nested deeper than that is
 * refused at its first event, so no document can make this recurse. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "app/config_models.h"
#include "app/config_sources.h"
#include "app/config_table.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 1 << 20, NAME_ROOM = 128, WHERE_ROOM = 300 };

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    const char *path;
    struct configuration *config;
    struct error *err;
    bool models_seen;
    bool sections_seen[CONFIG_KEYS_MAX]; /* by the place of their first key */
};

static const char *where(const struct reader *r, char text[static WHERE_ROOM])
{
    snprintf(text, WHERE_ROOM, "%s:%zu", r->path, r->event.start_mark.line + 1);
    return text;
}

static int refuse(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int refuse(struct reader *r, const char *format, ...)
{
    char message[400], at[WHERE_ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return error_set(r->err, ERR_CONFIG, "%s: %s", where(r, at), message);
}

static int refuse_syntax(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return error_set(r->err, ERR_NO_MEMORY, "no memory for %s", r->path);
    return error_set(r->err, ERR_CONFIG, "%s:%zu: %s", r->path, p->problem_mark.line + 1,
                     p->problem ? p->problem : "not YAML");
}

/* To the next event; what YAML can do beyond values is refused here. */
static int next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return refuse_syntax(r);
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (r->event.type) {
    case YAML_ALIAS_EVENT:
        return refuse(r, "aliases (*name) are not allowed");
    case YAML_SCALAR_EVENT:
        anchor = r->event.data.scalar.anchor;
        tag = r->event.data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = r->event.data.sequence_start.anchor;
        tag = r->event.data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = r->event.data.mapping_start.anchor;
        tag = r->event.data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor)
        return refuse(r, "anchors (&%s) are not allowed", (const char *)anchor);
    if (tag)
        return refuse(r, "tags (%s) are not allowed", (const char *)tag);
    return 0;
}

static const char *scalar(const struct reader *r)
{
    return (const char *)r->event.data.scalar.value;
}

static bool is_scalar(const struct reader *r)
{
    return r->event.type == YAML_SCALAR_EVENT && strlen(scalar(r)) == r->event.data.scalar.length;
}

static bool is_plain(const struct reader *r)
{
    return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const struct reader *r)
{
    if (!is_scalar(r) || !is_plain(r))
        return false;
    const char *text = scalar(r);
    return !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

/* The name of a key, which outlives the event. */
static int read_name(struct reader *r, char name[static NAME_ROOM])
{
    if (!is_scalar(r))
        return refuse(r, "a key must be a plain name");
    snprintf(name, NAME_ROOM, "%s", scalar(r));
    return 0;
}

/* A text in full; `name` is for the message. */
static int read_text(struct reader *r, const char *name, char **text)
{
    if (!is_scalar(r) || is_null(r))
        return refuse(r, "%s needs a text", name);
    mem_free(*text);
    *text = mem_text(scalar(r));
    return *text ? 0 : error_set(r->err, ERR_NO_MEMORY, "no memory for %s", r->path);
}

/* A list of texts as one, with commas between them; `name` is for the message. */
static int read_texts(struct reader *r, const char *name, struct buffer *joined)
{
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return refuse(r, "%s must be a list of texts, as [a, b] or []", name);
    buffer_text(joined, "");
    for (;;) {
        if (next(r) < 0)
            return -1;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (!is_scalar(r) || is_null(r) || !*scalar(r) || strchr(scalar(r), ','))
            return refuse(r, "%s takes texts that are not empty and have no comma", name);
        buffer_printf(joined, "%s%s", joined->length ? "," : "", scalar(r));
    }
    return joined->state == BUFFER_OK
               ? 0
               : error_set(r->err, ERR_NO_MEMORY, "no memory for %s", r->path);
}

struct model_fields {
    char *name, *path;
    struct buffer aliases; /* with commas between them; no data: not given */
};

static int read_model_field(struct reader *r, struct model_fields *fields)
{
    char field[NAME_ROOM];
    if (read_name(r, field) < 0)
        return -1;
    const bool aliases = strcmp(field, "aliases") == 0;
    char **text = strcmp(field, "name") == 0   ? &fields->name
                  : strcmp(field, "path") == 0 ? &fields->path
                                               : NULL;
    if (!text && !aliases)
        return refuse(r, "unknown key models.%s; allowed: name, path and aliases", field);
    if (aliases ? fields->aliases.data != NULL : *text != NULL)
        return refuse(r, "duplicate key models.%s", field);
    if (next(r) < 0)
        return -1;
    return aliases ? read_texts(r, "models.aliases", &fields->aliases) : read_text(r, field, text);
}

static int add_model(struct reader *r, const struct model_fields *fields, const char *at)
{
    if (config_models_add(r->config, fields->name, fields->path ? fields->path : "", ORIGIN_FILE,
                          at, r->err) < 0)
        return -1;
    for (char *rest = fields->aliases.data, *alias; (alias = strsep(&rest, ","));)
        if (*alias && config_models_alias(r->config, alias, at, r->err) < 0)
            return -1;
    return 0;
}

static int read_model(struct reader *r)
{
    struct model_fields fields = { NULL };
    buffer_init(&fields.aliases, FILE_BYTES_MAX);
    char at[WHERE_ROOM];
    int result = -1;
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        refuse(r, "a model is a mapping of name, path and aliases");
        goto done;
    }
    where(r, at);
    for (;;) {
        if (next(r) < 0)
            goto done;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (read_model_field(r, &fields) < 0)
            goto done;
    }
    result = add_model(r, &fields, at);
done:
    mem_free(fields.name);
    mem_free(fields.path);
    buffer_free(&fields.aliases);
    return result;
}

static int read_models(struct reader *r)
{
    if (r->models_seen)
        return refuse(r, "duplicate key models");
    r->models_seen = true;
    if (next(r) < 0)
        return -1;
    if (is_null(r))
        return 0;
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return refuse(r, "models must be a list of mappings of name, path and aliases");
    for (;;) {
        if (next(r) < 0)
            return -1;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (read_model(r) < 0)
            return -1;
    }
}

static int read_list(struct reader *r, const struct config_key *key)
{
    struct buffer joined;
    buffer_init(&joined, FILE_BYTES_MAX);
    char at[WHERE_ROOM];
    where(r, at);
    int result = read_texts(r, key->name, &joined);
    if (result == 0)
        result = config_key_set(key, r->config, joined.data, ORIGIN_FILE, at, r->err);
    buffer_free(&joined);
    return result;
}

static int read_value(struct reader *r, const struct config_key *key)
{
    char at[WHERE_ROOM];
    if (config_key_is_list(key))
        return read_list(r, key);
    struct buffer range;
    buffer_init(&range, 256);
    config_key_print_range(key, &range);
    const char *allowed = range.data ? range.data : "";
    const bool typed =
        key->kind == CONFIG_BOOL || key->kind == CONFIG_COUNT || key->kind == CONFIG_BYTES;
    int result;
    if (!is_scalar(r))
        result = refuse(r, "%s must be one value; allowed: %s", key->name, allowed);
    else if (is_null(r))
        result = refuse(r, "%s has no value; allowed: %s", key->name, allowed);
    else if (typed && !is_plain(r))
        result = refuse(r, "%s must not be in quotes; allowed: %s", key->name, allowed);
    else
        result = config_key_set(key, r->config, scalar(r), ORIGIN_FILE, where(r, at), r->err);
    buffer_free(&range);
    return result;
}

static int read_key(struct reader *r, const char *section)
{
    char name[NAME_ROOM], full[2 * NAME_ROOM];
    if (read_name(r, name) < 0)
        return -1;
    snprintf(full, sizeof full, "%s.%s", section, name);
    const struct config_key *key = config_key_find(full);
    if (!key)
        return refuse(r, "unknown key %s", full);
    if (r->config->origins[key - config_keys] == ORIGIN_FILE)
        return refuse(r, "duplicate key %s", full);
    return next(r) < 0 ? -1 : read_value(r, key);
}

/* A section whose keys are all commented out is an empty one. */
static int read_section(struct reader *r)
{
    char section[NAME_ROOM];
    if (read_name(r, section) < 0)
        return -1;
    if (strcmp(section, "models") == 0)
        return read_models(r);
    const size_t place = config_section_find(section);
    if (place == config_key_count)
        return refuse(r, "unknown section %s", section);
    if (r->sections_seen[place])
        return refuse(r, "duplicate section %s", section);
    r->sections_seen[place] = true;
    if (next(r) < 0)
        return -1;
    if (is_null(r))
        return 0;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, "%s must be a mapping of keys", section);
    for (;;) {
        if (next(r) < 0)
            return -1;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if (read_key(r, section) < 0)
            return -1;
    }
}

static int read_root(struct reader *r)
{
    if (is_null(r))
        return 0;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return refuse(r, "the file must be a mapping of sections");
    for (;;) {
        if (next(r) < 0)
            return -1;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if (read_section(r) < 0)
            return -1;
    }
}

static int read_stream(struct reader *r)
{
    if (next(r) < 0 || next(r) < 0)
        return -1;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return 0;
    if (next(r) < 0 || read_root(r) < 0 || next(r) < 0 || next(r) < 0)
        return -1;
    if (r->event.type != YAML_STREAM_END_EVENT)
        return refuse(r, "one document a file");
    return 0;
}

static int read_file(const char *path, struct buffer *bytes, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(err, ERR_CONFIG, "%s: %s", path, strerror(errno));
    size_t got = 0;
    char *room;
    while ((room = buffer_room(bytes, 4096)) && (got = fread(room, 1, 4096, file)) > 0)
        buffer_added(bytes, got);
    const bool failed = ferror(file);
    const int reason = errno;
    fclose(file);
    if (bytes->state == BUFFER_NO_MEMORY)
        return error_set(err, ERR_NO_MEMORY, "no memory for %s", path);
    if (bytes->state == BUFFER_OVER_LIMIT)
        return error_set(err, ERR_CONFIG, "%s: more than %d bytes", path, FILE_BYTES_MAX);
    if (failed)
        return error_set(err, ERR_CONFIG, "%s: %s", path, strerror(reason));
    return 0;
}

int config_yaml_read(struct configuration *config, const char *path, struct error *err)
{
    struct buffer bytes;
    buffer_init(&bytes, FILE_BYTES_MAX);
    struct reader reader = { .path = path, .config = config, .err = err };
    int result = read_file(path, &bytes, err);
    if (result == 0 && !yaml_parser_initialize(&reader.parser))
        result = error_set(err, ERR_NO_MEMORY, "no memory for %s", path);
    if (result == 0) {
        yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes.data,
                                     bytes.length);
        result = read_stream(&reader);
        yaml_event_delete(&reader.event);
        yaml_parser_delete(&reader.parser);
    }
    buffer_free(&bytes);
    return result;
}
