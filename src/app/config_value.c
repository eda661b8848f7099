#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "app/config_table.h"
#include "base/mem.h"

/* The value of a number that takes another key's, until config_key_resolve(). */
#define FOLLOWS UINT64_MAX

static const struct {
    const char *suffix;
    unsigned shift;
} byte_units[] = { { "GiB", 30 }, { "MiB", 20 }, { "KiB", 10 }, { "", 0 } };
enum { BYTE_UNIT_COUNT = sizeof byte_units / sizeof *byte_units };

static void *slot(const struct config_key *key, struct configuration *config)
{
    return (char *)config + key->offset;
}

static const void *slot_const(const struct config_key *key, const struct configuration *config)
{
    return (const char *)config + key->offset;
}

static bool is_number(const struct config_key *key)
{
    return key->kind == CONFIG_COUNT || key->kind == CONFIG_BYTES;
}

static void print_bytes(uint64_t bytes, struct buffer *out)
{
    size_t unit = 0;
    while (bytes & ((UINT64_C(1) << byte_units[unit].shift) - 1))
        unit++;
    buffer_printf(out, "%" PRIu64 "%s%s", bytes >> byte_units[unit].shift,
                  byte_units[unit].shift ? " " : "", byte_units[unit].suffix);
}

void config_key_print_range(const struct config_key *key, struct buffer *out)
{
    switch (key->kind) {
    case CONFIG_BOOL:
        buffer_text(out, "true or false");
        break;
    case CONFIG_COUNT:
        buffer_printf(out, "%" PRIu64 " to %" PRIu64 " %s", key->min, key->max, key->unit);
        break;
    case CONFIG_BYTES:
        print_bytes(key->min, out);
        buffer_text(out, " to ");
        print_bytes(key->max, out);
        buffer_text(out, "; a number of bytes, or with KiB, MiB or GiB");
        break;
    case CONFIG_TEXT:
        buffer_text(out, "a text");
        break;
    case CONFIG_LISTEN:
        buffer_text(out, "HOST:PORT");
        break;
    case CONFIG_CHOICE:
        for (size_t i = 0; key->choices[i]; i++)
            buffer_printf(out, "%s%s", i ? " or " : "", key->choices[i]);
        break;
    case CONFIG_TEXTS:
        buffer_text(out, "a list of texts");
        break;
    case CONFIG_HOSTS:
        buffer_text(out, "a list of names, without scheme, port, path, blank or *");
        break;
    }
}

static int refuse(const struct config_key *key, const char *text, const char *where,
                  struct error *err)
{
    struct buffer range;
    buffer_init(&range, 256);
    config_key_print_range(key, &range);
    error_at(err, ERR_CONFIG, key->name, "%s: %s is \"%s\"; allowed: %s", where, key->name, text,
             range.data ? range.data : "");
    buffer_free(&range);
    return -1;
}

/* Digits, then for bytes perhaps a blank and a unit. */
static bool parse_number(const struct config_key *key, const char *text, uint64_t *number)
{
    uint64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    if (p == text)
        return false;
    unsigned shift = 0;
    if (key->kind == CONFIG_BYTES && *p) {
        size_t unit = 0;
        p += *p == ' ';
        while (unit < BYTE_UNIT_COUNT - 1 && strcmp(p, byte_units[unit].suffix) != 0)
            unit++;
        shift = byte_units[unit].shift;
        p += strlen(byte_units[unit].suffix);
    }
    *number = value << shift;
    return *p == '\0' && *number >> shift == value && *number >= key->min && *number <= key->max;
}

static int set_number(const struct config_key *key, struct configuration *config, const char *text,
                      const char *where, struct error *err)
{
    uint64_t number;
    if (strcmp(text, key->initial) == 0 && config_key_find(text))
        number = FOLLOWS;
    else if (!parse_number(key, text, &number))
        return refuse(key, text, where, err);
    *(uint64_t *)slot(key, config) = number;
    return 0;
}

static int set_bool(const struct config_key *key, struct configuration *config, const char *text,
                    const char *where, struct error *err)
{
    const bool yes = strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "false") != 0)
        return refuse(key, text, where, err);
    *(bool *)slot(key, config) = yes;
    return 0;
}

static int set_choice(const struct config_key *key, struct configuration *config, const char *text,
                      const char *where, struct error *err)
{
    for (size_t i = 0; key->choices[i]; i++)
        if (strcmp(key->choices[i], text) == 0) {
            *(const char **)slot(key, config) = key->choices[i];
            return 0;
        }
    return refuse(key, text, where, err);
}

static int no_memory(struct error *err)
{
    return error_set(err, ERR_NO_MEMORY, "no memory for the configuration");
}

static int set_text(const struct config_key *key, struct configuration *config, const char *text,
                    const char *where, struct error *err)
{
    struct listen_address listen;
    if (key->kind == CONFIG_LISTEN) {
        struct error reason = { 0 };
        if (listen_parse(&listen, text, &reason) < 0)
            return error_at(err, ERR_CONFIG, key->name, "%s: %s: %s", where, key->name,
                            reason.message);
    }
    char *copy = mem_text(text);
    if (!copy)
        return no_memory(err);
    config_key_clear(key, config);
    *(char **)slot(key, config) = copy;
    if (key->kind == CONFIG_LISTEN)
        config->listen = listen;
    return 0;
}

static void texts_free(char **texts)
{
    for (size_t i = 0; texts && texts[i]; i++)
        mem_free(texts[i]);
    mem_free(texts);
}

static int set_texts(const struct config_key *key, struct configuration *config, const char *text,
                     const char *where, struct error *err)
{
    size_t commas = 0;
    if (key->kind == CONFIG_HOSTS && strpbrk(text, ":/?#@* \t"))
        return refuse(key, text, where, err); /* no Host header could ever match it */
    for (const char *p = text; *p; p++)
        commas += *p == ',';
    char **texts = mem_alloc(commas + 2, sizeof *texts);
    if (!texts)
        return no_memory(err);
    size_t count = 0;
    while (*text) {
        const size_t length = strcspn(text, ",");
        if (length > 0) {
            char *copy = mem_alloc(length + 1, 1);
            if (!copy) {
                texts_free(texts);
                return no_memory(err);
            }
            memcpy(copy, text, length);
            texts[count++] = copy;
        }
        text += length + (text[length] == ',');
    }
    config_key_clear(key, config);
    *(char ***)slot(key, config) = texts;
    return 0;
}

static int set(const struct config_key *key, struct configuration *config, const char *text,
               const char *where, struct error *err)
{
    switch (key->kind) {
    case CONFIG_BOOL:
        return set_bool(key, config, text, where, err);
    case CONFIG_COUNT:
    case CONFIG_BYTES:
        return set_number(key, config, text, where, err);
    case CONFIG_CHOICE:
        return set_choice(key, config, text, where, err);
    case CONFIG_TEXT:
    case CONFIG_LISTEN:
        return set_text(key, config, text, where, err);
    case CONFIG_TEXTS:
    case CONFIG_HOSTS:
        break;
    }
    return set_texts(key, config, text, where, err);
}

int config_key_set(const struct config_key *key, struct configuration *config, const char *text,
                   enum config_origin origin, const char *where, struct error *err)
{
    if (set(key, config, text, where, err) < 0)
        return -1;
    config->origins[key - config_keys] = origin;
    return 0;
}

void config_key_resolve(const struct config_key *key, struct configuration *config)
{
    if (!is_number(key) || *(uint64_t *)slot(key, config) != FOLLOWS)
        return;
    const struct config_key *leader = config_key_find(key->initial);
    assert(leader && is_number(leader));
    *(uint64_t *)slot(key, config) = *(uint64_t *)slot(leader, config);
}

void config_key_print(const struct config_key *key, const struct configuration *config,
                      struct buffer *out)
{
    const void *value = slot_const(key, config);
    switch (key->kind) {
    case CONFIG_BOOL:
        buffer_text(out, *(const bool *)value ? "true" : "false");
        break;
    case CONFIG_COUNT:
        buffer_printf(out, "%" PRIu64, *(const uint64_t *)value);
        break;
    case CONFIG_BYTES:
        print_bytes(*(const uint64_t *)value, out);
        break;
    case CONFIG_TEXT:
    case CONFIG_LISTEN:
        buffer_text(out, *(char *const *)value);
        break;
    case CONFIG_CHOICE:
        buffer_text(out, *(const char *const *)value);
        break;
    case CONFIG_TEXTS:
    case CONFIG_HOSTS:
        for (char *const *texts = *(char **const *)value, *const *t = texts; *t; t++)
            buffer_printf(out, "%s%s", t == texts ? "" : ",", *t);
        break;
    }
}

void config_key_clear(const struct config_key *key, struct configuration *config)
{
    if (key->kind == CONFIG_TEXT || key->kind == CONFIG_LISTEN) {
        mem_free(*(char **)slot(key, config));
        *(char **)slot(key, config) = NULL;
    }
    if (config_key_is_list(key)) {
        texts_free(*(char ***)slot(key, config));
        *(char ***)slot(key, config) = NULL;
    }
}
