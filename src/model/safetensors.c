#include "safetensors.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "model/file.h"
#include "model/json.h"

/* A tensor takes about 130 bytes of header and 1,300 of heap while it is parsed: files of more than
 * 10,000 tensors are read, and none costs 50 MB. */
static const size_t HEADER_BYTES_MAX = 8 << 20, HEADER_HEAP_MAX = 20 << 20;

static const struct stored_type {
    const char *name;
    size_t bytes;
    bool readable;
    enum dtype dtype;
} types[] = {
    { "F32", 4, true, DTYPE_F32 }, { "F16", 2, true, DTYPE_F16 },  { "BF16", 2, true, DTYPE_BF16 },
    { "F64", 8, false, 0 },        { "I64", 8, false, 0 },         { "I32", 4, false, 0 },
    { "I16", 2, false, 0 },        { "I8", 1, false, 0 },          { "U64", 8, false, 0 },
    { "U32", 4, false, 0 },        { "U16", 2, false, 0 },         { "U8", 1, false, 0 },
    { "BOOL", 1, false, 0 },       { "C64", 8, false, 0 },         { "F8_E4M3", 1, false, 0 },
    { "F8_E5M2", 1, false, 0 },    { "F8_E4M3FNUZ", 1, false, 0 }, { "F8_E5M2FNUZ", 1, false, 0 },
    { "F8_E8M0", 1, false, 0 },
};

static const struct stored_type *find_type(const char *name)
{
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

/* Element counts fit size_t, and so does everything computed from them. */
static int read_shape(struct tensor *tensor, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > TENSOR_RANK_MAX)
        return -1;
    tensor->rank = json_array_size(shape);
    tensor->count = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        const json_t *side = json_array_get(shape, i);
        if (!json_is_integer(side) || json_integer_value(side) < 0)
            return -1;
        tensor->shape[i] = (size_t)json_integer_value(side);
        if (__builtin_mul_overflow(tensor->count, tensor->shape[i], &tensor->count))
            return -1;
    }
    return 0;
}

/* `data`, `data_bytes`: what lies behind the header. */
static int read_tensor(struct tensor *tensor, const char *name, const json_t *entry,
                       const char *data, size_t data_bytes, struct error *err)
{
    const struct stored_type *type = find_type(json_string_value(json_object_get(entry, "dtype")));
    if (!type)
        return error_set(err, ERR_BAD_MODEL, "%s: tensor \"%s\" has no known dtype", tensor->path,
                         name);
    if (read_shape(tensor, json_object_get(entry, "shape")) < 0)
        return error_set(err, ERR_BAD_MODEL, "%s: tensor \"%s\" has an impossible shape",
                         tensor->path, name);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    size_t bytes;
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin) ||
        (uint64_t)json_integer_value(end) > data_bytes)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: tensor \"%s\" has offsets outside the %zu bytes of data",
                         tensor->path, name, data_bytes);
    tensor->bytes = (size_t)(json_integer_value(end) - json_integer_value(begin));
    if (__builtin_mul_overflow(tensor->count, type->bytes, &bytes) || bytes != tensor->bytes)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: tensor \"%s\" has a shape of other size than its %zu bytes",
                         tensor->path, name, tensor->bytes);
    tensor->data = data + json_integer_value(begin);
    tensor->readable = type->readable;
    tensor->dtype = type->dtype;
    tensor->name = mem_text(name);
    return tensor->name ? 0 : error_set(err, ERR_NO_MEMORY, "%s", tensor->path);
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors must cover the data without hole or overlap. */
static int check_cover(struct safetensors *file, const char *data, size_t data_bytes,
                       struct error *err)
{
    const char *next = data;
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (file->tensors[i].data != next)
            return error_set(err, ERR_BAD_MODEL,
                             "%s: tensor \"%s\" overlaps another or leaves a hole", file->path,
                             file->tensors[i].name);
        next += file->tensors[i].bytes;
    }
    if (next != data + data_bytes)
        return error_set(err, ERR_BAD_MODEL, "%s: data after the last tensor", file->path);
    return 0;
}

static int read_header(struct safetensors *file, const json_t *header, const char *data,
                       size_t data_bytes, struct error *err)
{
    const char *name;
    json_t *entry;
    if (!json_is_object(header))
        return error_set(err, ERR_BAD_MODEL, "%s: the header is no JSON object", file->path);
    file->tensors = mem_alloc(json_object_size(header), sizeof *file->tensors);
    if (!file->tensors)
        return error_set(err, ERR_NO_MEMORY, "%s", file->path);
    json_object_foreach ((json_t *)(uintptr_t)header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            const char *packed = json_string_value(json_object_get(entry, "seqd_packed"));
            snprintf(file->packed, sizeof file->packed, "%s", packed ? packed : "");
            continue;
        }
        struct tensor *tensor = &file->tensors[file->tensor_count];
        tensor->path = file->path;
        if (read_tensor(tensor, name, entry, data, data_bytes, err) < 0)
            return -1;
        file->tensor_count++;
    }
    return check_cover(file, data, data_bytes, err);
}

/* A clone without its large files has these small texts in their place. */
static bool is_lfs_pointer(const char *bytes, size_t count)
{
    static const char start[] = "version https://git-lfs";
    return count >= sizeof start - 1 && memcmp(bytes, start, sizeof start - 1) == 0;
}

static int read_length(struct safetensors *file, const char *bytes, size_t count, struct error *err)
{
    uint64_t length = 0;
    if (is_lfs_pointer(bytes, count))
        return error_set(err, ERR_BAD_MODEL,
                         "%s is a Git LFS pointer, not the weights; `git lfs pull` fetches them",
                         file->path);
    if (count < 8)
        return error_set(err, ERR_BAD_MODEL, "%s: %zu bytes are no safetensors file", file->path,
                         count);
    for (size_t i = 8; i-- > 0;)
        length = length << 8 | (unsigned char)bytes[i];
    if (length > count - 8)
        return error_set(err, ERR_BAD_MODEL, "%s: a header of %llu bytes in a file of %zu",
                         file->path, (unsigned long long)length, count);
    if (length > HEADER_BYTES_MAX)
        return error_set(err, ERR_BAD_MODEL, "%s: a header of %llu bytes; at most %zu are read",
                         file->path, (unsigned long long)length, HEADER_BYTES_MAX);
    file->header_bytes = (size_t)length;
    return 0;
}

static int parse(struct safetensors *file, const char *bytes, size_t count, struct error *err)
{
    if (read_length(file, bytes, count, err) < 0)
        return -1;
    json_t *header = json_parse_within(bytes + 8, file->header_bytes, HEADER_HEAP_MAX, file->path,
                                       ERR_BAD_MODEL, err);
    const size_t before = 8 + file->header_bytes;
    const int rc = header ? read_header(file, header, bytes + before, count - before, err) : -1;
    json_decref(header);
    return rc;
}

int safetensors_parse(struct safetensors *file, const void *bytes, size_t count, const char *path,
                      struct error *err)
{
    *file = (struct safetensors){ .path = mem_text(path) };
    if (file->path && parse(file, bytes, count, err) == 0)
        return 0;
    error_set(err, ERR_NO_MEMORY, "%s", path);
    safetensors_close(file);
    return -1;
}

int safetensors_open(struct safetensors *file, const char *dir, const char *name, struct error *err)
{
    size_t bytes;
    char path[PATH_MAX];
    *file = (struct safetensors){ 0 };
    const int fd = model_file_open(dir, name, &bytes, err);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    struct mapped_file mapped;
    if (mapped_file_open(&mapped, fd, bytes, path, err) < 0)
        return -1;
    if (safetensors_parse(file, mapped.data, bytes, path, err) < 0) {
        mapped_file_close(&mapped);
        return -1;
    }
    file->mapped = mapped;
    return 0;
}

void safetensors_close(struct safetensors *file)
{
    for (size_t i = 0; i < file->tensor_count; i++)
        mem_free(file->tensors[i].name);
    mem_free(file->tensors);
    mem_free(file->path);
    if (file->mapped.data)
        mapped_file_close(&file->mapped);
    *file = (struct safetensors){ 0 };
}
