/* config_table.h — the table of configuration keys, and how a text becomes a value of one. */
#ifndef APP_CONFIG_TABLE_H
#define APP_CONFIG_TABLE_H

#include "app/configuration.h"
#include "base/buffer.h"

enum config_kind {
    CONFIG_BOOL,   /* bool: true or false */
    CONFIG_COUNT,  /* uint64_t */
    CONFIG_BYTES,  /* uint64_t; a number with KiB, MiB, GiB or nothing */
    CONFIG_TEXT,   /* char * */
    CONFIG_LISTEN, /* char *, and configuration.listen */
    CONFIG_CHOICE, /* const char *, one of `choices` */
    CONFIG_TEXTS,  /* char **, NULL-terminated; as one text separated by commas */
    CONFIG_HOSTS   /* the same, of names */
};

struct config_key {
    const char *name; /* "server.listen": --server.listen, SEQD_SERVER_LISTEN */
    enum config_kind kind;
    const char *unit; /* of a number */
    const char
        *initial; /* the default as a text, or the name of a key of numbers whose value it is */
    uint64_t min, max;          /* of a number */
    const char *const *choices; /* NULL-terminated */
    const char *short_name;     /* "listen": --listen, SEQD_LISTEN; or NULL */
    size_t offset;              /* in struct configuration */
    const char *reason;
};

static inline bool config_key_is_list(const struct config_key *key)
{
    return key->kind == CONFIG_TEXTS || key->kind == CONFIG_HOSTS;
}

extern const struct config_key config_keys[];
extern const size_t config_key_count;

extern const char *const config_log_levels[]; /* in the order of enum log_level; NULL-terminated */

/* NULL: no key of that name. */
const struct config_key *config_key_find(const char *name);
/* The place of the first key of the section; config_key_count: no such section. */
size_t config_section_find(const char *section);

/* Sets the value.  `where` leads the message: "seqd.yaml:7", "--server.threads".
 * Errors: ERR_CONFIG, ERR_NO_MEMORY; the value is as before. */
int config_key_set(const struct config_key *key, struct configuration *config, const char *text,
                   enum config_origin origin, const char *where, struct error *err);

/* Copies the value of the key that an untouched key follows. */
void config_key_resolve(const struct config_key *key, struct configuration *config);

/* Appends the value as config_key_set() reads it. */
void config_key_print(const struct config_key *key, const struct configuration *config,
                      struct buffer *out);
/* Appends "1 to 64", "true or false", … */
void config_key_print_range(const struct config_key *key, struct buffer *out);

/* Appends the whole table as a YAML file with the defaults: config/seqd.yaml. */
void config_help_print(struct buffer *out);

/* Frees what the key owns in `config`. */
void config_key_clear(const struct config_key *key, struct configuration *config);

#endif
