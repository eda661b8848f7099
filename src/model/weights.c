#include "weights.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

/* A folder without model.safetensors: say what is there instead. */
static int missing_file(const char *dir, const char *file, struct error *err)
{
    static const struct {
        const char *name, *reason;
    } others[] = {
        { "pytorch_model.bin", "only safetensors are read" },
        { "model.safetensors.index.json", "weights in several files are not read" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char other[512];
        snprintf(other, sizeof other, "%s/%s", dir, others[i].name);
        if (access(other, F_OK) == 0)
            return error_set(err, ERR_BAD_MODEL, "%s is missing; %s is there, but %s", file,
                             others[i].name, others[i].reason);
    }
    return error_set(err, ERR_IO, "%s: no such file", file);
}

int weights_open(struct weights **out, const char *dir, struct error *err)
{
    char file[512];
    *out = NULL;
    snprintf(file, sizeof file, "%s/model.safetensors", dir);
    if (access(file, F_OK) != 0)
        return missing_file(dir, file, err);
    struct weights *weights = mem_alloc(1, sizeof *weights);
    if (!weights)
        return error_set(err, ERR_NO_MEMORY, "%s", file);
    weights->file = mem_text(file);
    if (!weights->file) {
        error_set(err, ERR_NO_MEMORY, "%s", file);
        goto fail;
    }
    if (safetensors_open(&weights->tensors, file, err) < 0)
        goto fail;
    *out = weights;
    return 0;

fail:
    weights_close(&weights);
    return -1;
}

void weights_close(struct weights **weights)
{
    struct weights *w = *weights;
    *weights = NULL;
    if (!w)
        return;
    for (size_t i = 0; i < w->copy_count; i++)
        mem_free(w->copies[i]);
    mem_free(w->copies);
    safetensors_close(&w->tensors);
    mem_free(w->file);
    mem_free(w);
}

static void *keep_copy(struct weights *weights, size_t count, size_t size)
{
    if (weights->copy_count == weights->copy_capacity) {
        const size_t capacity = weights->copy_capacity ? weights->copy_capacity * 2 : 64;
        void **copies = mem_resize(weights->copies, capacity, sizeof *copies);
        if (!copies)
            return NULL;
        weights->copies = copies;
        weights->copy_capacity = capacity;
    }
    void *copy = mem_alloc(count, size);
    if (copy) {
        weights->copies[weights->copy_count++] = copy;
        weights->copied_bytes += count * size;
    }
    return copy;
}

float *weights_scratch(struct weights *weights, size_t count)
{
    return keep_copy(weights, count, sizeof(float));
}

static struct tensor *need(struct weights *weights, const char *name, struct error *err)
{
    struct tensor *tensor = safetensors_find(&weights->tensors, name);
    if (!tensor)
        error_set(err, ERR_BAD_MODEL, "%s: tensor \"%s\" is missing", weights->file, name);
    else if (!tensor->readable)
        error_set(err, ERR_BAD_MODEL, "%s: tensor \"%s\" is not F32, F16 or BF16", weights->file,
                  name);
    else
        tensor->used = true;
    return tensor && tensor->readable ? tensor : NULL;
}

static bool is_aligned(const struct tensor *tensor)
{
    return (uintptr_t)tensor->data % dtype_bytes(tensor->dtype) == 0;
}

int weights_matrix(struct weights *weights, const char *name, size_t rows, size_t columns,
                   struct matrix *matrix, struct error *err)
{
    const struct tensor *tensor = need(weights, name, err);
    if (!tensor)
        return -1;
    if (tensor->rank != 2 || tensor->shape[0] != rows || tensor->shape[1] != columns)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: tensor \"%s\" is not [%zu, %zu], as config.json asks", weights->file,
                         name, rows, columns);
    const void *data = tensor->data;
    if (!is_aligned(tensor)) {
        void *copy = keep_copy(weights, tensor->bytes, 1);
        if (!copy)
            return error_set(err, ERR_NO_MEMORY, "%s: %s", weights->file, name);
        data = memcpy(copy, tensor->data, tensor->bytes);
    }
    *matrix = (struct matrix){ data, tensor->dtype, rows, columns };
    return 0;
}

int weights_vector(struct weights *weights, const char *name, size_t count,
                   const struct kernels *kernels, const float **vector, struct error *err)
{
    const struct tensor *tensor = need(weights, name, err);
    if (!tensor)
        return -1;
    if (tensor->count != count)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: tensor \"%s\" has %zu elements; config.json asks for %zu",
                         weights->file, name, tensor->count, count);
    if (tensor->dtype == DTYPE_F32 && is_aligned(tensor)) {
        *vector = tensor->data;
        return 0;
    }
    float *copy = weights_scratch(weights, count);
    uint16_t *aligned = is_aligned(tensor) ? NULL : mem_copy(tensor->data, tensor->bytes, 1);
    if (!copy || (!is_aligned(tensor) && !aligned)) {
        mem_free(aligned);
        return error_set(err, ERR_NO_MEMORY, "%s: %s", weights->file, name);
    }
    kernels->widen(aligned ? (const void *)aligned : tensor->data, tensor->dtype, copy, count);
    mem_free(aligned);
    *vector = copy;
    return 0;
}

enum dtype weights_dtype(const struct weights *weights, size_t *parameter_count)
{
    size_t bytes[DTYPE_COUNT] = { 0 };
    enum dtype most = DTYPE_F32;
    *parameter_count = 0;
    for (size_t i = 0; i < weights->tensors.tensor_count; i++) {
        const struct tensor *tensor = &weights->tensors.tensors[i];
        if (!tensor->readable || !tensor->used)
            continue;
        *parameter_count += tensor->count;
        bytes[tensor->dtype] += tensor->bytes;
        if (bytes[tensor->dtype] > bytes[most])
            most = tensor->dtype;
    }
    return most;
}

void weights_warn_unused(const struct weights *weights)
{
    char names[256] = "";
    size_t count = 0;
    for (size_t i = 0; i < weights->tensors.tensor_count; i++) {
        if (weights->tensors.tensors[i].used)
            continue;
        const size_t length = strlen(names);
        if (count++ < 5)
            snprintf(names + length, sizeof names - length, "%s%s", count > 1 ? ", " : "",
                     weights->tensors.tensors[i].name);
    }
    if (count > 0)
        log_write(LOG_WARNING, "%s: %zu unused tensors: %s%s", weights->file, count, names,
                  count > 5 ? ", …" : "");
}
