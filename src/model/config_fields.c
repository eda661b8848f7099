#include "config_fields.h"

#include <stdio.h>
#include <string.h>

static int wrong(const struct field *field, const json_t *value, const char *file,
                 struct error *err)
{
    char text[64] = "";
    const size_t length = json_dumpb(value, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    text[length < sizeof text ? length : sizeof text - 1] = '\0';
    char set[256] = "";
    if (field->kind == FIELD_SIZE || field->kind == FIELD_FLOAT)
        snprintf(set, sizeof set, "a number from %g to %g", field->min, field->max);
    else if (field->kind == FIELD_BOOL)
        snprintf(set, sizeof set, "true or false");
    else if (field->kind == FIELD_ID)
        snprintf(set, sizeof set, "a token id");
    for (size_t i = 0; field->kind == FIELD_CHOICE && field->choices[i]; i++)
        snprintf(set + strlen(set), sizeof set - strlen(set), "%s\"%s\"", i ? ", " : "one of ",
                 field->choices[i]);
    return error_set(err, ERR_BAD_MODEL, "%s: \"%s\" is %s; it must be %s", file, field->name, text,
                     set);
}

static bool in_range(const struct field *field, double value)
{
    return value >= field->min && value <= field->max;
}

static bool read_choice(const struct field *field, const json_t *value, void *place)
{
    for (size_t i = 0; json_is_string(value) && field->choices[i]; i++) {
        if (strcmp(field->choices[i], json_string_value(value)) == 0) {
            const int chosen = (int)i;
            memcpy(place, &chosen, sizeof chosen);
            return true;
        }
    }
    return false;
}

/* False: the value has the wrong type or is out of range. */
static bool read_field(const struct field *field, const json_t *value, void *place)
{
    switch (field->kind) {
    case FIELD_SIZE:
        if (!json_is_integer(value) || !in_range(field, (double)json_integer_value(value)))
            return false;
        *(size_t *)place = (size_t)json_integer_value(value);
        return true;
    case FIELD_FLOAT:
        if (!json_is_number(value) || !in_range(field, json_number_value(value)))
            return false;
        *(float *)place = (float)json_number_value(value);
        return true;
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return false;
        *(bool *)place = json_is_true(value);
        return true;
    case FIELD_CHOICE:
        return read_choice(field, value, place);
    case FIELD_ID:
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            json_integer_value(value) > INT32_MAX)
            return false;
        *(int32_t *)place = (int32_t)json_integer_value(value);
        return true;
    }
    return false;
}

int fields_read(void *target, const struct field *fields, size_t count, const json_t *json,
                const char *file, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(json, fields[i].name);
        if (!value || json_is_null(value))
            continue;
        if (!read_field(&fields[i], value, (char *)target + fields[i].offset))
            return wrong(&fields[i], value, file, err);
    }
    return 0;
}

bool fields_have(const struct field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return true;
    return false;
}
