#include "weights.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kernels/panels.h"

int weights_open(struct weights **out, const char *dir, struct error *err)
{
    *out = NULL;
    struct weights *weights = mem_alloc(1, sizeof *weights);
    if (!weights)
        return error_set(err, ERR_NO_MEMORY, "%s", dir);
    if (weight_files_open(&weights->tensors, dir, err) < 0) {
        mem_free(weights);
        return -1;
    }
    *out = weights;
    return 0;
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
    weight_files_close(&w->tensors);
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

/* The name of a tensor that was made of the tensor `name`; cut, and then no tensor has it. */
struct derived_name {
    char text[512];
};

static struct derived_name derived(const char *name, const char *ending, const char *dtype)
{
    struct derived_name d;
    snprintf(d.text, sizeof d.text, "%s%s%s", name, ending, dtype);
    return d;
}

static struct tensor *find_panels(const struct weights *weights, const char *name,
                                  enum dtype *dtype)
{
    struct tensor *tensor = NULL;
    for (*dtype = DTYPE_F32; !tensor && *dtype < DTYPE_COUNT; ++*dtype)
        tensor = weight_files_find(&weights->tensors,
                                   derived(name, ".panels.", dtype_name(*dtype)).text);
    --*dtype;
    return tensor;
}

bool weights_has_rows(const struct weights *weights, const char *name)
{
    return weight_files_find(&weights->tensors, name);
}

bool weights_has(const struct weights *weights, const char *name)
{
    enum dtype dtype;
    return weights_has_rows(weights, name) || find_panels(weights, name, &dtype);
}

void weights_expect(struct weights *weights, const char *name)
{
    struct tensor *tensor = weight_files_find(&weights->tensors, name);
    if (tensor)
        tensor->used = true;
}

/* What is wrong with a tensor; `format` goes on behind its name. */
__attribute__((format(printf, 5, 6))) static int refuse(const struct weights *weights,
                                                        const char *path, const char *name,
                                                        struct error *err, const char *format, ...)
{
    char reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (weights->findings)
        findings_add(weights->findings, FINDING_PROBLEM, name, reason);
    return error_at(err, ERR_BAD_MODEL, name, "%s: tensor \"%s\" %s", path, name, reason);
}

static struct tensor *need(struct weights *weights, const char *name, struct error *err)
{
    struct tensor *tensor = weight_files_find(&weights->tensors, name);
    if (!tensor) {
        refuse(weights, weights->tensors.path, name, err, "is missing");
        return NULL;
    }
    tensor->used = true;
    if (!tensor->readable) {
        refuse(weights, tensor->path, name, err, "is not F32, F16 or BF16");
        return NULL;
    }
    tensor->needed = true;
    return tensor;
}

/* The tensor's shape in brackets; cut to `size`. */
static void shape_text(const struct tensor *tensor, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "[");
    for (size_t i = 0; i < tensor->rank && length < size; i++)
        length +=
            (size_t)snprintf(out + length, size - length, "%s%zu", i ? ", " : "", tensor->shape[i]);
    if (length < size)
        snprintf(out + length, size - length, "]");
}

static bool is_aligned(const struct tensor *tensor)
{
    return (uintptr_t)tensor->data % dtype_bytes(tensor->dtype) == 0;
}

int weights_matrix(struct weights *weights, const char *name, size_t rows, size_t columns,
                   struct matrix *matrix, struct error *err)
{
    struct tensor *tensor = need(weights, name, err);
    if (!tensor)
        return -1;
    if (tensor->rank != 2 || tensor->shape[0] != rows || tensor->shape[1] != columns) {
        char shape[TENSOR_RANK_MAX * 24];
        shape_text(tensor, shape, sizeof shape);
        return refuse(weights, tensor->path, name, err, "is %s; config.json asks for [%zu, %zu]",
                      shape, rows, columns);
    }
    if (!is_aligned(tensor)) {
        void *copy = keep_copy(weights, tensor->bytes, 1);
        if (!copy)
            return error_set(err, ERR_NO_MEMORY, "%s: %s", tensor->path, name);
        tensor->data = memcpy(copy, tensor->data, tensor->bytes);
    }
    *matrix = (struct matrix){ tensor->data, tensor->dtype, rows, columns, LAYOUT_ROWS };
    return 0;
}

/* The tensor, whose bytes are those of a matrix packed as `dtype`; false: they are not. */
static bool take_panels(struct tensor *tensor, enum dtype dtype, size_t rows, size_t columns,
                        struct matrix *matrix)
{
    if (tensor->bytes != panels_bytes(dtype, rows, columns) ||
        (uintptr_t)tensor->data % PANEL_ALIGN != 0)
        return false;
    *matrix = (struct matrix){ tensor->data, dtype, rows, columns, LAYOUT_PANELS };
    return true;
}

int weights_linear(struct weights *weights, const char *name, size_t rows, size_t columns,
                   struct matrix *matrix, struct error *err)
{
    enum dtype dtype;
    struct tensor *tensor = find_panels(weights, name, &dtype);
    const struct tensor *same = weight_files_find(&weights->tensors, name);
    if (!tensor)
        return weights_matrix(weights, name, rows, columns, matrix, err);
    weights_expect(weights, name);
    tensor->used = true;
    if (!take_panels(tensor, dtype, rows, columns, matrix))
        return refuse(weights, tensor->path, tensor->name, err,
                      "is not what %zu rows of %zu columns become; pack the folder anew", rows,
                      columns);
    tensor->needed = !same || !same->needed; /* parameters are counted once */
    tensor->dtype = dtype;
    tensor->count = rows * columns;
    return 0;
}

bool weights_screen(struct weights *weights, const char *name, size_t rows, size_t columns,
                    struct matrix *screen, const float **bounds)
{
    struct tensor *panels = weight_files_find(&weights->tensors, derived(name, ".screen", "").text);
    struct tensor *lengths =
        weight_files_find(&weights->tensors, derived(name, ".bounds", "").text);
    if (!panels || !lengths || !lengths->readable || lengths->dtype != DTYPE_F32 ||
        lengths->count != 2 * rows || !is_aligned(lengths) ||
        !take_panels(panels, DTYPE_I8, rows, columns, screen))
        return false;
    panels->used = lengths->used = true;
    *bounds = lengths->data;
    return true;
}

int weights_vector(struct weights *weights, const char *name, size_t count,
                   const struct kernels *kernels, const float **vector, struct error *err)
{
    const struct tensor *tensor = need(weights, name, err);
    if (!tensor)
        return -1;
    if (tensor->count != count)
        return refuse(weights, tensor->path, name, err,
                      "has %zu elements; config.json asks for %zu", tensor->count, count);
    if (tensor->dtype == DTYPE_F32 && is_aligned(tensor)) {
        *vector = tensor->data;
        return 0;
    }
    float *copy = weights_scratch(weights, count);
    uint16_t *aligned = is_aligned(tensor) ? NULL : mem_copy(tensor->data, tensor->bytes, 1);
    if (!copy || (!is_aligned(tensor) && !aligned)) {
        mem_free(aligned);
        return error_set(err, ERR_NO_MEMORY, "%s: %s", tensor->path, name);
    }
    kernels->widen(aligned ? (const void *)aligned : tensor->data, tensor->dtype, copy, count);
    mem_free(aligned);
    *vector = copy;
    return 0;
}

void weights_count(const struct weights *weights, size_t counts[DTYPE_COUNT])
{
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        counts[dtype] = 0;
    for (size_t i = 0; i < weights->tensors.tensor_count; i++) {
        const struct tensor *tensor = weights->tensors.tensors[i];
        if (tensor->needed)
            counts[tensor->dtype] += tensor->count;
    }
}

enum dtype weights_dtype(const struct weights *weights, size_t *parameter_count)
{
    size_t counts[DTYPE_COUNT];
    enum dtype most = DTYPE_F32;
    weights_count(weights, counts);
    *parameter_count = 0;
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        *parameter_count += counts[dtype];
        if (counts[dtype] * dtype_bytes(dtype) > counts[most] * dtype_bytes(most))
            most = dtype;
    }
    return most;
}

struct tensor *weights_tensor_at(const struct weights *weights, const void *data)
{
    for (size_t i = 0; data && i < weights->tensors.tensor_count; i++)
        if (weights->tensors.tensors[i]->data == data)
            return weights->tensors.tensors[i];
    return NULL;
}

const char *weights_name(const struct weights *weights, const void *data)
{
    const struct tensor *tensor = weights_tensor_at(weights, data);
    return tensor ? tensor->name : NULL;
}

void weights_warn_unused(const struct weights *weights)
{
    enum { NAMED_MAX = 5 };
    char names[256] = "";
    size_t count = 0, named = 0, length = 0;
    for (size_t i = 0; i < weights->tensors.tensor_count; i++) {
        const struct tensor *tensor = weights->tensors.tensors[i];
        if (tensor->used)
            continue;
        if (weights->findings)
            findings_add(weights->findings, FINDING_WARNING, tensor->name, "is not used");
        count++;
        if (named < NAMED_MAX && length + strlen(tensor->name) + 3 <= sizeof names) {
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       named ? ", " : "", tensor->name);
            named++;
        }
    }
    if (count > 0 && !weights->findings)
        log_write(LOG_WARNING, "%s: %zu unused tensors: %s%s", weights->tensors.path, count, names,
                  count > named ? ", …" : "");
}
