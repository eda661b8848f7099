/* vocabulary.h — a list of tokens: id to text and text to id.  Const after vocabulary_create(). */
#ifndef TEXT_VOCABULARY_H
#define TEXT_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "model/json.h"

/* A stretch of a text that somebody else owns; not terminated. */
struct span {
    const char *text;
    size_t bytes;
};

/* The entry that stands for every token that is not in the list. */
#define VOCABULARY_UNKNOWN "<unk>"

struct vocabulary;

/* The tokens of the JSON array `list`, ids 0, 1, 2 … in its order: strings, no two equal,
 * VOCABULARY_UNKNOWN among them, at most `count_max` ≤ INT32_MAX.  `file` and `field` name the
 * place in messages. Owned by the caller until vocabulary_destroy().  Errors: ERR_BAD_MODEL,
 * ERR_NO_MEMORY. */
int vocabulary_create(struct vocabulary **out, const json_t *list, size_t count_max,
                      const char *file, const char *field, struct error *err);

/* Sets *vocabulary to NULL, which it may be already. */
void vocabulary_destroy(struct vocabulary **vocabulary);

/* The id of `token`; −1 when it is not in the list. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, struct span token);

int32_t vocabulary_unknown_id(const struct vocabulary *vocabulary);

/* The text of `id`, borrowed; its `text` is NULL for an id outside the list. */
struct span vocabulary_token(const struct vocabulary *vocabulary, int32_t id);

#endif
