/* model_folder.h — tiny `transformer` folders written for one test.  D 4, H 2, F 8, V 6, 1+1
 * layers. */
#ifndef TESTS_MODEL_FOLDER_H
#define TESTS_MODEL_FOLDER_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"

struct folder {
    char path[64];
};

struct folder_options {
    bool narrow;      /* tensors alternate F32, F16, BF16; else all F32 */
    size_t shift;     /* bytes of a first, unused tensor: later ones lie unaligned */
    const char *skip; /* a tensor that is left out */
    const char *wide; /* a tensor with one column too many */
    bool nan;         /* token 4's embedding is no number; only if not `narrow` */
};

static const char folder_config[] =
    "{\"model_type\": \"transformer\", \"d_model\": 4, \"encoder_layers\": 1,"
    " \"decoder_layers\": 1, \"attention_heads\": 2, \"d_ff\": 8, \"vocab_size\": 6,"
    " \"share_embeddings\": true,"
    " \"tie_output\": true, \"max_position_embeddings\": 16}";

static inline void folder_write(const struct folder *folder, const char *name, const void *bytes,
                                size_t count)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *file = fopen(path, "wb");
    assert(file && fwrite(bytes, 1, count, file) == count);
    fclose(file);
}

static inline void folder_text(const struct folder *folder, const char *name, const char *text)
{
    folder_write(folder, name, text, strlen(text));
}

/* A safetensors file of that header and `data_bytes` of data. */
static inline void folder_safetensors(const struct folder *folder, const char *header,
                                      const void *data, size_t data_bytes)
{
    const size_t length = strlen(header);
    char *file = malloc(8 + length + data_bytes);
    assert(file);
    for (size_t i = 0; i < 8; i++)
        file[i] = (char)((uint64_t)length >> (8 * i) & 0xff);
    memcpy(file + 8, header, length);
    if (data_bytes > 0)
        memcpy(file + 8 + length, data, data_bytes);
    folder_write(folder, "model.safetensors", file, 8 + length + data_bytes);
    free(file);
}

/* Multiples of 1/64 in [−1, 1): exact in all three stored types. */
static inline size_t folder_put(char *data, enum dtype dtype, uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    const float value = (float)(int32_t)(*state >> 25) / 64.0f - 1.0f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == DTYPE_F32)
        return memcpy(data, &bits, 4), 4;
    uint16_t half = (uint16_t)(bits >> 16);
    if (dtype == DTYPE_F16)
        half = value == 0.0f
                   ? 0
                   : (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) |
                                (bits >> 13 & 0x3ff));
    return memcpy(data, &half, 2), 2;
}

struct folder_tensor {
    const char *name;
    size_t rows, columns; /* columns 0: a vector */
};

static const struct folder_tensor folder_tensors[] = {
    { "shared.weight", 6, 4 },
#define ATTENTION(prefix)                                                                          \
    { prefix ".q_proj.weight", 4, 4 }, { prefix ".k_proj.weight", 4, 4 },                          \
        { prefix ".v_proj.weight", 4, 4 }, { prefix ".out_proj.weight", 4, 4 },                    \
        { prefix "_layer_norm.weight", 4, 0 },                                                     \
    {                                                                                              \
        prefix "_layer_norm.bias", 4, 0                                                            \
    }
#define FEED_FORWARD(prefix)                                                                       \
    { prefix ".fc1.weight", 8, 4 }, { prefix ".fc1.bias", 8, 0 }, { prefix ".fc2.weight", 4, 8 },  \
        { prefix ".fc2.bias", 4, 0 }, { prefix ".final_layer_norm.weight", 4, 0 },                 \
    {                                                                                              \
        prefix ".final_layer_norm.bias", 4, 0                                                      \
    }
    ATTENTION("encoder.layers.0.self_attn"),
    FEED_FORWARD("encoder.layers.0"),
    ATTENTION("decoder.layers.0.self_attn"),
    ATTENTION("decoder.layers.0.encoder_attn"),
    FEED_FORWARD("decoder.layers.0"),
};

static inline void folder_weights(const struct folder *folder, struct folder_options options)
{
    static char data[8192], header[8192];
    static const char *const names[] = { "F32", "F16", "BF16" };
    size_t end = options.shift, length = 0;
    uint32_t state = 1;
    memset(data, 0, sizeof data);
    length += (size_t)snprintf(header, sizeof header, "{\"__metadata__\": {\"format\": \"pt\"}");
    if (options.shift > 0)
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   ", \"unused\": {\"dtype\": \"U8\", \"shape\": [%zu], "
                                   "\"data_offsets\": [0, %zu]}",
                                   options.shift, options.shift);
    for (size_t i = 0; i < sizeof folder_tensors / sizeof *folder_tensors; i++) {
        const struct folder_tensor *t = &folder_tensors[i];
        const enum dtype dtype = options.narrow ? (enum dtype)(i % 3) : DTYPE_F32;
        const bool wide = options.wide && strcmp(options.wide, t->name) == 0;
        const size_t columns = t->columns + wide, begin = end;
        if (options.skip && strcmp(options.skip, t->name) == 0)
            continue;
        for (size_t j = 0; j < t->rows * (columns ? columns : 1); j++)
            end += folder_put(data + end, dtype, &state);
        if (options.nan && i == 0)
            memset(data + begin + 4 * t->columns * sizeof(float), 0xff, t->columns * sizeof(float));
        char shape[32];
        if (columns)
            snprintf(shape, sizeof shape, "%zu, %zu", t->rows, columns);
        else
            snprintf(shape, sizeof shape, "%zu", t->rows);
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   ", \"%s\": {\"dtype\": \"%s\", \"shape\": [%s], "
                                   "\"data_offsets\": [%zu, %zu]}",
                                   t->name, names[dtype], shape, begin, end);
    }
    snprintf(header + length, sizeof header - length, "}");
    folder_safetensors(folder, header, data, end);
}

static inline struct folder folder_create(void)
{
    struct folder folder = { "/tmp/seqd-test-XXXXXX" };
    assert(mkdtemp(folder.path));
    folder_text(&folder, "config.json", folder_config);
    return folder;
}

static inline void folder_remove(const struct folder *folder)
{
    static const char *const names[] = { "config.json", "generation_config.json",
                                         "model.safetensors", "pytorch_model.bin" };
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        unlink(path);
    }
    rmdir(folder->path);
}

#endif
