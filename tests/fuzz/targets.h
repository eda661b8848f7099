/* targets.h — what the fuzzers call: every reader of an untrusted model folder.
 *
 * A target gets any bytes, in a block of exactly that size, and must neither read outside of it nor
 * crash, whatever it answers.  libFuzzer calls them by tests/fuzz/fuzz_*.c, `make test` with what
 * is in tests/fuzz/corpus by tests/unit/test_fuzz_corpus.c. */
#ifndef TESTS_FUZZ_TARGETS_H
#define TESTS_FUZZ_TARGETS_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/model/safetensors.h"
#include "../../src/model/shard_index.h"
#include "base/log.h"
#include "../unit/encode_row.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/pack.h"
#include "model/sentence.h"

/* A weight file.  What it accepts lies within the bytes and covers the data. */
static inline int fuzz_safetensors(const uint8_t *bytes, size_t count)
{
    struct safetensors file;
    struct error err = { 0 };
    if (safetensors_parse(&file, bytes, count, "file", &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0]);
        return 0;
    }
    size_t covered = 8 + file.header_bytes;
    for (size_t i = 0; i < file.tensor_count; i++) {
        const struct tensor *tensor = &file.tensors[i];
        assert((const uint8_t *)tensor->data == bytes + covered);
        covered += tensor->bytes;
        assert(covered <= count);
        assert(tensor->bytes == 0 || tensor->count <= tensor->bytes);
    }
    assert(covered == count);
    safetensors_close(&file);
    return 0;
}

/* An index of shards.  What it accepts names files of the folder, each once. */
static inline int fuzz_shard_index(const uint8_t *bytes, size_t count)
{
    struct shard_index index;
    struct error err = { 0 };
    if (shard_index_parse(&index, (const char *)bytes, count, "index", &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0]);
        return 0;
    }
    assert(index.file_count > 0);
    for (size_t i = 0; i < index.file_count; i++) {
        assert(!strchr(index.files[i], '/') && strcmp(index.files[i], "..") != 0);
        assert(i == 0 || strcmp(index.files[i - 1], index.files[i]) < 0);
    }
    shard_index_free(&index);
    return 0;
}

static char fuzz_folder[128];

static const char *const fuzz_files[] = {
    "config.json",
    "generation_config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "2_Dense/config.json",
    "2_Dense/model.safetensors",
    "model.safetensors",
    PACK_FILE_NAME,
    "vocab.json",
};
enum { FUZZ_FILES = sizeof fuzz_files / sizeof *fuzz_files, FUZZ_TEXTS = 7 };

static const char *const fuzz_folders[] = { "1_Pooling", "2_Dense" };
enum { FUZZ_FOLDERS = sizeof fuzz_folders / sizeof *fuzz_folders };

static inline void fuzz_remove_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    remove(path);
}

static inline void fuzz_remove_folder(void)
{
    for (size_t i = 0; i < FUZZ_FILES; i++)
        fuzz_remove_file(fuzz_files[i]);
    for (size_t i = 0; i < FUZZ_FOLDERS; i++)
        fuzz_remove_file(fuzz_folders[i]);
    remove(fuzz_folder);
}

/* libFuzzer ends without the functions of atexit(); run.sh removes its TMPDIR then. */
static inline void fuzz_make_folder(void)
{
    const char *parent = getenv("TMPDIR");
    const int length =
        snprintf(fuzz_folder, sizeof fuzz_folder, "%s/seqd-fuzz-XXXXXX", parent ? parent : "/tmp");
    assert((size_t)length < sizeof fuzz_folder && mkdtemp(fuzz_folder));
    atexit(fuzz_remove_folder);
}

/* Kernels and a folder, once for the process. */
static inline const struct kernels *fuzz_start(void)
{
    static struct kernels kernels;
    struct error err = { 0 };
    char path[256];
    if (kernels.isa)
        return &kernels;
    assert(kernels_init(&kernels, "portable", "own", &err) == 0);
    fuzz_make_folder();
    for (size_t i = 0; i < FUZZ_FOLDERS; i++) {
        snprintf(path, sizeof path, "%s/%s", fuzz_folder, fuzz_folders[i]);
        assert(mkdir(path, 0700) == 0);
    }
    log_set_level(LOG_NONE);
    return &kernels;
}

static inline void fuzz_write(const char *name, const uint8_t *bytes, size_t count)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    remove(path); /* to shorten it first makes some file systems write it out */
    FILE *file = fopen(path, "wb");
    assert(file && fwrite(bytes, 1, count, file) == count);
    fclose(file);
}

/* What comes before the next form feed, which no JSON holds; *bytes moves behind it. */
static inline void fuzz_write_text(const char *name, const uint8_t **bytes, size_t *count)
{
    const uint8_t *end = *count > 0 ? memchr(*bytes, '\f', *count) : NULL;
    const size_t length = end ? (size_t)(end - *bytes) : *count, used = length + (end ? 1 : 0);
    if (length > 0)
        fuzz_write(name, *bytes, length);
    else
        fuzz_remove_file(name);
    *bytes += used;
    *count -= used;
}

/* The texts of a folder, in the order of the list above, with form feeds between them, and the
 * weights of its Dense or LayerNorm module. */
static inline int fuzz_config(const uint8_t *bytes, size_t count)
{
    const struct kernels *kernels = fuzz_start();
    struct model_config config;
    struct settings defaults;
    struct sentence *sentence;
    struct error err = { 0 };
    for (size_t i = 0; i < FUZZ_TEXTS; i++)
        fuzz_write_text(fuzz_files[i], &bytes, &count);
    fuzz_write(fuzz_files[FUZZ_TEXTS], bytes, count);
    if (config_read(&config, &defaults, fuzz_folder, &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0]);
        return 0;
    }
    settings_free(&defaults);
    if (sentence_open(&sentence, fuzz_folder, config.width, kernels, &err) < 0)
        assert(err.code != ERR_NONE && err.message[0]);
    sentence_close(&sentence);
    return 0;
}

/* The states of the first, the middle and the last token of the vocabulary. */
static inline float *fuzz_encode(const struct pass *pass, size_t count)
{
    const struct model_config *c = &pass->model->config;
    const int32_t last = (int32_t)c->source_vocabulary - 1;
    const int32_t tokens[] = { 0, last / 2, last }, places[] = { 0, 1, 2 };
    int32_t positions[3];
    float *x = calloc(count * c->width, sizeof *x);
    assert(x);
    config_positions(c, tokens, count, positions);
    const struct source_row row = { tokens, places, positions, count, count, NULL };
    encode_row(pass, &row, x);
    return x;
}

static inline void fuzz_decode(const struct pass *pass, const float *states, size_t count)
{
    const struct model_config *c = &pass->model->config;
    const int32_t last = (int32_t)c->target_vocabulary - 1;
    const int32_t tokens[] = { last, last / 2, 0 }, path[] = { 0, 1, 2 };
    const size_t floats = key_values_floats(c, count, count);
    const struct key_values cache = { calloc(floats, sizeof(float)), count, count }, *row = &cache;
    const struct segment segment = {
        .key_values = row, .tokens = tokens, .count = count, .prefix_count = 1, .path = path
    };
    float *x = calloc(count * c->width, sizeof *x);
    float *logits = calloc(count * c->target_vocabulary, sizeof *logits);
    assert(cache.base && x && logits);
    for (size_t i = 0; i < c->decoder.layers; i++)
        decoder_cross(pass, i, states, &row, 0, count);
    decoder_forward(pass, &segment, 1, x);
    decoder_logits(pass, x, count, NULL, logits);
    free(logits);
    free(x);
    free(cache.base);
}

/* config.json, a form feed, and the file of weights `name`.  A model that opens must also run. */
static inline int fuzz_folder_with(const char *name, const uint8_t *bytes, size_t count)
{
    enum { COMPUTED_MAX = 4096 }; /* longer tables are right, and only slow */
    const struct kernels *kernels = fuzz_start();
    struct model_config config;
    struct settings defaults;
    struct model *model;
    struct arena arena;
    struct error err = { 0 };
    for (size_t i = 1; i < FUZZ_FILES; i++)
        fuzz_remove_file(fuzz_files[i]);
    fuzz_write_text("config.json", &bytes, &count);
    fuzz_write(name, bytes, count);
    if (config_read(&config, &defaults, fuzz_folder, &err) < 0)
        return 0;
    settings_free(&defaults);
    if ((config.positions_max > COMPUTED_MAX && config.positions_max != SIZE_MAX) ||
        config.relative_distance > COMPUTED_MAX)
        return 0;
    if (model_open(&model, fuzz_folder, "fuzz", kernels, &err) < 0) {
        assert(err.code != ERR_NONE && err.message[0]);
        return 0;
    }
    const size_t tokens = config.positions_max < 3 ? config.positions_max : 3;
    assert(arena_open(&arena, pass_scratch_bytes(&config, tokens, tokens, tokens, 1), &err) == 0);
    const struct pass pass = { model, kernels, &arena, NULL, false };
    float *states = fuzz_encode(&pass, tokens);
    if (config_generates(&config))
        fuzz_decode(&pass, states, tokens);
    free(states);
    arena_close(&arena);
    model_close(&model);
    return 0;
}

static inline int fuzz_model(const uint8_t *bytes, size_t count)
{
    return fuzz_folder_with("model.safetensors", bytes, count);
}

static inline int fuzz_packed(const uint8_t *bytes, size_t count)
{
    return fuzz_folder_with(PACK_FILE_NAME, bytes, count);
}

#endif
