#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "model/json.h"

static const size_t HEADER_BYTES_MAX = 100u << 20; /* the reference reader's limit */

static const struct stored_type {
    const char *name;
    size_t bytes;
    bool readable;
    enum dtype dtype;
} types[] = {
    { "F32", 4, true, DTYPE_F32 }, { "F16", 2, true, DTYPE_F16 }, { "BF16", 2, true, DTYPE_BF16 },
    { "F64", 8, false, 0 },        { "I64", 8, false, 0 },        { "I32", 4, false, 0 },
    { "I16", 2, false, 0 },        { "I8", 1, false, 0 },         { "U64", 8, false, 0 },
    { "U32", 4, false, 0 },        { "U16", 2, false, 0 },        { "U8", 1, false, 0 },
    { "BOOL", 1, false, 0 },       { "F8_E4M3", 1, false, 0 },    { "F8_E5M2", 1, false, 0 },
};

static const struct stored_type *find_type(const char *name)
{
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

static int map_file(struct safetensors *file, const char *path, struct error *err)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us */
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        error_set(err, ERR_IO, "%s is not a regular file", path);
    } else if (st.st_size < 8) {
        error_set(err, ERR_BAD_MODEL, "%s: %lld bytes are no safetensors file", path,
                  (long long)st.st_size);
    } else {
        file->mapping = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (file->mapping == MAP_FAILED) {
            file->mapping = NULL;
            error_set(err, ERR_IO, "%s: cannot map: %s", path, strerror(errno));
        } else {
            file->mapped_bytes = (size_t)st.st_size;
        }
    }
    if (fd >= 0)
        close(fd); /* the mapping keeps the file */
    return file->mapping ? 0 : -1;
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
                       const char *data, size_t data_bytes, const char *path, struct error *err)
{
    const struct stored_type *type = find_type(json_string_value(json_object_get(entry, "dtype")));
    if (!type)
        return error_set(err, ERR_BAD_MODEL, "%s: tensor \"%s\" has no known dtype", path, name);
    if (read_shape(tensor, json_object_get(entry, "shape")) < 0)
        return error_set(err, ERR_BAD_MODEL, "%s: tensor \"%s\" has an impossible shape", path,
                         name);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    size_t bytes;
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin) ||
        (uint64_t)json_integer_value(end) > data_bytes)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: tensor \"%s\" has offsets outside the %zu bytes of data", path, name,
                         data_bytes);
    tensor->bytes = (size_t)(json_integer_value(end) - json_integer_value(begin));
    if (__builtin_mul_overflow(tensor->count, type->bytes, &bytes) || bytes != tensor->bytes)
        return error_set(err, ERR_BAD_MODEL,
                         "%s: tensor \"%s\" has a shape of other size than its %zu bytes", path,
                         name, tensor->bytes);
    tensor->data = data + json_integer_value(begin);
    tensor->readable = type->readable;
    tensor->dtype = type->dtype;
    tensor->name = mem_text(name);
    return tensor->name ? 0 : error_set(err, ERR_NO_MEMORY, "%s", path);
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

/* The tensors must cover the data without hole or overlap. */
static int check_cover(struct safetensors *file, const char *data, const char *path,
                       struct error *err)
{
    const char *next = data;
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->tensor_count; i++) {
        if (file->tensors[i].data != next)
            return error_set(err, ERR_BAD_MODEL,
                             "%s: tensor \"%s\" overlaps another or leaves a hole", path,
                             file->tensors[i].name);
        next += file->tensors[i].bytes;
    }
    if (next != (const char *)file->mapping + file->mapped_bytes)
        return error_set(err, ERR_BAD_MODEL, "%s: data after the last tensor", path);
    return 0;
}

static int read_header(struct safetensors *file, const json_t *header, const char *data,
                       const char *path, struct error *err)
{
    const size_t data_bytes = file->mapped_bytes - (size_t)(data - (const char *)file->mapping);
    const char *name;
    json_t *entry;
    if (!json_is_object(header))
        return error_set(err, ERR_BAD_MODEL, "%s: the header is no JSON object", path);
    file->tensors = mem_alloc(json_object_size(header), sizeof *file->tensors);
    if (!file->tensors)
        return error_set(err, ERR_NO_MEMORY, "%s", path);
    json_object_foreach ((json_t *)(uintptr_t)header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (read_tensor(&file->tensors[file->tensor_count], name, entry, data, data_bytes, path,
                        err) < 0)
            return -1;
        file->tensor_count++;
    }
    if (check_cover(file, data, path, err) < 0)
        return -1;
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, by_name);
    return 0;
}

int safetensors_open(struct safetensors *file, const char *path, struct error *err)
{
    json_t *header = NULL;
    *file = (struct safetensors){ 0 };
    if (map_file(file, path, err) < 0)
        goto fail;
    uint64_t header_bytes = 0;
    const unsigned char *start = file->mapping;
    for (size_t i = 8; i-- > 0;)
        header_bytes = header_bytes << 8 | start[i];
    if (header_bytes > file->mapped_bytes - 8 || header_bytes > HEADER_BYTES_MAX) {
        error_set(err, ERR_BAD_MODEL, "%s: a header of %llu bytes in a file of %zu", path,
                  (unsigned long long)header_bytes, file->mapped_bytes);
        goto fail;
    }
    header = json_parse((const char *)start + 8, (size_t)header_bytes, path, ERR_BAD_MODEL, err);
    if (!header || read_header(file, header, (const char *)start + 8 + header_bytes, path, err) < 0)
        goto fail;
    json_decref(header);
    return 0;

fail:
    json_decref(header);
    safetensors_close(file);
    return -1;
}

void safetensors_close(struct safetensors *file)
{
    for (size_t i = 0; i < file->tensor_count; i++)
        mem_free(file->tensors[i].name);
    mem_free(file->tensors);
    if (file->mapping)
        munmap(file->mapping, file->mapped_bytes);
    *file = (struct safetensors){ 0 };
}

struct tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    const struct tensor key = { .name = (char *)(uintptr_t)name };
    return bsearch(&key, file->tensors, file->tensor_count, sizeof key, by_name);
}
