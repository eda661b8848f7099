/* Options as plain values again, for those who ask what a model's defaults are. */
#include "base/mem.h"
#include "options_table.h"
#include "phrases.h"

static const void *field_of(const struct options *options, const struct option *option)
{
    return (const char *)options + option->offset;
}

static size_t few_count(const struct options *options, const struct option *option)
{
    return *(const size_t *)(const void *)((const char *)options + option->count);
}

static const struct phrases *list_of(const struct options *options, const struct option *option)
{
    return *(struct phrases *const *)field_of(options, option);
}

/* The option's current number: what was stored, in reverse.  Lists: how many items. */
static double load(const struct options *options, const struct option *option)
{
    const void *const field = field_of(options, option);
    switch (option->kind) {
    case KIND_COUNT: {
        const size_t count = *(const size_t *)field;
        return count == SIZE_MAX ? -1 : (double)count;
    }
    case KIND_SEED:
        return (double)*(const uint64_t *)field;
    case KIND_REAL:
    case KIND_DECAY:
        return *(const double *)field;
    case KIND_FLAG:
        return *(const bool *)field;
    case KIND_TOKEN:
    case KIND_MODEL_TOKEN:
    case KIND_START:
        return *(const int32_t *)field;
    case KIND_FEW_TOKENS:
        return few_count(options, option) == 0 ? -1 : *(const int32_t *)field;
    case KIND_EARLY_STOPPING:
        return (double)options->early_stopping;
    case KIND_LOGPROBS:
        return options->logprobs     ? (double)options->top_logprobs
               : options->no_logprob ? LOGPROBS_FALSE
                                     : -1;
    case KIND_TOKEN_LIST:
    case KIND_WORD_LIST:
    case KIND_BIAS_LIST:
        return list_of(options, option) ? (double)list_of(options, option)->count : 0;
    case KIND_NOT_BUILT:
        break;
    }
    return option->initial;
}

static struct value integer(int64_t number)
{
    return (struct value){ .kind = VALUE_INT, .integer = number };
}

static struct value real(double number)
{
    return (struct value){ .kind = VALUE_REAL, .real = number };
}

/* A list of `count` nulls; null when there is no memory. */
static struct value list(size_t count)
{
    struct value *const items = mem_alloc(count, sizeof *items);
    if (!items)
        return (struct value){ .kind = VALUE_NULL };
    return (struct value){ .kind = VALUE_LIST, .items = items, .count = count };
}

static struct value list_of_ids(const int32_t *ids, size_t count)
{
    const struct value value = list(count);
    for (size_t i = 0; value.kind == VALUE_LIST && i < count; i++)
        value.items[i] = integer(ids[i]);
    return value;
}

static struct value pair(struct value first, struct value second)
{
    struct value value = list(2);
    if (value.kind == VALUE_LIST) {
        value.items[0] = first;
        value.items[1] = second;
    } else {
        value_clear(&first);
    }
    return value;
}

static struct value list_of_phrases(const struct phrases *phrases, enum option_kind kind)
{
    const struct value value = list(phrases->count);
    for (size_t i = 0; value.kind == VALUE_LIST && i < phrases->count; i++) {
        const struct phrase *const phrase = &phrases->items[i];
        value.items[i] = kind == KIND_TOKEN_LIST ? integer(phrase->ids[0])
                                                 : list_of_ids(phrase->ids, phrase->count);
        if (kind == KIND_BIAS_LIST)
            value.items[i] = pair(value.items[i], real((double)phrase->bias));
    }
    return value;
}

/* What to show; the caller clears it. */
static struct value value_of(const struct options *options, const struct option *option)
{
    const double number = load(options, option);
    if (option->kind == KIND_REAL)
        return real(number);
    if (option->kind == KIND_FLAG ||
        (option->kind == KIND_EARLY_STOPPING && number != EARLY_STOPPING_NEVER))
        return (struct value){ .kind = VALUE_BOOL, .boolean = number != 0 };
    if (option->kind == KIND_EARLY_STOPPING) {
        char *const never = mem_text("never");
        return (struct value){ .kind = never ? VALUE_TEXT : VALUE_NULL, .text = never };
    }
    if (option->kind == KIND_FEW_TOKENS && few_count(options, option) > 1)
        return list_of_ids(field_of(options, option), few_count(options, option));
    if (option->kind == KIND_DECAY)
        return pair(integer(options->decay_start), real(number));
    if (option_is_list(option))
        return list_of_phrases(list_of(options, option), option->kind);
    return integer((int64_t)number);
}

void options_describe(const struct options *options,
                      void (*each)(void *context, const char *name, const struct value *value),
                      void *context)
{
    const struct option *option;
    for (size_t i = 0; (option = option_at(i)); i++) {
        if (option->kind == KIND_NOT_BUILT || load(options, option) == option->initial)
            continue;
        struct value value = value_of(options, option);
        each(context, option->name, &value);
        value_clear(&value);
    }
}
