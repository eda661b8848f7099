#include "model/json.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"
#include "model/file.h"

enum { LIST_DEPTH_MAX = 8 };

/* Real files take about 10 times their size, and few are as large as their limit. */
static const size_t HEAP_FACTOR = 16, HEAP_LEAST = 1 << 20;

/* Without memory the library may call the text wrong, so what its allocations did decides. */
static _Thread_local bool allocation_failed, heap_spent;

/* What this thread's parsing may still take.  What it gives back is not counted. */
static _Thread_local size_t heap_left = SIZE_MAX;

static void *allocate(size_t bytes)
{
    enum { OVERHEAD = 16 }; /* of a block in the heap; most are about as small */
    heap_spent |= bytes > heap_left || heap_left - bytes < OVERHEAD;
    if (heap_spent)
        return NULL;
    void *block = mem_alloc(bytes, 1);
    allocation_failed |= !block;
    if (heap_left != SIZE_MAX)
        heap_left -= bytes + OVERHEAD;
    return block;
}

static void use_our_heap(void)
{
    json_set_alloc_funcs(allocate, mem_free);
}

/* The library's word for a NUL names a flag of its own. */
static const char *plain_text(const json_error_t *reason)
{
    return json_error_code(reason) == json_error_null_character ? "\\u0000 is not allowed"
                                                                : reason->text;
}

json_t *json_parse_within(const char *bytes, size_t count, size_t heap_max, const char *what,
                          enum error_code code, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, use_our_heap);

    if (count == 0) {
        error_set(err, code, "%s is empty; it must be JSON", what);
        return NULL;
    }
    json_error_t reason;
    allocation_failed = heap_spent = false;
    heap_left = heap_max;
    json_t *json = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, &reason);
    const bool spent = heap_spent;
    heap_left = SIZE_MAX;
    heap_spent = false;
    if (json)
        return json;
    if (spent)
        error_set(err, code, "%s: its JSON takes more than %zu MB of memory", what, heap_max >> 20);
    else if (allocation_failed)
        error_set(err, ERR_NO_MEMORY, "no memory to parse %s", what);
    else
        error_set(err, code, "%s is not valid JSON: line %d, column %d: %s", what, reason.line,
                  reason.column, plain_text(&reason));
    return NULL;
}

json_t *json_parse(const char *bytes, size_t count, const char *what, enum error_code code,
                   struct error *err)
{
    return json_parse_within(bytes, count, SIZE_MAX, what, code, err);
}

json_t *json_read_file(const char *dir, const char *name, size_t limit_bytes, struct error *err)
{
    char path[PATH_MAX];
    size_t count = 0;
    char *bytes = model_file_read(dir, name, limit_bytes, &count, err);
    if (!bytes)
        return NULL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    json_t *json = json_parse_within(bytes, count, HEAP_LEAST + HEAP_FACTOR * limit_bytes, path,
                                     ERR_BAD_MODEL, err);
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
