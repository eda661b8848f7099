/* The modules behind the encoder, read from their folders. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config_fields.h"
#include "model/json.h"
#include "sentence_modules.h"
#include "weights.h"

enum { WIDTH_MAX = 1 << 24, JSON_BYTES_MAX = 1 << 20 };

int sentence_refuse(struct sentence_reader *r, const char *field, const char *reason)
{
    return error_set(r->err, ERR_BAD_MODEL, "%s: \"%s\" %s", r->file, field, reason);
}

static bool is_listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

int sentence_read_file(struct sentence_reader *r, const char *name)
{
    snprintf(r->file, sizeof r->file, "%s/%s", r->dir, name);
    r->config = json_read_file(r->dir, name, JSON_BYTES_MAX, r->err);
    if (r->config && !json_is_object(r->config))
        error_set(r->err, ERR_BAD_MODEL, "%s is no JSON object", r->file);
    return r->err->code == ERR_NONE ? 0 : -1;
}

/* PATH/config.json, without fields that nobody here knows, unless they are off: they may change
 * the vector. */
static int read_config(struct sentence_reader *r, const char *const *known)
{
    char name[SENTENCE_NAME_BYTES + 16];
    const char *field;
    json_t *value;
    snprintf(name, sizeof name, "%s/config.json", r->path);
    if (sentence_read_file(r, name) < 0)
        return -1;
    json_object_foreach (r->config, field, value)
        if (!is_listed(known, field) && !json_is_null(value) && !json_is_false(value))
            return sentence_refuse(r, field, "is not known");
    return 0;
}

/* The same of a module that cannot do without. */
static int need_config(struct sentence_reader *r, const char *const *known)
{
    if (read_config(r, known) < 0)
        return -1;
    return r->config ? 0 : error_set(r->err, ERR_IO, "%s: no such file", r->file);
}

/* A field that must be absent, null or this text. */
int sentence_require(struct sentence_reader *r, const json_t *object, const char *field,
                     const char *text)
{
    const json_t *value = json_object_get(object, field);
    if (!value || json_is_null(value) ||
        (json_is_string(value) && strcmp(json_string_value(value), text) == 0))
        return 0;
    char reason[SENTENCE_NAME_BYTES];
    snprintf(reason, sizeof reason, "is \"%.60s\"; only \"%s\" is served",
             json_is_string(value) ? json_string_value(value) : "no text", text);
    return sentence_refuse(r, field, reason);
}

/* Modules may read and write features of other names; only vectors are served. */
static int check_features(struct sentence_reader *r)
{
    return sentence_require(r, r->config, "module_input_name", "sentence_embedding") < 0
               ? -1
               : sentence_require(r, r->config, "module_output_name", "sentence_embedding");
}

static struct sentence_step *add_step(struct sentence_reader *r, enum step_kind kind, size_t out)
{
    struct sentence *sentence = r->sentence;
    struct sentence_step *step = &sentence->steps[sentence->step_count++];
    *step = (struct sentence_step){ .kind = kind, .in = r->width, .out = out };
    r->width = out;
    if (out > sentence->dim_max)
        sentence->dim_max = out;
    return step;
}

static int open_weights(struct sentence_reader *r, struct sentence_step *step)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/%s", r->dir, r->path);
    return weights_open(&step->weights, dir, r->err);
}

static void count_weights(struct sentence *sentence, const struct weights *weights)
{
    size_t parameters;
    weights_dtype(weights, &parameters);
    weights_warn_unused(weights);
    sentence->parameter_count += parameters;
    sentence->mapped_bytes += weights->tensors.mapped_bytes;
    sentence->copied_bytes += weights->copied_bytes;
}

static const struct {
    const char *name;
    enum pooling pooling;
    const char *flag; /* of older folders, which join in this order */
} modes[] = {
    { "cls", POOLING_CLS, "pooling_mode_cls_token" },
    { "max", POOLING_MAX, "pooling_mode_max_tokens" },
    { "mean", POOLING_MEAN, "pooling_mode_mean_tokens" },
    { "mean_sqrt_len_tokens", POOLING_MEAN_SQRT, "pooling_mode_mean_sqrt_len_tokens" },
    { "weightedmean", POOLING_WEIGHTED_MEAN, "pooling_mode_weightedmean_tokens" },
    { "lasttoken", POOLING_LAST, "pooling_mode_lasttoken" },
};
enum { MODE_COUNT = sizeof modes / sizeof *modes };

static int add_mode(struct sentence_reader *r, const json_t *name)
{
    char reason[SENTENCE_NAME_BYTES];
    for (size_t i = 0; json_is_string(name) && i < MODE_COUNT; i++) {
        if (strcmp(modes[i].name, json_string_value(name)) != 0)
            continue;
        if (r->sentence->mode_count == SENTENCE_MODES_MAX)
            return sentence_refuse(r, "pooling_mode", "has too many modes");
        r->sentence->modes[r->sentence->mode_count++] = modes[i].pooling;
        return 0;
    }
    snprintf(reason, sizeof reason,
             "has \"%.40s\"; it must be one or several of cls, max, mean, mean_sqrt_len_tokens, "
             "weightedmean, lasttoken",
             json_is_string(name) ? json_string_value(name) : "no text");
    return sentence_refuse(r, "pooling_mode", reason);
}

static int read_modes(struct sentence_reader *r)
{
    const json_t *mode = json_object_get(r->config, "pooling_mode");
    if (json_is_array(mode) && json_array_size(mode) > 0) {
        for (size_t i = 0; i < json_array_size(mode); i++)
            if (add_mode(r, json_array_get(mode, i)) < 0)
                return -1;
        return 0;
    }
    if (mode)
        return add_mode(r, mode);
    for (size_t i = 0; i < MODE_COUNT; i++) {
        const json_t *flag = json_object_get(r->config, modes[i].flag);
        if (flag && !json_is_boolean(flag))
            return sentence_refuse(r, modes[i].flag, "is neither true nor false");
        if (json_is_true(flag))
            r->sentence->modes[r->sentence->mode_count++] = modes[i].pooling;
    }
    if (r->sentence->mode_count == 0)
        r->sentence->modes[r->sentence->mode_count++] = POOLING_MEAN;
    return 0;
}

int sentence_read_pooling(struct sentence_reader *r)
{
    static const char *const known[] = { "embedding_dimension",
                                         "word_embedding_dimension",
                                         "pooling_mode",
                                         "include_prompt",
                                         "pooling_mode_cls_token",
                                         "pooling_mode_max_tokens",
                                         "pooling_mode_mean_tokens",
                                         "pooling_mode_mean_sqrt_len_tokens",
                                         "pooling_mode_weightedmean_tokens",
                                         "pooling_mode_lasttoken",
                                         NULL };
    struct pooling_config {
        size_t width;
        bool include_prompt;
    } config = { .width = r->encoder_width, .include_prompt = true };
    static const struct field fields[] = {
        { "word_embedding_dimension", FIELD_SIZE, offsetof(struct pooling_config, width), NULL, 1,
          WIDTH_MAX },
        { "embedding_dimension", FIELD_SIZE, offsetof(struct pooling_config, width), NULL, 1,
          WIDTH_MAX },
        { "include_prompt", FIELD_BOOL, offsetof(struct pooling_config, include_prompt), NULL, 0,
          0 },
    };
    if (need_config(r, known) < 0 ||
        fields_read(&config, fields, sizeof fields / sizeof *fields, r->config, r->file, r->err) <
            0 ||
        read_modes(r) < 0)
        return -1;
    if (config.width != r->encoder_width)
        return error_set(
            r->err, ERR_BAD_MODEL,
            "%s: \"embedding_dimension\" is %zu; the encoder's states have %zu numbers", r->file,
            config.width, r->encoder_width);
    if (!config.include_prompt)
        log_write(LOG_WARNING,
                  "%s: \"include_prompt\" is false, but token ids do not say where a prompt ends: "
                  "all of them are pooled",
                  r->file);
    r->width = r->sentence->mode_count * r->encoder_width;
    r->sentence->dim_max = r->width;
    return 0;
}

/* "torch.nn.modules.activation.Tanh", of which the last part counts; without the field Tanh. */
static int read_activation(struct sentence_reader *r, struct sentence_step *step)
{
    static const struct {
        const char *name;
        bool activated;
        enum activation activation;
    } known[] = {
        { "Identity", false, 0 },
        { "Tanh", true, ACTIVATION_TANH },
        { "ReLU", true, ACTIVATION_RELU },
        { "GELU", true, ACTIVATION_GELU },
        { "SiLU", true, ACTIVATION_SILU },
        { "Sigmoid", true, ACTIVATION_SIGMOID },
        { "ReLU6", true, ACTIVATION_RELU6 },
    };
    static const char tanh_name[] = "torch.nn.Tanh", library[] = "torch.nn.";
    const json_t *value = json_object_get(r->config, "activation_function");
    const char *name = value ? json_string_value(value) : tanh_name;
    if (name && strncmp(name, library, sizeof library - 1) == 0)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(strrchr(name, '.') + 1, known[i].name) == 0) {
                step->activated = known[i].activated;
                step->activation = known[i].activation;
                return 0;
            }
    char reason[SENTENCE_NAME_BYTES];
    snprintf(reason, sizeof reason,
             "is \"%.80s\"; it must be torch.nn's Identity, Tanh, ReLU, ReLU6, GELU, SiLU or "
             "Sigmoid",
             name ? name : "no text");
    return sentence_refuse(r, "activation_function", reason);
}

int sentence_read_dense(struct sentence_reader *r)
{
    static const char *const known[] = {
        "in_features",       "out_features",       "bias", "activation_function",
        "module_input_name", "module_output_name", NULL
    };
    struct dense_config {
        size_t in, out;
        bool bias;
    } config = { .bias = true };
    static const struct field fields[] = {
        { "in_features", FIELD_SIZE, offsetof(struct dense_config, in), NULL, 1, WIDTH_MAX },
        { "out_features", FIELD_SIZE, offsetof(struct dense_config, out), NULL, 1, WIDTH_MAX },
        { "bias", FIELD_BOOL, offsetof(struct dense_config, bias), NULL, 0, 0 },
    };
    if (need_config(r, known) < 0 || check_features(r) < 0 ||
        fields_read(&config, fields, sizeof fields / sizeof *fields, r->config, r->file, r->err) <
            0)
        return -1;
    if (config.out == 0)
        return sentence_refuse(r, "out_features", "is missing");
    if (config.in != r->width)
        return error_set(r->err, ERR_BAD_MODEL,
                         "%s: \"in_features\" is %zu; what comes in has %zu numbers", r->file,
                         config.in, r->width);
    struct sentence_step *step = add_step(r, STEP_DENSE, config.out);
    if (read_activation(r, step) < 0 || open_weights(r, step) < 0 ||
        weights_matrix(step->weights, "linear.weight", config.out, config.in, &step->linear.w,
                       r->err) < 0 ||
        (config.bias && weights_vector(step->weights, "linear.bias", config.out, r->kernels,
                                       &step->linear.bias, r->err) < 0))
        return -1;
    count_weights(r->sentence, step->weights);
    return 0;
}

int sentence_read_layer_norm(struct sentence_reader *r)
{
    static const char *const known[] = { "dimension", NULL };
    struct norm_config {
        size_t width;
    } config = { 0 };
    static const struct field fields[] = {
        { "dimension", FIELD_SIZE, offsetof(struct norm_config, width), NULL, 1, WIDTH_MAX },
    };
    if (need_config(r, known) < 0 ||
        fields_read(&config, fields, 1, r->config, r->file, r->err) < 0)
        return -1;
    if (config.width != r->width)
        return error_set(r->err, ERR_BAD_MODEL,
                         "%s: \"dimension\" is %zu; what comes in has %zu numbers", r->file,
                         config.width, r->width);
    struct sentence_step *step = add_step(r, STEP_LAYER_NORM, r->width);
    if (open_weights(r, step) < 0 ||
        weights_vector(step->weights, "norm.weight", r->width, r->kernels, &step->norm.weight,
                       r->err) < 0 ||
        weights_vector(step->weights, "norm.bias", r->width, r->kernels, &step->norm.bias, r->err) <
            0)
        return -1;
    count_weights(r->sentence, step->weights);
    return 0;
}

int sentence_read_normalize(struct sentence_reader *r)
{
    static const char *const known[] = { "module_input_name", "module_output_name", NULL };
    if (read_config(r, known) < 0 || check_features(r) < 0)
        return -1;
    add_step(r, STEP_NORMALIZE, r->width);
    return 0;
}
