#include "vocabulary.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

struct vocabulary {
    char *text;      /* all tokens, one after another */
    size_t *offsets; /* count + 1: where each begins in `text`, and where the last one ends */
    size_t count;
    int32_t *slots;    /* open addressing: ids, −1 where free; at least half of them are */
    size_t slot_count; /* a power of two */
    int32_t unknown_id;
};

/* FNV-1a. */
static uint64_t hash(struct span token)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < token.bytes; i++)
        h = (h ^ (unsigned char)token.text[i]) * UINT64_C(0x100000001b3);
    return h ^ (h >> 32);
}

static bool equal(struct span a, struct span b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

struct span vocabulary_token(const struct vocabulary *vocabulary, int32_t id)
{
    if (id < 0 || (size_t)id >= vocabulary->count)
        return (struct span){ 0 };
    const size_t *at = vocabulary->offsets + id;
    return (struct span){ .text = vocabulary->text + at[0], .bytes = at[1] - at[0] };
}

/* Where `token` is, or the free slot where it would be. */
static int32_t *slot_of(const struct vocabulary *vocabulary, struct span token)
{
    const size_t mask = vocabulary->slot_count - 1;
    size_t i = hash(token) & mask;
    while (vocabulary->slots[i] >= 0 &&
           !equal(token, vocabulary_token(vocabulary, vocabulary->slots[i])))
        i = (i + 1) & mask;
    return &vocabulary->slots[i];
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, struct span token)
{
    return *slot_of(vocabulary, token);
}

int32_t vocabulary_unknown_id(const struct vocabulary *vocabulary)
{
    return vocabulary->unknown_id;
}

/* Reserves for `count` tokens of `bytes` together. */
static int reserve(struct vocabulary *vocabulary, size_t count, size_t bytes)
{
    vocabulary->slot_count = 2;
    while (vocabulary->slot_count < 2 * count)
        vocabulary->slot_count *= 2;
    vocabulary->text = mem_alloc(bytes, 1);
    vocabulary->offsets = mem_alloc(count + 1, sizeof *vocabulary->offsets);
    vocabulary->slots = mem_alloc(vocabulary->slot_count, sizeof *vocabulary->slots);
    if (!vocabulary->text || !vocabulary->offsets || !vocabulary->slots)
        return -1;
    memset(vocabulary->slots, 0xff, vocabulary->slot_count * sizeof *vocabulary->slots);
    return 0;
}

/* Appends; −1 when the token is there already. */
static int add(struct vocabulary *vocabulary, struct span token)
{
    const size_t id = vocabulary->count;
    const size_t begin = vocabulary->offsets[id];
    int32_t *slot = slot_of(vocabulary, token);
    if (*slot >= 0)
        return -1;
    memcpy(vocabulary->text + begin, token.text, token.bytes);
    vocabulary->offsets[id + 1] = begin + token.bytes;
    *slot = (int32_t)id;
    vocabulary->count++;
    return 0;
}

static int check_list(const json_t *list, size_t count_max, size_t *bytes, const char *file,
                      const char *field, struct error *err)
{
    if (!json_is_array(list))
        return error_set(err, ERR_BAD_MODEL, "%s: %s is not a list of tokens", file, field);
    const size_t count = json_array_size(list);
    if (count > count_max)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: %s has %zu tokens, the model's vocabulary has %zu", file, field,
                         count, count_max);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_string(item))
            return error_set(err, ERR_BAD_MODEL, "%s: %s[%zu] is not a string", file, field, i);
        *bytes += json_string_length(item);
    }
    return 0;
}

static int fill(struct vocabulary *vocabulary, const json_t *list, const char *file,
                const char *field, struct error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const struct span token = { json_string_value(item), json_string_length(item) };
        if (add(vocabulary, token) < 0)
            return error_set(err, ERR_BAD_MODEL, "%s: %s[%zu] \"%.64s\" is in the list twice", file,
                             field, i, token.text);
    }
    const struct span unknown = { VOCABULARY_UNKNOWN, strlen(VOCABULARY_UNKNOWN) };
    vocabulary->unknown_id = vocabulary_find(vocabulary, unknown);
    if (vocabulary->unknown_id < 0)
        return error_set(err, ERR_BAD_MODEL, "%s: %s has no \"%s\"", file, field,
                         VOCABULARY_UNKNOWN);
    return 0;
}

int vocabulary_create(struct vocabulary **out, const json_t *list, size_t count_max,
                      const char *file, const char *field, struct error *err)
{
    assert(count_max <= INT32_MAX);
    size_t bytes = 0;
    struct vocabulary *vocabulary = NULL;
    *out = NULL;
    if (check_list(list, count_max, &bytes, file, field, err) < 0)
        goto fail;
    vocabulary = mem_alloc(1, sizeof *vocabulary);
    if (!vocabulary || reserve(vocabulary, json_array_size(list), bytes) < 0) {
        error_set(err, ERR_NO_MEMORY, "%s: no memory for %s", file, field);
        goto fail;
    }
    if (fill(vocabulary, list, file, field, err) < 0)
        goto fail;
    *out = vocabulary;
    return 0;

fail:
    vocabulary_destroy(&vocabulary);
    return -1;
}

void vocabulary_destroy(struct vocabulary **vocabulary)
{
    struct vocabulary *v = *vocabulary;
    if (!v)
        return;
    mem_free(v->text);
    mem_free(v->offsets);
    mem_free(v->slots);
    mem_free(v);
    *vocabulary = NULL;
}
