#include "options_read.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

struct option_place option_place(const char *param, const char *name)
{
    struct option_place place;
    snprintf(place.text, sizeof place.text, "%s%s", param, name);
    return place;
}

/* Where in the option's value: indices, outermost first.  Text is made of it for an error only. */
struct spot {
    size_t at[3];
    size_t depth;
};

static const struct spot whole = { .depth = 0 };

static struct spot item(struct spot spot, size_t index)
{
    spot.at[spot.depth++] = index;
    return spot;
}

static struct option_place place_of(const struct reading *reading, struct spot spot)
{
    struct option_place place = option_place(reading->param, reading->option->name);
    for (size_t i = 0; i < spot.depth; i++) {
        const size_t used = strlen(place.text);
        snprintf(place.text + used, sizeof place.text - used, "[%zu]", spot.at[i]);
    }
    return place;
}

static int wrong_type(const struct reading *reading, struct spot spot, const char *wanted)
{
    const struct option_place place = place_of(reading, spot);
    return error_at(reading->err, ERR_WRONG_TYPE, place.text, "%s must be %s", place.text, wanted);
}

static int is_empty(const struct reading *reading, struct spot spot)
{
    const struct option_place place = place_of(reading, spot);
    return error_at(reading->err, ERR_OUT_OF_RANGE, place.text,
                    "%s is empty; it must have a token id", place.text);
}

/* A number in min … max. */
static int read_real(const struct reading *reading, struct spot spot, const struct value *value,
                     double min, double max, const char *range, double *number)
{
    if (value->kind == VALUE_INT)
        *number = (double)value->integer;
    else if (value->kind == VALUE_REAL)
        *number = value->real;
    else
        return wrong_type(reading, spot, range);
    if (*number >= min && *number <= max)
        return 0;
    const struct option_place place = place_of(reading, spot);
    return error_at(reading->err,
                    option_is_token(reading->option) ? ERR_TOKEN_OUT_OF_RANGE : ERR_OUT_OF_RANGE,
                    place.text, "%s is %.16g; it must be %s", place.text, *number, range);
}

static int read_early_stopping(const struct reading *reading, const struct value *value,
                               double *number)
{
    if (value->kind == VALUE_BOOL)
        *number = value->boolean ? EARLY_STOPPING_TRUE : EARLY_STOPPING_FALSE;
    else if (value->kind == VALUE_TEXT && strcmp(value->text, "never") == 0)
        *number = EARLY_STOPPING_NEVER;
    else
        return wrong_type(reading, whole, reading->option->range);
    return 0;
}

int option_read_number(const struct reading *reading, const struct value *value, double *number)
{
    const struct option *const option = reading->option;
    if (option->kind == KIND_EARLY_STOPPING)
        return read_early_stopping(reading, value, number);
    if (option->kind == KIND_FLAG && value->kind == VALUE_BOOL) {
        *number = value->boolean;
        return 0;
    }
    if (option->kind == KIND_LOGPROBS && value->kind == VALUE_BOOL && !value->boolean) {
        *number = LOGPROBS_FALSE;
        return 0;
    }
    if (option->kind == KIND_FLAG || (option->kind != KIND_REAL && value->kind == VALUE_REAL))
        return wrong_type(reading, whole, option->range);
    return read_real(reading, whole, value, option->min, option->max, option->range, number);
}

static int read_id(const struct reading *reading, struct spot spot, const struct value *value,
                   int32_t *id)
{
    const size_t vocabulary = reading->limits->vocabulary;
    if (value->kind != VALUE_INT)
        return wrong_type(reading, spot, "a token id");
    if (value->integer < 0 || (uint64_t)value->integer >= vocabulary) {
        const struct option_place place = place_of(reading, spot);
        return error_at(reading->err, ERR_TOKEN_OUT_OF_RANGE, place.text,
                        "%s is %lld; this model's target vocabulary is 0..%zu", place.text,
                        (long long)value->integer, vocabulary - 1);
    }
    *id = (int32_t)value->integer;
    return 0;
}

static int read_ids(const struct reading *reading, struct spot spot, const struct value *items,
                    size_t count, int32_t *ids)
{
    for (size_t i = 0; i < count; i++)
        if (read_id(reading, item(spot, i), &items[i], &ids[i]) < 0)
            return -1;
    return 0;
}

int option_read_few(const struct reading *reading, const struct value *value, int32_t ids[EOS_MAX],
                    size_t *count)
{
    *count = 1;
    if (value->kind == VALUE_INT)
        return read_id(reading, whole, value, ids);
    if (value->kind != VALUE_LIST)
        return wrong_type(reading, whole, reading->option->range);
    *count = value->count;
    if (value->count <= EOS_MAX)
        return read_ids(reading, whole, value->items, value->count, ids);
    const struct option_place place = place_of(reading, whole);
    return error_at(reading->err, ERR_OUT_OF_RANGE, place.text, "%s has %zu ids; it must be %s",
                    place.text, value->count, reading->option->range);
}

int option_read_decay(const struct reading *reading, const struct value *value, int64_t *start,
                      double *factor)
{
    const struct option *const option = reading->option;
    const struct value *const items = value->items;
    double number = 0;
    if (value->kind != VALUE_LIST || value->count != 2)
        return wrong_type(reading, whole, "a pair [start, factor]");
    if (items[0].kind != VALUE_INT)
        return wrong_type(reading, item(whole, 0), "an integer");
    if (read_real(reading, item(whole, 0), &items[0], INT32_MIN, INT32_MAX, "an integer of 32 bits",
                  &number) < 0)
        return -1;
    *start = items[0].integer;
    return read_real(reading, item(whole, 1), &items[1], option->min, option->max, option->range,
                     factor);
}

/* The ids of one phrase, borrowed from the value. */
struct word {
    const struct value *ids;
    size_t count;
    struct spot spot;
};

/* Checks the form of a list's item, but not yet the ids. */
static int find_word(const struct reading *reading, const struct value *list, size_t index,
                     struct word *word)
{
    const struct value *ids = &list->items[index];
    word->spot = item(whole, index);
    if (reading->option->kind == KIND_TOKEN_LIST) {
        word->ids = ids;
        word->count = 1;
        return 0;
    }
    if (reading->option->kind == KIND_BIAS_LIST) {
        if (ids->kind != VALUE_LIST || ids->count != 2)
            return wrong_type(reading, word->spot, "a pair [[token id, …], bias]");
        ids = &ids->items[0];
        word->spot = item(word->spot, 0);
    }
    if (ids->kind != VALUE_LIST)
        return wrong_type(reading, word->spot, "a list of token ids");
    if (ids->count == 0)
        return is_empty(reading, word->spot);
    word->ids = ids->items;
    word->count = ids->count;
    return 0;
}

/* The form of the whole list, and how many ids it has. */
static int check_list(const struct reading *reading, const struct value *list, size_t *id_count)
{
    *id_count = 0;
    if (list->kind != VALUE_LIST)
        return wrong_type(reading, whole, reading->option->range);
    if (list->count == 0 && reading->option->never_empty)
        return is_empty(reading, whole);
    for (size_t i = 0; i < list->count; i++) {
        struct word word;
        if (find_word(reading, list, i, &word) < 0)
            return -1;
        *id_count += word.count;
    }
    if (*id_count <= reading->limits->option_tokens_max)
        return 0;
    const struct option_place place = place_of(reading, whole);
    return error_at(reading->err, ERR_OVER_LIMIT, place.text,
                    "%s has %zu token ids; limits.option_tokens is %zu", place.text, *id_count,
                    reading->limits->option_tokens_max);
}

static int read_bias(const struct reading *reading, const struct value *list, size_t index,
                     float *bias)
{
    const double most = FLT_MAX;
    double number = 0;
    if (read_real(reading, item(item(whole, index), 1), &list->items[index].items[1], -most, most,
                  FINITE_RANGE, &number) < 0)
        return -1;
    *bias = (float)number;
    return 0;
}

static int read_phrase(const struct reading *reading, const struct value *list, size_t index,
                       int32_t *ids, struct phrase *phrase)
{
    struct word word;
    if (find_word(reading, list, index, &word) < 0)
        return -1;
    *phrase = (struct phrase){ .ids = ids, .count = (uint32_t)word.count };
    if (reading->option->kind == KIND_TOKEN_LIST)
        return read_id(reading, word.spot, word.ids, ids);
    if (read_ids(reading, word.spot, word.ids, word.count, ids) < 0)
        return -1;
    return reading->option->kind == KIND_BIAS_LIST ? read_bias(reading, list, index, &phrase->bias)
                                                   : 0;
}

int option_read_list(const struct reading *reading, const struct value *value,
                     struct phrases **phrases)
{
    size_t id_count;
    *phrases = NULL;
    if (check_list(reading, value, &id_count) < 0)
        return -1;
    if (value->count == 0)
        return 0;
    struct phrases *const read = phrases_create(value->count, id_count);
    if (!read)
        return error_set(reading->err, ERR_NO_MEMORY, "no memory for %zu token ids", id_count);
    int32_t *ids = read->ids;
    for (size_t i = 0; i < value->count; i++) {
        if (read_phrase(reading, value, i, ids, &read->items[i]) < 0) {
            phrases_drop(read);
            return -1;
        }
        ids += read->items[i].count;
    }
    phrases_sort(read);
    *phrases = read;
    return 0;
}
