/* fields.h — the fields of a JSON request, with errors that name field, value and limit.
 *
 * A field that is absent leaves its value alone.  Nothing is converted: 5.0, "5", true and null are
 * no integers.  Any thread. */
#ifndef HTTP_FIELDS_H
#define HTTP_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { FIELD_PARAM_MAX = 128 };

/* `object` has no other fields than those of the two NULL-terminated lists.  `hint` goes behind the
 * message.  Errors: ERR_UNKNOWN_FIELD. */
int fields_known(json_t *object, const char *const *common, const char *const *own,
                 const char *hint, struct error *err);

/* Errors: ERR_WRONG_TYPE, ERR_OUT_OF_RANGE. */
int fields_bool(const json_t *object, const char *name, bool *value, struct error *err);
int fields_integer(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *value,
                   struct error *err);
/* Borrowed from the object. */
int fields_text(const json_t *object, const char *name, const char **value, struct error *err);
/* *value = the place of the text in the NULL-terminated `names`. */
int fields_choice(const json_t *object, const char *name, const char *const *names, int *value,
                  struct error *err);

/* A field with one entry a row: [[5, 6], [7]] or the single row [5, 6]; ["a", "b"] or "a". */
struct row_field {
    const json_t *json; /* borrowed; NULL: the field is absent */
    const char *name;
    bool single; /* `json` itself is the only row */
    size_t count;
};

/* Rows of numbers, or rows of text.  Errors: ERR_WRONG_TYPE. */
int fields_id_rows(struct row_field *field, const json_t *object, const char *name,
                   struct error *err);
int fields_text_rows(struct row_field *field, const json_t *object, const char *name,
                     struct error *err);

/* The row, and what errors call it: "input_ids[3]", or "input_ids" for a single row. */
const json_t *fields_row(const struct row_field *field, size_t index);
void fields_row_param(const struct row_field *field, size_t index, char param[FIELD_PARAM_MAX]);

/* The token ids of a row, each in 0 … vocabulary−1; *ids is the caller's to mem_free().  `side` is
 * "source" or "target".  Errors: ERR_WRONG_TYPE, ERR_TOKEN_OUT_OF_RANGE, ERR_NO_MEMORY. */
int fields_ids(const struct row_field *field, size_t index, size_t vocabulary, const char *side,
               int32_t **ids, size_t *count, struct error *err);

#endif
