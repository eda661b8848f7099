/* config_fields.h — reading the fields of a config.json by a table.  Private to src/model. */
#ifndef MODEL_CONFIG_FIELDS_H
#define MODEL_CONFIG_FIELDS_H

#include <jansson.h>

#include "model/config.h"

enum field_kind {
    FIELD_SIZE,
    FIELD_FLOAT,
    FIELD_BOOL,
    FIELD_CHOICE,
    FIELD_ID,
    FIELD_IDS,       /* an id or a list of ids: the first */
    FIELD_ACTIVATION /* one of the reference's names of activations */
};

/* One field.  A value outside its range or set is an error, null counts as absent. */
struct field {
    const char *name;
    enum field_kind kind;
    size_t offset; /* of a size_t, float, bool, enum or int32_t in the caller's struct */
    const char *const *choices; /* CHOICE: NULL-terminated, in the order of the enum */
    double min, max;            /* SIZE, FLOAT */
};

/* Fills `target` from the fields that `json` has; what it lacks keeps its value.  `file` is for
 * errors. */
int fields_read(void *target, const struct field *fields, size_t count, const json_t *json,
                const char *file, struct error *err);

/* The reference's common name of a field, which a file may have in place of the class's own. */
struct field_alias {
    struct field field;
    const char *own;
    bool must_agree; /* if a file has both; else the own one counts, and tensors tell if it fits */
};

/* As fields_read().  Errors: also names that must agree and do not. */
int fields_read_aliases(void *target, const struct field_alias *aliases, size_t count,
                        const json_t *json, const char *file, struct error *err);

/* Is `name` in the table? */
bool fields_have(const struct field *fields, size_t count, const char *name);

/* The activation that the reference calls `name`; false: none of ours. */
bool activation_find(const char *name, enum activation *activation);

#endif
