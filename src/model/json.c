#include "model/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { LIST_DEPTH_MAX = 8 };

/* Without memory the library may call the text wrong, so what its allocations did decides. */
static _Thread_local bool allocation_failed;

static void *allocate(size_t bytes)
{
    void *block = mem_alloc(bytes, 1);
    allocation_failed |= !block;
    return block;
}

static void use_our_heap(void)
{
    json_set_alloc_funcs(allocate, mem_free);
}

json_t *json_parse(const char *bytes, size_t count, const char *what, enum error_code code,
                   struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, use_our_heap);

    if (count == 0) {
        error_set(err, code, "%s is empty; it must be JSON", what);
        return NULL;
    }
    json_error_t reason;
    allocation_failed = false;
    json_t *json = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, &reason);
    if (json)
        return json;
    if (allocation_failed)
        error_set(err, ERR_NO_MEMORY, "no memory to parse %s", what);
    else
        error_set(err, code, "%s is not valid JSON: line %d, column %d: %s", what, reason.line,
                  reason.column, reason.text);
    return NULL;
}

/* The whole of an open file, for the caller to mem_free(). */
static char *read_whole(int fd, const char *path, size_t limit_bytes, size_t *count,
                        struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(err, ERR_IO, "%s is not a regular file", path);
        return NULL;
    }
    if ((uint64_t)st.st_size > limit_bytes) {
        error_set(err, ERR_BAD_MODEL, "%s has %lld bytes; at most %zu are read", path,
                  (long long)st.st_size, limit_bytes);
        return NULL;
    }
    const size_t size = (size_t)st.st_size;
    char *bytes = mem_alloc(size, 1);
    if (!bytes) {
        error_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
        return NULL;
    }
    for (*count = 0; *count < size;) {
        const ssize_t got = read(fd, bytes + *count, size - *count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            error_set(err, ERR_IO, "%s: %s", path, got ? strerror(errno) : "it became shorter");
            mem_free(bytes);
            return NULL;
        }
        *count += (size_t)got;
    }
    return bytes;
}

json_t *json_read_file(const char *dir, const char *name, size_t limit_bytes, struct error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) {
        error_set(err, ERR_IO, "%s: the path is too long", name);
        return NULL;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        if (errno != ENOENT)
            error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    size_t count = 0;
    char *bytes = read_whole(fd, path, limit_bytes, &count, err);
    close(fd);
    json_t *json = bytes ? json_parse(bytes, count, path, ERR_BAD_MODEL, err) : NULL;
    mem_free(bytes);
    return json;
}

static int copy(const json_t *json, struct value *value, int depth, struct error *err);

static int copy_list(const json_t *json, struct value *value, int depth, struct error *err)
{
    if (depth == LIST_DEPTH_MAX)
        return error_set(err, ERR_OUT_OF_RANGE, "lists are nested deeper than %d", LIST_DEPTH_MAX);
    const size_t count = json_array_size(json);
    struct value *items = mem_alloc(count, sizeof *items);
    if (!items)
        return error_set(err, ERR_NO_MEMORY, "no memory for a list of %zu values", count);
    *value = (struct value){ .kind = VALUE_LIST, .items = items, .count = count };
    for (size_t i = 0; i < count; i++)
        if (copy(json_array_get(json, i), &items[i], depth + 1, err) < 0) {
            value_clear(value);
            return -1;
        }
    return 0;
}

static int copy(const json_t *json, struct value *value, int depth, struct error *err)
{
    *value = (struct value){ .kind = VALUE_NULL };
    switch (json_typeof(json)) {
    case JSON_NULL:
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        *value = (struct value){ .kind = VALUE_BOOL, .boolean = json_is_true(json) };
        return 0;
    case JSON_INTEGER:
        *value = (struct value){ .kind = VALUE_INT, .integer = json_integer_value(json) };
        return 0;
    case JSON_REAL:
        *value = (struct value){ .kind = VALUE_REAL, .real = json_real_value(json) };
        return 0;
    case JSON_STRING: {
        char *text = mem_text(json_string_value(json));
        if (!text)
            return error_set(err, ERR_NO_MEMORY, "no memory for a text");
        *value = (struct value){ .kind = VALUE_TEXT, .text = text };
        return 0;
    }
    case JSON_ARRAY:
        return copy_list(json, value, depth, err);
    case JSON_OBJECT:
        *value = (struct value){ .kind = VALUE_OBJECT };
        return 0;
    }
    return 0;
}

int json_to_value(const json_t *json, struct value *value, struct error *err)
{
    return copy(json, value, 0, err);
}
