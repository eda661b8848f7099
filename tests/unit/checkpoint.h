/* checkpoint.h — the model of a folder under tests/kit, read, changed and written for one test, and
 * what it answers. */
#ifndef TESTS_CHECKPOINT_H
#define TESTS_CHECKPOINT_H

#include <glob.h>
#include <jansson.h>

#include "base/log.h"
#include "encode_row.h"
#include "weight_folder.h"

enum { CHECKPOINT_TENSORS = 256, CHECKPOINT_NAME = 128 };

struct checkpoint_tensor {
    char name[CHECKPOINT_NAME];
    enum dtype dtype; /* as which it is stored; the values are exact in it */
    size_t rank, shape[TENSOR_RANK_MAX], count;
    float *values;
};

struct checkpoint {
    json_t *config;
    json_t *generation; /* or NULL */
    struct checkpoint_tensor tensors[CHECKPOINT_TENSORS];
    size_t count;
};

static struct kernels checkpoint_kernels;

/* Before the first test of a group. */
static inline int checkpoint_setup(void **state)
{
    struct error err = { 0 };
    (void)state;
    log_set_level(LOG_ERROR);
    return kernels_init(&checkpoint_kernels, "", "own", &err);
}

static inline json_t *checkpoint_json(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return json_load_file(path, 0, NULL);
}

/* tests/kit/NAME. */
static inline struct checkpoint *checkpoint_read(const char *name)
{
    char folder[128];
    struct weights *weights;
    struct error err = { 0 };
    struct checkpoint *c = calloc(1, sizeof *c);
    snprintf(folder, sizeof folder, "tests/kit/%s", name);
    assert(c && weights_open(&weights, folder, &err) == 0);
    c->config = checkpoint_json(folder, "config.json");
    c->generation = checkpoint_json(folder, "generation_config.json");
    c->count = weights->tensors.tensor_count;
    assert(c->config && c->count <= CHECKPOINT_TENSORS);
    for (size_t i = 0; i < c->count; i++) {
        const struct tensor *from = weights->tensors.tensors[i];
        struct checkpoint_tensor *to = &c->tensors[i];
        snprintf(to->name, sizeof to->name, "%s", from->name);
        to->dtype = from->dtype;
        to->rank = from->rank;
        memcpy(to->shape, from->shape, sizeof to->shape);
        to->count = from->count;
        to->values = malloc(from->count * sizeof *to->values);
        char *aligned = malloc(from->bytes);
        assert(to->values && aligned);
        memcpy(aligned, from->data, from->bytes);
        checkpoint_kernels.widen(aligned, from->dtype, to->values, from->count);
        free(aligned);
    }
    weights_close(&weights);
    return c;
}

static inline void checkpoint_free(struct checkpoint *c)
{
    json_decref(c->config);
    json_decref(c->generation);
    for (size_t i = 0; i < c->count; i++)
        free(c->tensors[i].values);
    free(c);
}

/* NULL: there is none of that name. */
static inline struct checkpoint_tensor *checkpoint_find(struct checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

static inline void checkpoint_drop(struct checkpoint *c, const char *name)
{
    struct checkpoint_tensor *tensor = checkpoint_find(c, name);
    if (!tensor)
        return;
    free(tensor->values);
    *tensor = c->tensors[--c->count];
}

/* A tensor of that shape (columns 0: a vector) and of zeros; its values. */
static inline float *checkpoint_add(struct checkpoint *c, const char *name, size_t rows,
                                    size_t columns)
{
    checkpoint_drop(c, name);
    assert(c->count < CHECKPOINT_TENSORS);
    struct checkpoint_tensor *tensor = &c->tensors[c->count++];
    *tensor = (struct checkpoint_tensor){ .rank = columns ? 2 : 1,
                                          .shape = { rows, columns },
                                          .count = rows * (columns ? columns : 1) };
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->values = calloc(tensor->count, sizeof *tensor->values);
    assert(tensor->values);
    return tensor->values;
}

/* The matrix `from` also under the name `to`; its values there. */
static inline float *checkpoint_copy(struct checkpoint *c, const char *from, const char *to)
{
    const struct checkpoint_tensor old = *checkpoint_find(c, from);
    float *values = checkpoint_add(c, to, old.shape[0], old.rank == 2 ? old.shape[1] : 0);
    memcpy(values, old.values, old.count * sizeof *values);
    return values;
}

/* In every name the first `from` becomes `to`; how many names had it. */
static inline size_t checkpoint_rename(struct checkpoint *c, const char *from, const char *to)
{
    size_t renamed = 0;
    for (size_t i = 0; i < c->count; i++) {
        char *name = c->tensors[i].name, old[CHECKPOINT_NAME];
        const char *at = strstr(strcpy(old, name), from);
        if (!at)
            continue;
        snprintf(name, CHECKPOINT_NAME, "%.*s%.60s%.60s", (int)(at - old), old, to,
                 at + strlen(from));
        renamed++;
    }
    return renamed;
}

static inline void checkpoint_scale(struct checkpoint_tensor *tensor, float factor)
{
    for (size_t i = 0; i < tensor->count; i++)
        tensor->values[i] *= factor;
}

/* Rounded towards zero. */
static inline uint16_t checkpoint_half(float value, enum dtype dtype)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, mantissa = bits & 0x7fffff;
    const int exponent = (int)(bits >> 23 & 0xff) - 112;
    if (dtype == DTYPE_BF16)
        return (uint16_t)(bits >> 16);
    if (exponent < -10)
        return (uint16_t)sign;
    if (exponent <= 0)
        return (uint16_t)(sign | (mantissa | 0x800000) >> (14 - exponent));
    if (exponent > 30)
        return (uint16_t)(sign | 0x7bff);
    return (uint16_t)(sign | (uint32_t)exponent << 10 | mantissa >> 13);
}

/* The tensor is stored as `dtype`, its values what that holds of them. */
static inline void checkpoint_round(struct checkpoint_tensor *tensor, enum dtype dtype)
{
    tensor->dtype = dtype;
    for (size_t i = 0; i < tensor->count && dtype != DTYPE_F32; i++) {
        const uint16_t half = checkpoint_half(tensor->values[i], dtype);
        checkpoint_kernels.widen(&half, dtype, &tensor->values[i], 1);
    }
}

static inline size_t checkpoint_store(const struct checkpoint_tensor *tensor, char *data)
{
    const size_t size = dtype_bytes(tensor->dtype);
    for (size_t i = 0; i < tensor->count; i++) {
        const uint16_t half = checkpoint_half(tensor->values[i], tensor->dtype);
        if (tensor->dtype == DTYPE_F32)
            memcpy(data + i * size, &tensor->values[i], size);
        else
            memcpy(data + i * size, &half, size);
    }
    return tensor->count * size;
}

static inline void checkpoint_write_json(const struct folder *folder, const char *name,
                                         const json_t *json)
{
    char *text = json_dumps(json, 0);
    assert(text);
    folder_text(folder, name, text);
    free(text);
}

static inline void checkpoint_write(const struct checkpoint *c, const struct folder *folder)
{
    static const char *const names[] = { "F32", "F16", "BF16" };
    json_t *header = json_object();
    size_t bytes = 0, end = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += c->tensors[i].count * sizeof(float);
    char *data = malloc(bytes);
    assert(data && header);
    for (size_t i = 0; i < c->count; i++) {
        const struct checkpoint_tensor *tensor = &c->tensors[i];
        const size_t begin = end;
        json_t *shape = json_array();
        for (size_t d = 0; d < tensor->rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)tensor->shape[d]));
        end += checkpoint_store(tensor, data + end);
        json_object_set_new(header, tensor->name,
                            json_pack("{sssos[II]}", "dtype", names[tensor->dtype], "shape", shape,
                                      "data_offsets", (json_int_t)begin, (json_int_t)end));
    }
    char *text = json_dumps(header, 0);
    assert(text);
    folder_safetensors(folder, text, data, end);
    checkpoint_write_json(folder, "config.json", c->config);
    if (c->generation)
        checkpoint_write_json(folder, "generation_config.json", c->generation);
    free(text);
    json_decref(header);
    free(data);
}

/* Opens what the checkpoint is now; NULL and the reason in *err when it is refused. */
static inline struct model *checkpoint_open(const struct checkpoint *c, struct error *err)
{
    struct model *model;
    const struct folder folder = make_tree();
    *err = (struct error){ 0 };
    checkpoint_write(c, &folder);
    model_open(&model, folder.path, "changed", &checkpoint_kernels, err);
    remove_tree(&folder);
    return model;
}

/* What a model answers to one source and, if it generates, one target. */
enum { RUN_SOURCE = 7, RUN_TARGET = 5 };
struct run {
    size_t states, logits; /* floats */
    float state[RUN_SOURCE * 64], logit[RUN_TARGET * 512];
};

static inline void run_decoder(const struct pass *pass, struct run *run)
{
    static const int32_t target[RUN_TARGET] = { 4, 5, 9, 7, 10 }, path[] = { 0, 1, 2, 3, 4 };
    const struct model_config *config = &pass->model->config;
    float *base = malloc(key_values_floats(config, RUN_SOURCE, RUN_TARGET) * sizeof *base);
    float out[RUN_TARGET * 64];
    assert(base);
    const struct key_values cache = { base, RUN_SOURCE, RUN_TARGET };
    const struct key_values *const caches[] = { &cache };
    const struct segment segment = { .key_values = &cache,
                                     .tokens = target,
                                     .count = RUN_TARGET,
                                     .prefix_count = RUN_TARGET,
                                     .path = path };
    for (size_t i = 0; i < config->decoder.layers; i++)
        decoder_cross(pass, i, run->state, caches, 0, RUN_SOURCE);
    decoder_forward(pass, &segment, 1, out);
    decoder_logits(pass, out, RUN_TARGET, NULL, run->logit);
    run->logits = RUN_TARGET * config->target_vocabulary;
    free(base);
}

static inline void run_model(const struct model *model, struct run *run)
{
    static const int32_t source[RUN_SOURCE] = { 5, 6, 7, 9, 5, 12, 8 };
    static const int32_t places[RUN_SOURCE] = { 0, 1, 2, 3, 4, 5, 6 };
    const struct model_config *config = &model->config;
    struct arena arena;
    struct error err = { 0 };
    int32_t positions[RUN_SOURCE];
    memset(run, 0, sizeof *run);
    assert(config->width <= 64 && config->target_vocabulary <= 512);
    assert(arena_open(&arena, pass_scratch_bytes(config, RUN_SOURCE, RUN_SOURCE, RUN_TARGET, 1),
                      &err) == 0);
    const struct pass pass = { model, &checkpoint_kernels, &arena, NULL, false };
    const struct source_row row = { source, places, positions, RUN_SOURCE, RUN_SOURCE, NULL };
    config_positions(config, source, RUN_SOURCE, positions);
    encode_row(&pass, &row, run->state);
    run->states = RUN_SOURCE * config->width;
    if (config_generates(config))
        run_decoder(&pass, run);
    arena_close(&arena);
}

/* The answer of what the checkpoint is now, which must open. */
static inline void checkpoint_run(const struct checkpoint *c, struct run *run)
{
    struct error err;
    struct model *model = checkpoint_open(c, &err);
    if (!model)
        fail_msg("%s", err.message);
    run_model(model, run);
    model_close(&model);
}

/* The largest difference of two answers of one shape. */
static inline float run_difference(const struct run *a, const struct run *b)
{
    float worst = 0.0f;
    assert(a->states == b->states && a->logits == b->logits);
    for (size_t i = 0; i < a->states + a->logits; i++) {
        const float x = i < a->states ? a->state[i] : a->logit[i - a->states];
        const float y = i < a->states ? b->state[i] : b->logit[i - a->states];
        const float difference = x > y ? x - y : y - x;
        if (!(difference <= worst)) /* also NaN */
            worst = difference;
    }
    return worst;
}

/* Calls `check` with the name of every case under tests/kit, at least `least` of them. */
static inline void for_every_case(void (*check)(const char *name), size_t least)
{
    glob_t found;
    assert(glob("tests/kit/*/config.json", 0, NULL, &found) == 0 && found.gl_pathc >= least);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char name[64] = "";
        assert(sscanf(found.gl_pathv[i], "tests/kit/%63[^/]", name) == 1);
        check(name);
    }
    globfree(&found);
}

#endif
