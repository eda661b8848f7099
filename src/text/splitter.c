#include "splitter.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

int split_begin(struct split *split, const struct splitter *splitter, struct span text,
                struct error *err)
{
    *split = (struct split){ .splitter = splitter, .rest = text };
    if (splitter->kind == SPLIT_PATTERN)
        return pattern_search_open(&split->search, splitter->pattern, text, err);
    return 0;
}

void split_end(struct split *split)
{
    pattern_search_close(&split->search);
}

/* The first `bytes` of what is left; `skip` more are left out. */
static struct span cut(struct split *split, size_t bytes, size_t skip)
{
    const struct span front = { split->rest.text, bytes };
    split->rest.text += bytes + skip;
    split->rest.bytes -= bytes + skip;
    return front;
}

static size_t read_character(struct span text, utf8proc_int32_t *character)
{
    return (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text.text,
                                    (utf8proc_ssize_t)text.bytes, character);
}

/* As Python's str.isspace(): vocabularies were made with str.split(). */
static bool is_space(utf8proc_int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);
    return (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f) || c == 0x85 ||
           category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

static int next_character(struct split *split, struct span *token)
{
    utf8proc_int32_t character;
    if (!split->rest.bytes)
        return 0;
    *token = cut(split, read_character(split->rest, &character), 0);
    return 1;
}

/* Bytes at the front that are white space, or that are not. */
static size_t run_bytes(struct span text, bool space)
{
    const struct span whole = text;
    while (text.bytes) {
        utf8proc_int32_t character;
        const size_t bytes = read_character(text, &character);
        if (is_space(character) != space)
            break;
        text.text += bytes;
        text.bytes -= bytes;
    }
    return whole.bytes - text.bytes;
}

static int next_word(struct split *split, struct span *token)
{
    cut(split, 0, run_bytes(split->rest, true));
    *token = cut(split, run_bytes(split->rest, false), 0);
    return token->bytes > 0;
}

static int next_separated(struct split *split, struct span *token)
{
    const struct span separator = split->splitter->separator;
    while (split->rest.bytes) {
        const char *end =
            memmem(split->rest.text, split->rest.bytes, separator.text, separator.bytes);
        *token = end ? cut(split, (size_t)(end - split->rest.text), separator.bytes)
                     : cut(split, split->rest.bytes, 0);
        if (token->bytes)
            return 1;
    }
    return 0;
}

int split_next(struct split *split, struct span *token, struct error *err)
{
    switch (split->splitter->kind) {
    case SPLIT_CHARACTERS:
        return next_character(split, token);
    case SPLIT_WORDS:
        return next_word(split, token);
    case SPLIT_SEPARATOR:
        return next_separated(split, token);
    case SPLIT_PATTERN:
        break;
    }
    return pattern_search_next(split->search, token, err);
}
