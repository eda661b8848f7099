#include "text/tokenizer.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "splitter.h"

#define FILE_NAME      "vocab.json"
#define FILE_BYTES_MAX ((size_t)64 << 20)

struct id_list {
    int32_t *ids; /* owned */
    size_t count;
};

/* How texts of the source, or of the target, become ids. */
struct side {
    struct vocabulary *vocabulary; /* one object for both when the file has no target list */
    struct splitter splitter;
    bool lowercase;
    struct id_list begin, end; /* around every text; empty for the target */
};

struct tokenizer {
    struct side source, target;
    struct pattern *pattern; /* NULL unless the type is pattern */
    char *join;
    int32_t special_ids[4];
};

/* ---- opening: vocab.json, field by field ---- */

struct reader {
    json_t *root;
    const char *file; /* its path, for messages */
    struct error *err;
};

static int check_fields(const struct reader *reader)
{
    static const char *const known[] = { "type",    "lowercase",    "source",     "target",
                                         "pattern", "source_begin", "source_end", "join" };
    const char *name;
    json_t *value;
    json_object_foreach (reader->root, name, value) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(name, known[i]) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return error_set(reader->err, ERR_BAD_MODEL, "%s: unknown field \"%.64s\"",
                             reader->file, name);
    }
    return 0;
}

static int wrong_type(const struct reader *reader, const char *field, const char *wanted)
{
    return error_set(reader->err, ERR_BAD_MODEL, "%s: %s is not %s", reader->file, field, wanted);
}

static int no_memory(const struct reader *reader)
{
    return error_set(reader->err, ERR_NO_MEMORY, "%s: no memory for the tokenizer", reader->file);
}

static int read_kind(struct tokenizer *tokenizer, const struct reader *reader)
{
    static const char *const names[] = {
        [SPLIT_CHARACTERS] = "characters", [SPLIT_WORDS] = "words", [SPLIT_PATTERN] = "pattern"
    };
    const char *type = json_string_value(json_object_get(reader->root, "type"));
    size_t kind = 0;
    while (kind < sizeof names / sizeof *names && strcmp(type, names[kind]) != 0)
        kind++;
    if (kind == sizeof names / sizeof *names)
        return error_set(reader->err, ERR_BAD_MODEL,
                         "%s: type is \"%.64s\", not characters, words or pattern", reader->file,
                         type);
    tokenizer->source.splitter.kind = (enum split_kind)kind;
    return 0;
}

static int read_pattern(struct tokenizer *tokenizer, const struct reader *reader)
{
    const json_t *value = json_object_get(reader->root, "pattern");
    if (tokenizer->source.splitter.kind != SPLIT_PATTERN) {
        if (value)
            return error_set(reader->err, ERR_BAD_MODEL,
                             "%s: pattern is given, but type is not pattern", reader->file);
        return 0;
    }
    if (!json_is_string(value))
        return wrong_type(reader, "pattern", "a string");
    const struct span expression = { json_string_value(value), json_string_length(value) };
    if (pattern_open(&tokenizer->pattern, expression, reader->file, reader->err) < 0)
        return -1;
    tokenizer->source.splitter.pattern = tokenizer->pattern;
    return 0;
}

static int read_lists(struct tokenizer *tokenizer, const struct reader *reader,
                      const struct model_config *config)
{
    const json_t *target = json_object_get(reader->root, "target");
    size_t count_max = config->source_vocabulary;
    if (!target && config->target_vocabulary < count_max)
        count_max = config->target_vocabulary;
    if (vocabulary_create(&tokenizer->source.vocabulary, json_object_get(reader->root, "source"),
                          count_max, reader->file, "source", reader->err) < 0)
        return -1;
    if (target)
        return vocabulary_create(&tokenizer->target.vocabulary, target, config->target_vocabulary,
                                 reader->file, "target", reader->err);
    tokenizer->target.vocabulary = tokenizer->source.vocabulary;
    return 0;
}

static int read_lowercase(struct tokenizer *tokenizer, const struct reader *reader)
{
    const json_t *value = json_object_get(reader->root, "lowercase");
    if (value && !json_is_boolean(value))
        return wrong_type(reader, "lowercase", "true or false");
    tokenizer->source.lowercase = json_is_true(value);
    tokenizer->target.lowercase =
        tokenizer->source.lowercase && tokenizer->target.vocabulary == tokenizer->source.vocabulary;
    return 0;
}

/* The ids of an optional list of source tokens. */
static int read_ids(struct id_list *list, const struct tokenizer *tokenizer,
                    const struct reader *reader, const char *field)
{
    const json_t *value = json_object_get(reader->root, field);
    if (value && !json_is_array(value))
        return wrong_type(reader, field, "a list of tokens");
    const size_t count = json_array_size(value);
    list->ids = mem_alloc(count, sizeof *list->ids);
    if (!list->ids)
        return no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item))
            return error_set(reader->err, ERR_BAD_MODEL, "%s: %s[%zu] is not a string",
                             reader->file, field, i);
        const struct span token = { json_string_value(item), json_string_length(item) };
        list->ids[i] = vocabulary_find(tokenizer->source.vocabulary, token);
        if (list->ids[i] < 0)
            return error_set(reader->err, ERR_BAD_MODEL, "%s: %s[%zu] \"%.64s\" is not in source",
                             reader->file, field, i, token.text);
    }
    list->count = count;
    return 0;
}

/* Also how a target text is split: at `join`, or as the type says when nothing joins. */
static int read_join(struct tokenizer *tokenizer, const struct reader *reader)
{
    const json_t *value = json_object_get(reader->root, "join");
    if (value && !json_is_string(value))
        return wrong_type(reader, "join", "a string");
    const char *usual = tokenizer->source.splitter.kind == SPLIT_WORDS ? " " : "";
    tokenizer->join = mem_text(value ? json_string_value(value) : usual);
    if (!tokenizer->join)
        return no_memory(reader);
    tokenizer->target.splitter = tokenizer->source.splitter;
    if (*tokenizer->join)
        tokenizer->target.splitter =
            (struct splitter){ .kind = SPLIT_SEPARATOR,
                               .separator = { tokenizer->join, strlen(tokenizer->join) } };
    return 0;
}

static int read_all(struct tokenizer *tokenizer, const struct reader *reader,
                    const struct model_config *config)
{
    const int32_t special_ids[] = { config->pad_id, config->bos_id, config->eos_id,
                                    config->start_id };
    memcpy(tokenizer->special_ids, special_ids, sizeof special_ids);
    if (check_fields(reader) < 0 || read_kind(tokenizer, reader) < 0 ||
        read_pattern(tokenizer, reader) < 0 || read_lists(tokenizer, reader, config) < 0 ||
        read_lowercase(tokenizer, reader) < 0 ||
        read_ids(&tokenizer->source.begin, tokenizer, reader, "source_begin") < 0 ||
        read_ids(&tokenizer->source.end, tokenizer, reader, "source_end") < 0)
        return -1;
    return read_join(tokenizer, reader);
}

int tokenizer_open(struct tokenizer **out, const char *dir, const struct model_config *config,
                   struct error *err)
{
    *out = NULL;
    json_t *root = json_read_file(dir, FILE_NAME, FILE_BYTES_MAX, err);
    if (!root)
        return err->code == ERR_NONE ? 0 : -1;
    /* The hub's vocab.json maps tokens to ids, and "type" may be one of them. */
    if (!json_is_string(json_object_get(root, "type"))) {
        json_decref(root);
        return 0;
    }
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/%s", dir, FILE_NAME);
    const struct reader reader = { .root = root, .file = file, .err = err };
    struct tokenizer *tokenizer = mem_alloc(1, sizeof *tokenizer);
    const int rc = tokenizer ? read_all(tokenizer, &reader, config) : no_memory(&reader);
    json_decref(root);
    if (rc < 0)
        tokenizer_close(&tokenizer);
    *out = tokenizer;
    return rc;
}

void tokenizer_close(struct tokenizer **tokenizer)
{
    struct tokenizer *t = *tokenizer;
    if (!t)
        return;
    if (t->target.vocabulary != t->source.vocabulary)
        vocabulary_destroy(&t->target.vocabulary);
    vocabulary_destroy(&t->source.vocabulary);
    pattern_close(&t->pattern);
    mem_free(t->source.begin.ids);
    mem_free(t->source.end.ids);
    mem_free(t->join);
    mem_free(t);
    *tokenizer = NULL;
}

/* ---- text to ids ---- */

static int append_lowercase(struct buffer *out, utf8proc_int32_t character)
{
    char *room = buffer_room(out, 4);
    if (!room)
        return -1;
    buffer_added(
        out, (size_t)utf8proc_encode_char(utf8proc_tolower(character), (utf8proc_uint8_t *)room));
    return 0;
}

/* Checks that the text is UTF-8, and writes it to `lower` in lower case unless that is NULL. */
static int read_text(struct buffer *lower, struct span text, struct error *err)
{
    for (size_t at = 0; at < text.bytes;) {
        utf8proc_int32_t character;
        const utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)text.text + at,
                             (utf8proc_ssize_t)(text.bytes - at), &character);
        if (bytes <= 0)
            return error_set(err, ERR_OUT_OF_RANGE, "the text is not UTF-8 at byte %zu", at);
        if (lower && append_lowercase(lower, character) < 0)
            return error_set(err, ERR_NO_MEMORY, "no memory for a text of %zu bytes", text.bytes);
        at += (size_t)bytes;
    }
    return 0;
}

/* Appends the ids of `text` to `list`, which has room for an id a byte. */
static int append_ids(struct id_list *list, const struct side *side, struct span text,
                      struct error *err)
{
    struct split split;
    struct span token;
    int more = split_begin(&split, &side->splitter, text, err);
    if (more == 0)
        while ((more = split_next(&split, &token, err)) > 0) {
            const int32_t id = vocabulary_find(side->vocabulary, token);
            list->ids[list->count++] = id >= 0 ? id : vocabulary_unknown_id(side->vocabulary);
        }
    split_end(&split);
    return more;
}

static void append_list(struct id_list *list, const struct id_list *more)
{
    for (size_t i = 0; i < more->count; i++)
        list->ids[list->count++] = more->ids[i];
}

static int encode(struct id_list *out, const struct side *side, struct span text, struct error *err)
{
    struct id_list list = { 0 };
    struct buffer lower;
    buffer_init(&lower, SIZE_MAX / 2);
    if (read_text(side->lowercase ? &lower : NULL, text, err) < 0)
        goto fail;
    if (side->lowercase)
        text = (struct span){ lower.data, lower.length };
    list.ids = mem_alloc(side->begin.count + text.bytes + side->end.count, sizeof *list.ids);
    if (!list.ids) {
        error_set(err, ERR_NO_MEMORY, "no memory for the tokens of %zu bytes", text.bytes);
        goto fail;
    }
    append_list(&list, &side->begin);
    if (append_ids(&list, side, text, err) < 0)
        goto fail;
    append_list(&list, &side->end);
    buffer_free(&lower);
    *out = list;
    return 0;

fail:
    buffer_free(&lower);
    mem_free(list.ids);
    return -1;
}

int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                     int32_t **ids, size_t *count, size_t *trailing, struct error *err)
{
    struct id_list list = { 0 };
    const int rc = encode(&list, &tokenizer->source, (struct span){ text, bytes }, err);
    *ids = list.ids;
    *count = list.count;
    *trailing = rc == 0 ? tokenizer->source.end.count : 0;
    return rc;
}

int tokenizer_encode_target(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                            int32_t **ids, size_t *count, struct error *err)
{
    struct id_list list = { 0 };
    const int rc = encode(&list, &tokenizer->target, (struct span){ text, bytes }, err);
    *ids = list.ids;
    *count = list.count;
    return rc;
}

/* ---- ids to text ---- */

static bool is_special(const struct tokenizer *tokenizer, int32_t id)
{
    for (size_t i = 0; i < sizeof tokenizer->special_ids / sizeof *tokenizer->special_ids; i++)
        if (tokenizer->special_ids[i] == id)
            return true;
    return false;
}

char *tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                       bool skip_special)
{
    struct buffer text;
    buffer_init(&text, SIZE_MAX / 2);
    const char *join = "";
    buffer_text(&text, join); /* no ids are an empty text, not none */
    for (size_t i = 0; i < count; i++) {
        const struct span token = vocabulary_token(tokenizer->target.vocabulary, ids[i]);
        if (!token.text || (skip_special && is_special(tokenizer, ids[i])))
            continue;
        buffer_text(&text, join);
        buffer_append(&text, token.text, token.bytes);
        join = tokenizer->join;
    }
    size_t length;
    return buffer_take(&text, &length);
}
