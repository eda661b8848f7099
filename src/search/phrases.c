#include "phrases.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct phrases *phrases_create(size_t count, size_t id_count)
{
    const size_t items_bytes = count * sizeof(struct phrase),
                 ids_bytes = id_count * sizeof(int32_t);
    struct phrases *const phrases = mem_alloc(1, sizeof *phrases + items_bytes + ids_bytes);
    if (!phrases)
        return NULL;
    atomic_init(&phrases->holders, 1);
    phrases->items = (struct phrase *)(void *)(phrases + 1);
    phrases->count = count;
    phrases->ids = (int32_t *)(void *)(phrases->items + count);
    return phrases;
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_ids(const struct phrase *a, const struct phrase *b)
{
    int rc = order(a->ids[a->count - 1], b->ids[b->count - 1]);
    if (rc == 0)
        rc = order(a->count, b->count);
    for (uint32_t i = 0; rc == 0 && i < a->count; i++)
        rc = order(a->ids[i], b->ids[i]);
    return rc;
}

/* Equal ones in the order they were given, which is that of their ids in the block. */
static int compare(const void *a, const void *b)
{
    const struct phrase *const x = a, *const y = b;
    const int rc = compare_ids(x, y);
    return rc != 0 ? rc : (x->ids > y->ids) - (x->ids < y->ids);
}

void phrases_sort(struct phrases *phrases)
{
    size_t kept = 0;
    qsort(phrases->items, phrases->count, sizeof *phrases->items, compare);
    for (size_t i = 0; i < phrases->count; i++) {
        if (kept > 0 && compare_ids(&phrases->items[kept - 1], &phrases->items[i]) == 0)
            kept--;
        phrases->items[kept++] = phrases->items[i];
    }
    phrases->count = kept;
}

void phrases_hold(struct phrases *phrases)
{
    if (phrases)
        atomic_fetch_add(&phrases->holders, 1);
}

void phrases_drop(struct phrases *phrases)
{
    if (phrases && atomic_fetch_sub(&phrases->holders, 1) == 1)
        mem_free(phrases);
}

bool phrases_have(const struct phrases *phrases, int32_t id)
{
    const struct phrase wanted = { .ids = &id, .count = 1 };
    size_t first = 0, end = phrases->count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const int rc = compare_ids(&phrases->items[middle], &wanted);
        if (rc == 0)
            return true;
        if (rc < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return false;
}
