#include "search/options.h"

#include <string.h>

#include "options_read.h"

static void *field_of(struct options *options, const struct option *option)
{
    return (char *)options + option->offset;
}

static void store_few(struct options *options, const struct option *option,
                      const int32_t ids[EOS_MAX], size_t count)
{
    int32_t *const field = field_of(options, option);
    for (size_t i = 0; i < count; i++)
        field[i] = ids[i];
    *(size_t *)(void *)((char *)options + option->count) = count;
}

/* Takes over the list, which may be NULL. */
static void store_list(struct options *options, const struct option *option,
                       struct phrases *phrases)
{
    struct phrases **const field = field_of(options, option);
    phrases_drop(*field);
    *field = phrases;
}

/* Writes a number that is in the option's range, or its default or off value. */
static void store(struct options *options, const struct option *option, double number)
{
    void *const field = field_of(options, option);
    switch (option->kind) {
    case KIND_COUNT:
        *(size_t *)field = number < 0 ? SIZE_MAX : (size_t)number;
        break;
    case KIND_SEED:
        *(uint64_t *)field = (uint64_t)number;
        break;
    case KIND_REAL:
    case KIND_DECAY:
        *(double *)field = number;
        break;
    case KIND_FLAG:
        *(bool *)field = number != 0;
        break;
    case KIND_TOKEN:
    case KIND_MODEL_TOKEN:
        *(int32_t *)field = (int32_t)number;
        break;
    case KIND_START:
        options->start_id = number < 0 ? options->bos_id : (int32_t)number;
        break;
    case KIND_FEW_TOKENS: /* a number below 0, the only one that comes here, is none */
        store_few(options, option, NULL, 0);
        break;
    case KIND_EARLY_STOPPING:
        options->early_stopping = (enum early_stopping)number;
        break;
    case KIND_LOGPROBS:
        options->no_logprob = number == LOGPROBS_FALSE;
        options->logprobs = number >= 0;
        options->top_logprobs = number < 0 ? 0 : (size_t)number;
        break;
    case KIND_TOKEN_LIST:
    case KIND_WORD_LIST:
    case KIND_BIAS_LIST:
        store_list(options, option, NULL);
        break;
    case KIND_NOT_BUILT:
        break;
    }
}

void options_init(struct options *options)
{
    const struct option *option;
    *options = (struct options){ .bos_id = -1 };
    for (size_t i = 0; (option = option_at(i)); i++)
        store(options, option, option->initial);
}

void options_copy(struct options *copy, const struct options *options)
{
    *copy = *options;
    for (size_t i = 0; i < LIST_COUNT; i++)
        phrases_hold(copy->lists[i]);
}

void options_clear(struct options *options)
{
    for (size_t i = 0; i < LIST_COUNT; i++) {
        phrases_drop(options->lists[i]);
        options->lists[i] = NULL;
    }
}

static bool is_neutral(const struct option *option, const struct value *value)
{
    return value->kind == VALUE_NULL || (value->kind == VALUE_BOOL && !value->boolean) ||
           (value->kind == VALUE_LIST && value->count == 0) ||
           (value->kind == VALUE_INT && (double)value->integer == option->initial) ||
           (value->kind == VALUE_REAL && value->real == option->initial);
}

static int refuse(const struct reading *reading, enum error_code code, const char *name,
                  const char *why)
{
    const struct option_place place = option_place(reading->param, name);
    return error_at(reading->err, code, place.text, "%s %s", place.text, why);
}

static int set_few(struct options *options, const struct reading *reading,
                   const struct value *value)
{
    int32_t ids[EOS_MAX];
    size_t count;
    if (option_read_few(reading, value, ids, &count) < 0)
        return -1;
    store_few(options, reading->option, ids, count);
    return 0;
}

static int set_list(struct options *options, const struct reading *reading,
                    const struct value *value)
{
    struct phrases *phrases;
    if (option_read_list(reading, value, &phrases) < 0)
        return -1;
    store_list(options, reading->option, phrases);
    return 0;
}

static int set_decay(struct options *options, const struct reading *reading,
                     const struct value *value)
{
    int64_t start;
    double factor;
    if (option_read_decay(reading, value, &start, &factor) < 0)
        return -1;
    options->decay_start = start;
    options->decay_factor = factor;
    return 0;
}

/* `value` is not null. */
static int set_value(struct options *options, const struct reading *reading,
                     const struct value *value)
{
    const struct option *const option = reading->option;
    double number;
    if (option->kind == KIND_NOT_BUILT)
        return is_neutral(option, value)
                   ? 0
                   : refuse(reading, ERR_UNSUPPORTED, option->name, "is not supported");
    if (option->kind == KIND_FEW_TOKENS)
        return set_few(options, reading, value);
    if (option->kind == KIND_DECAY)
        return set_decay(options, reading, value);
    if (option_is_list(option))
        return set_list(options, reading, value);
    if (option_read_number(reading, value, &number) < 0)
        return -1;
    store(options, option, number);
    return 0;
}

int options_set(struct options *options, const char *name, const struct value *value,
                const struct option_limits *limits, const char *param, struct error *err)
{
    const struct option *const option = option_find(name);
    const struct reading reading = {
        .option = option, .limits = limits, .param = param, .err = err
    };
    const bool null = value->kind == VALUE_NULL;
    if (!option)
        return refuse(&reading, ERR_UNKNOWN_FIELD, name, "is not an option");
    if (option->kind == KIND_MODEL_TOKEN)
        return null ? 0 : refuse(&reading, ERR_UNSUPPORTED, name, "is set by the model alone");
    if (null)
        store(options, option, option->off);
    else if (set_value(options, &reading, value) < 0)
        return -1;
    if (option->given)
        *(bool *)((char *)options + option->given) = !null;
    return 0;
}

static bool samples(const struct settings *defaults)
{
    for (size_t i = 0; i < defaults->count; i++)
        if (strcmp(defaults->items[i].name, "do_sample") == 0)
            return defaults->items[i].value.kind == VALUE_BOOL && defaults->items[i].value.boolean;
    return false;
}

/* Folders that do not sample may say a temperature of 0; the reference does not look at it. */
static bool is_idle(const struct setting *setting, const struct settings *defaults)
{
    const struct value *value = &setting->value;
    const bool zero = (value->kind == VALUE_REAL && value->real == 0) ||
                      (value->kind == VALUE_INT && value->integer == 0);
    return zero && strcmp(setting->name, "temperature") == 0 && !samples(defaults);
}

int options_set_defaults(struct options *options, const struct settings *defaults,
                         const struct option_limits *limits, struct error *err)
{
    for (size_t i = 0; i < defaults->count; i++) {
        const struct option *const option = option_find(defaults->items[i].name);
        const struct value *const value = &defaults->items[i].value;
        const struct reading reading = {
            .option = option, .limits = limits, .param = "", .err = err
        };
        if (!option || option->request_alone || value->kind == VALUE_NULL ||
            is_idle(&defaults->items[i], defaults))
            continue;
        if (set_value(options, &reading, value) < 0)
            return -1;
    }
    if (options->start_id < 0)
        options->start_id = options->bos_id;
    return 0;
}

size_t options_width(const struct options *options)
{
    return options->do_sample ? options->num_return_sequences : options->num_beams;
}
