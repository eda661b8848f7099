#include "fields.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static bool is_listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

int fields_known(json_t *object, const char *const *common, const char *const *own,
                 const char *hint, struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value)
        if (!is_listed(common, name) && !is_listed(own, name))
            return error_at(err, ERR_UNKNOWN_FIELD, name, "there is no field \"%s\" here%s", name,
                            hint);
    return 0;
}

static int wrong_type(const char *param, const json_t *json, const char *wanted, struct error *err)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a fraction", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    return error_at(err, ERR_WRONG_TYPE, param, "%s is %s; it must be %s", param,
                    kinds[json_typeof(json)], wanted);
}

int fields_bool(const json_t *object, const char *name, bool *value, struct error *err)
{
    const json_t *json = json_object_get(object, name);
    if (!json)
        return 0;
    if (!json_is_boolean(json))
        return wrong_type(name, json, "true or false", err);
    *value = json_is_true(json);
    return 0;
}

int fields_integer(const json_t *object, const char *name, int64_t min, int64_t max, int64_t *value,
                   struct error *err)
{
    const json_t *json = json_object_get(object, name);
    if (!json)
        return 0;
    if (!json_is_integer(json))
        return wrong_type(name, json, "an integer", err);
    const int64_t given = json_integer_value(json);
    if (given < min || given > max)
        return error_at(err, ERR_OUT_OF_RANGE, name, "%s is %lld; it must be in %lld..%lld", name,
                        (long long)given, (long long)min, (long long)max);
    *value = given;
    return 0;
}

int fields_text(const json_t *object, const char *name, const char **value, struct error *err)
{
    const json_t *json = json_object_get(object, name);
    if (!json)
        return 0;
    if (!json_is_string(json))
        return wrong_type(name, json, "a string", err);
    *value = json_string_value(json);
    return 0;
}

int fields_choice(const json_t *object, const char *name, const char *const *names, int *value,
                  struct error *err)
{
    const char *text = NULL;
    if (fields_text(object, name, &text, err) < 0)
        return -1;
    if (!text)
        return 0;
    char list[128] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *value = i;
            return 0;
        }
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    return error_at(err, ERR_OUT_OF_RANGE, name, "%s is \"%.64s\"; it must be one of %s", name,
                    text, list);
}

int fields_id_rows(struct row_field *field, const json_t *object, const char *name,
                   struct error *err)
{
    const json_t *json = json_object_get(object, name);
    *field = (struct row_field){ .json = json, .name = name };
    if (!json)
        return 0;
    if (!json_is_array(json))
        return wrong_type(name, json, "an array", err);
    field->count = json_array_size(json);
    field->single = field->count && !json_is_array(json_array_get(json, 0));
    if (field->single)
        field->count = 1;
    for (size_t i = 0; !field->single && i < field->count; i++) {
        char param[FIELD_PARAM_MAX];
        fields_row_param(field, i, param);
        if (!json_is_array(json_array_get(json, i)))
            return wrong_type(param, json_array_get(json, i), "an array", err);
    }
    return 0;
}

int fields_text_rows(struct row_field *field, const json_t *object, const char *name,
                     struct error *err)
{
    const json_t *json = json_object_get(object, name);
    *field = (struct row_field){ .json = json, .name = name };
    if (!json)
        return 0;
    if (!json_is_array(json) && !json_is_string(json))
        return wrong_type(name, json, "a string or an array of strings", err);
    field->single = json_is_string(json);
    field->count = field->single ? 1 : json_array_size(json);
    for (size_t i = 0; i < field->count; i++) {
        char param[FIELD_PARAM_MAX];
        fields_row_param(field, i, param);
        if (!json_is_string(fields_row(field, i)))
            return wrong_type(param, fields_row(field, i), "a string", err);
    }
    return 0;
}

const json_t *fields_row(const struct row_field *field, size_t index)
{
    return field->single ? field->json : json_array_get(field->json, index);
}

void fields_row_param(const struct row_field *field, size_t index, char param[FIELD_PARAM_MAX])
{
    if (field->single)
        snprintf(param, FIELD_PARAM_MAX, "%s", field->name);
    else
        snprintf(param, FIELD_PARAM_MAX, "%s[%zu]", field->name, index);
}

static int check_id(const json_t *json, const char *row_param, size_t place, size_t vocabulary,
                    const char *side, struct error *err)
{
    if (json_is_integer(json) && json_integer_value(json) >= 0 &&
        (uint64_t)json_integer_value(json) < vocabulary)
        return 0;
    char param[FIELD_PARAM_MAX + 24];
    snprintf(param, sizeof param, "%s[%zu]", row_param, place);
    if (!json_is_integer(json))
        return wrong_type(param, json, "an integer", err);
    return error_at(err, ERR_TOKEN_OUT_OF_RANGE, param,
                    "%s is %lld; this model's %s vocabulary is 0..%zu", param,
                    (long long)json_integer_value(json), side, vocabulary - 1);
}

int fields_ids(const struct row_field *field, size_t index, size_t vocabulary, const char *side,
               int32_t **ids, size_t *count, struct error *err)
{
    const json_t *row = fields_row(field, index);
    char param[FIELD_PARAM_MAX];
    fields_row_param(field, index, param);
    const size_t n = json_array_size(row);
    int32_t *list = mem_alloc(n, sizeof *list);
    if (!list)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(row, i);
        if (check_id(id, param, i, vocabulary, side, err) < 0) {
            mem_free(list);
            return -1;
        }
        list[i] = (int32_t)json_integer_value(id);
    }
    *ids = list;
    *count = n;
    return 0;
}
