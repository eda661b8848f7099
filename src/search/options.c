#include "search/options.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind {
    KIND_COUNT,          /* size_t; −1 is SIZE_MAX */
    KIND_SEED,           /* uint64_t */
    KIND_REAL,           /* double */
    KIND_FLAG,           /* bool */
    KIND_TOKEN,          /* int32_t; −1: none */
    KIND_MODEL_TOKEN,    /* the same; the model's to say, not the request's */
    KIND_START,          /* the same; bos_id when there is none */
    KIND_EOS,            /* eos_ids and eos_count: an id or a list of ids */
    KIND_EARLY_STOPPING, /* true, false or "never" */
    KIND_LOGPROBS,       /* logprobs and top_logprobs: N */
    KIND_NOT_BUILT       /* an option of the reference or of ours; `initial` is its neutral value */
};

#define COUNT_MAX 2147483647.0
#define SEED_MAX  9007199254740991.0 /* 2^53 − 1 */
#define AT(field) offsetof(struct options, field)

static const char one_up[] = "an integer from 1 to 2147483647";
static const char zero_up[] = "an integer from 0 to 2147483647";
static const char token_id[] = "a token id";

/* NAN as the neutral value of an option that is not built: only null, false and [] are neutral. */
static const struct option {
    const char *name;
    enum kind kind;
    size_t offset;
    double min, max;
    const char *range; /* what min and max mean, for errors */
    double initial;    /* the table's default */
    double off;        /* what null in a request means */
    size_t given;      /* offset of a flag: the request set it; 0: none */
} table[] = {
    { "max_new_tokens", KIND_COUNT, AT(max_new_tokens), 1, COUNT_MAX, one_up, -1, -1,
      AT(max_new_tokens_given) },
    { "max_length", KIND_COUNT, AT(max_length), 1, COUNT_MAX, one_up, -1, -1,
      AT(max_length_given) },
    { "min_new_tokens", KIND_COUNT, AT(min_new_tokens), 0, COUNT_MAX, zero_up, -1, -1, 0 },
    { "min_length", KIND_COUNT, AT(min_length), 0, COUNT_MAX, zero_up, 0, 0, 0 },
    { "num_beams", KIND_COUNT, AT(num_beams), 1, COUNT_MAX, one_up, 1, 1, 0 },
    { "num_return_sequences", KIND_COUNT, AT(num_return_sequences), 1, COUNT_MAX, one_up, 1, 1, 0 },
    { "length_penalty", KIND_REAL, AT(length_penalty), -FLT_MAX, FLT_MAX, "a finite number", 1, 1,
      0 },
    { "early_stopping", KIND_EARLY_STOPPING, AT(early_stopping), 0, 0, "true, false or \"never\"",
      EARLY_STOPPING_FALSE, EARLY_STOPPING_FALSE, 0 },
    { "do_sample", KIND_FLAG, AT(do_sample), 0, 1, "true or false", 0, 0, 0 },
    { "seed", KIND_SEED, AT(seed), 0, SEED_MAX, "an integer from 0 to 9007199254740991", 0, 0,
      AT(seed_given) },
    { "temperature", KIND_REAL, AT(temperature), FLT_MIN, FLT_MAX, "a number above 0", 1, 1, 0 },
    { "top_k", KIND_COUNT, AT(top_k), 0, COUNT_MAX, zero_up, 50, 0, 0 },
    { "top_p", KIND_REAL, AT(top_p), 0, 1, "a number from 0 to 1", 1, 1, 0 },
    { "min_p", KIND_REAL, AT(min_p), 0, 1, "a number from 0 to 1", 0, 0, 0 },
    { "repetition_penalty", KIND_REAL, AT(repetition_penalty), FLT_MIN, FLT_MAX, "a number above 0",
      1, 1, 0 },
    { "no_repeat_ngram_size", KIND_COUNT, AT(no_repeat_ngram_size), 0, COUNT_MAX, zero_up, 0, 0,
      0 },
    { "forced_bos_token_id", KIND_TOKEN, AT(forced_bos_id), 0, COUNT_MAX, token_id, -1, -1, 0 },
    { "forced_eos_token_id", KIND_TOKEN, AT(forced_eos_id), 0, COUNT_MAX, token_id, -1, -1, 0 },
    { "decoder_start_token_id", KIND_START, AT(start_id), 0, COUNT_MAX, token_id, -1, -1, 0 },
    { "bos_token_id", KIND_MODEL_TOKEN, AT(bos_id), 0, COUNT_MAX, token_id, -1, -1, 0 },
    { "pad_token_id", KIND_MODEL_TOKEN, AT(pad_id), 0, COUNT_MAX, token_id, -1, -1, 0 },
    { "eos_token_id", KIND_EOS, AT(eos_ids), 0, COUNT_MAX, "a token id or at most 16 of them", -1,
      -1, 0 },
    { "logprobs", KIND_LOGPROBS, AT(top_logprobs), 0, COUNT_MAX, zero_up, -1, -1, 0 },
    { "output_attentions", KIND_FLAG, AT(output_attentions), 0, 1, "true or false", 0, 0, 0 },
    { "skip_special_tokens", KIND_FLAG, AT(skip_special_tokens), 0, 1, "true or false", 1, 1, 0 },

    { .name = "encoder_repetition_penalty", .kind = KIND_NOT_BUILT, .initial = 1 },
    { .name = "encoder_no_repeat_ngram_size", .kind = KIND_NOT_BUILT, .initial = 0 },
    { .name = "bad_words_ids", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "suppress_tokens", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "begin_suppress_tokens", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "sequence_bias", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "allowed_token_ids", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "exponential_decay_length_penalty", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "renormalize_logits", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "remove_invalid_values", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "typical_p", .kind = KIND_NOT_BUILT, .initial = 1 },
    { .name = "top_h", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "epsilon_cutoff", .kind = KIND_NOT_BUILT, .initial = 0 },
    { .name = "eta_cutoff", .kind = KIND_NOT_BUILT, .initial = 0 },
    { .name = "stop", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "stop_strings", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "source_lang", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "target_lang", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "num_beam_groups", .kind = KIND_NOT_BUILT, .initial = 1 },
    { .name = "diversity_penalty", .kind = KIND_NOT_BUILT, .initial = 0 },
    { .name = "penalty_alpha", .kind = KIND_NOT_BUILT, .initial = 0 },
    { .name = "dola_layers", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "constraints", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "force_words_ids", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "guidance_scale", .kind = KIND_NOT_BUILT, .initial = 1 },
    { .name = "watermarking_config", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "max_time", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "token_healing", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "prompt_lookup_num_tokens", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "assistant_early_exit", .kind = KIND_NOT_BUILT, .initial = NAN },
    { .name = "use_mtp", .kind = KIND_NOT_BUILT, .initial = NAN },
};

enum { TABLE_COUNT = sizeof table / sizeof table[0] };

static const struct option *find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* Writes a number that is in the option's range, or its default or off value. */
static void store(struct options *options, const struct option *option, double number)
{
    void *const field = (char *)options + option->offset;
    switch (option->kind) {
    case KIND_COUNT:
        *(size_t *)field = number < 0 ? SIZE_MAX : (size_t)number;
        break;
    case KIND_SEED:
        *(uint64_t *)field = (uint64_t)number;
        break;
    case KIND_REAL:
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
    case KIND_EOS:
        options->eos_ids[0] = (int32_t)number;
        options->eos_count = number >= 0;
        break;
    case KIND_EARLY_STOPPING:
        options->early_stopping = (enum early_stopping)number;
        break;
    case KIND_LOGPROBS:
        options->logprobs = number >= 0;
        options->top_logprobs = number < 0 ? 0 : (size_t)number;
        break;
    case KIND_NOT_BUILT:
        break;
    }
}

void options_init(struct options *options)
{
    *options = (struct options){ .bos_id = -1 };
    for (size_t i = 0; i < TABLE_COUNT; i++)
        store(options, &table[i], table[i].initial);
}

/* Where an error is: `param` and the option's name. */
struct place {
    char text[128];
};

static struct place place_of(const char *param, const char *name)
{
    struct place place;
    snprintf(place.text, sizeof place.text, "%s%s", param, name);
    return place;
}

static int wrong_type(const struct option *option, const char *param, struct error *err)
{
    const struct place place = place_of(param, option->name);
    return error_at(err, ERR_WRONG_TYPE, place.text, "%s must be %s", place.text, option->range);
}

/* A number of the option's kind and within its range. */
static int read_number(const struct option *option, const struct value *value, double *number,
                       const char *param, struct error *err)
{
    if (value->kind == VALUE_INT)
        *number = (double)value->integer;
    else if (value->kind == VALUE_REAL && option->kind == KIND_REAL)
        *number = value->real;
    else
        return wrong_type(option, param, err);
    if (*number >= option->min && *number <= option->max)
        return 0;
    const struct place place = place_of(param, option->name);
    const enum error_code code =
        strcmp(option->range, token_id) == 0 ? ERR_TOKEN_OUT_OF_RANGE : ERR_OUT_OF_RANGE;
    return error_at(err, code, place.text, "%s is %.16g; it must be %s", place.text, *number,
                    option->range);
}

static int read_early_stopping(const struct option *option, const struct value *value,
                               double *number, const char *param, struct error *err)
{
    if (value->kind == VALUE_BOOL)
        *number = value->boolean ? EARLY_STOPPING_TRUE : EARLY_STOPPING_FALSE;
    else if (value->kind == VALUE_TEXT && strcmp(value->text, "never") == 0)
        *number = EARLY_STOPPING_NEVER;
    else
        return wrong_type(option, param, err);
    return 0;
}

static int set_eos_list(struct options *options, const struct option *option,
                        const struct value *value, const char *param, struct error *err)
{
    const struct place place = place_of(param, option->name);
    if (value->count > EOS_MAX)
        return error_at(err, ERR_OUT_OF_RANGE, place.text, "%s has %zu ids; it must be %s",
                        place.text, value->count, option->range);
    for (size_t i = 0; i < value->count; i++) {
        double number = 0;
        if (read_number(option, &value->items[i], &number, param, err) < 0)
            return -1;
        options->eos_ids[i] = (int32_t)number;
    }
    options->eos_count = value->count;
    return 0;
}

static bool is_neutral(const struct option *option, const struct value *value)
{
    return value->kind == VALUE_NULL || (value->kind == VALUE_BOOL && !value->boolean) ||
           (value->kind == VALUE_LIST && value->count == 0) ||
           (value->kind == VALUE_INT && (double)value->integer == option->initial) ||
           (value->kind == VALUE_REAL && value->real == option->initial);
}

static int not_built(const struct option *option, const char *param, const char *why,
                     struct error *err)
{
    const struct place place = place_of(param, option->name);
    return error_at(err, ERR_UNSUPPORTED, place.text, "%s %s", place.text, why);
}

/* `value` is not null. */
static int set_value(struct options *options, const struct option *option,
                     const struct value *value, const char *param, struct error *err)
{
    double number = 0;
    int rc = 0;
    if (option->kind == KIND_NOT_BUILT)
        return is_neutral(option, value) ? 0 : not_built(option, param, "is not supported", err);
    if (option->kind == KIND_EOS && value->kind == VALUE_LIST)
        return set_eos_list(options, option, value, param, err);
    if (option->kind == KIND_EARLY_STOPPING)
        rc = read_early_stopping(option, value, &number, param, err);
    else if (option->kind != KIND_FLAG)
        rc = read_number(option, value, &number, param, err);
    else if (value->kind == VALUE_BOOL)
        number = value->boolean;
    else
        rc = wrong_type(option, param, err);
    if (rc == 0)
        store(options, option, number);
    return rc;
}

int options_set(struct options *options, const char *name, const struct value *value,
                const char *param, struct error *err)
{
    const struct option *const option = find(name);
    if (!option) {
        const struct place place = place_of(param, name);
        return error_at(err, ERR_UNKNOWN_FIELD, place.text, "%s is not an option", place.text);
    }
    const bool null = value->kind == VALUE_NULL;
    if (option->kind == KIND_MODEL_TOKEN)
        return null ? 0 : not_built(option, param, "is set by the model alone", err);
    if (null)
        store(options, option, option->off);
    else if (set_value(options, option, value, param, err) < 0)
        return -1;
    if (option->given)
        *(bool *)((char *)options + option->given) = !null;
    return 0;
}

int options_set_defaults(struct options *options, const struct settings *defaults,
                         struct error *err)
{
    for (size_t i = 0; i < defaults->count; i++) {
        const struct option *const option = find(defaults->items[i].name);
        const struct value *const value = &defaults->items[i].value;
        if (!option || value->kind == VALUE_NULL)
            continue;
        if (set_value(options, option, value, "", err) < 0)
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

/* The option's current number: store() in reverse. */
static double load(const struct options *options, const struct option *option)
{
    const void *const field = (const char *)options + option->offset;
    switch (option->kind) {
    case KIND_COUNT: {
        const size_t count = *(const size_t *)field;
        return count == SIZE_MAX ? -1 : (double)count;
    }
    case KIND_SEED:
        return (double)*(const uint64_t *)field;
    case KIND_REAL:
        return *(const double *)field;
    case KIND_FLAG:
        return *(const bool *)field;
    case KIND_TOKEN:
    case KIND_MODEL_TOKEN:
    case KIND_START:
        return *(const int32_t *)field;
    case KIND_EOS:
        return options->eos_count == 0 ? -1 : options->eos_ids[0];
    case KIND_EARLY_STOPPING:
        return (double)options->early_stopping;
    case KIND_LOGPROBS:
        return options->logprobs ? (double)options->top_logprobs : -1;
    case KIND_NOT_BUILT:
        break;
    }
    return option->initial;
}

void options_describe(const struct options *options,
                      void (*each)(void *context, const char *name, const struct value *value),
                      void *context)
{
    char never[] = "never";
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        const struct option *const option = &table[i];
        const double number = load(options, option);
        struct value ids[EOS_MAX];
        struct value value = { .kind = VALUE_INT, .integer = (int64_t)number };
        if (option->kind == KIND_NOT_BUILT || number == option->initial)
            continue;
        if (option->kind == KIND_REAL)
            value = (struct value){ .kind = VALUE_REAL, .real = number };
        else if (option->kind == KIND_FLAG)
            value = (struct value){ .kind = VALUE_BOOL, .boolean = number != 0 };
        else if (option->kind == KIND_EARLY_STOPPING && number == EARLY_STOPPING_NEVER)
            value = (struct value){ .kind = VALUE_TEXT, .text = never };
        else if (option->kind == KIND_EARLY_STOPPING)
            value = (struct value){ .kind = VALUE_BOOL, .boolean = true };
        else if (option->kind == KIND_EOS && options->eos_count > 1) {
            for (size_t j = 0; j < options->eos_count; j++)
                ids[j] = (struct value){ .kind = VALUE_INT, .integer = options->eos_ids[j] };
            value = (struct value){ .kind = VALUE_LIST, .items = ids, .count = options->eos_count };
        }
        each(context, option->name, &value);
    }
}
