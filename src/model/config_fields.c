#include "config_fields.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum activation activation;
} activations[] = {
    { "relu", ACTIVATION_RELU },
    { "gelu", ACTIVATION_GELU },
    { "gelu_python", ACTIVATION_GELU },
    { "gelu_new", ACTIVATION_GELU_TANH },
    { "gelu_fast", ACTIVATION_GELU_TANH },
    { "gelu_accurate", ACTIVATION_GELU_TANH },
    { "gelu_pytorch_tanh", ACTIVATION_GELU_TANH },
    { "gelu_python_tanh", ACTIVATION_GELU_TANH },
    { "quick_gelu", ACTIVATION_GELU_QUICK },
    { "silu", ACTIVATION_SILU },
    { "swish", ACTIVATION_SILU },
    { "tanh", ACTIVATION_TANH },
    { "sigmoid", ACTIVATION_SIGMOID },
    { "relu6", ACTIVATION_RELU6 },
    { "relu2", ACTIVATION_RELU_SQUARED },
};
enum { ACTIVATION_NAMES = sizeof activations / sizeof *activations };

bool activation_find(const char *name, enum activation *activation)
{
    for (size_t i = 0; name && i < ACTIVATION_NAMES; i++) {
        if (strcmp(activations[i].name, name) == 0) {
            *activation = activations[i].activation;
            return true;
        }
    }
    return false;
}

const char *activation_name(enum activation activation)
{
    size_t i = 0;
    while (activations[i].activation != activation)
        i++;
    return activations[i].name;
}

static int wrong(const struct field *field, const json_t *value, const char *file,
                 struct error *err)
{
    char text[64] = "";
    const size_t length = json_dumpb(value, text, sizeof text - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    text[length < sizeof text ? length : sizeof text - 1] = '\0';
    char set[320] = "";
    if (field->kind == FIELD_SIZE || field->kind == FIELD_FLOAT)
        snprintf(set, sizeof set, "a number from %g to %g", field->min, field->max);
    else if (field->kind == FIELD_BOOL)
        snprintf(set, sizeof set, "true or false");
    else if (field->kind == FIELD_ID || field->kind == FIELD_IDS)
        snprintf(set, sizeof set, "a token id%s", field->kind == FIELD_IDS ? " or a list" : "");
    for (size_t i = 0; field->kind == FIELD_ACTIVATION && i < ACTIVATION_NAMES; i++)
        snprintf(set + strlen(set), sizeof set - strlen(set), "%s%s", i ? ", " : "one of ",
                 activations[i].name);
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

static bool read_id(const json_t *value, int32_t *place)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > INT32_MAX)
        return false;
    *place = (int32_t)json_integer_value(value);
    return true;
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
        return read_id(value, place);
    case FIELD_IDS:
        return read_id(json_is_array(value) ? json_array_get(value, 0) : value, place);
    case FIELD_ACTIVATION:
        return activation_find(json_string_value(value), place);
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

int fields_read_aliases(void *target, const struct field_alias *aliases, size_t count,
                        const json_t *json, const char *file, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = aliases[i].field.name, *own_name = aliases[i].own;
        const json_t *own = json_object_get(json, own_name), *value = json_object_get(json, name);
        if (!own || json_is_null(own)) {
            if (fields_read(target, &aliases[i].field, 1, json, file, err) < 0)
                return -1;
        } else if (aliases[i].must_agree && json_is_integer(value) && !json_equal(own, value)) {
            return error_set(err, ERR_BAD_MODEL,
                             "%s: \"%s\" is %lld, but \"%s\", another name of the same, is %lld",
                             file, own_name, (long long)json_integer_value(own), name,
                             (long long)json_integer_value(value));
        }
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
