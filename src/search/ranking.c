#include "ranking.h"

#include <stdbool.h>

#include "kernels/kernels.h"

static bool worse(struct ranked a, struct ranked b)
{
    return a.score < b.score || (a.score == b.score && a.id > b.id);
}

static void sift_up(struct ranked *items, size_t i, struct ranked item)
{
    while (i > 0 && worse(item, items[(i - 1) / 2])) {
        items[i] = items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    items[i] = item;
}

/* Puts `item` where the top was, in a heap of `count`. */
static void sift_down(struct ranked *items, size_t count, struct ranked item)
{
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= count)
            break;
        if (child + 1 < count && worse(items[child + 1], items[child]))
            child++;
        if (!worse(items[child], item))
            break;
        items[i] = items[child];
        i = child;
    }
    items[i] = item;
}

void ranking_insert(struct ranking *ranking, struct ranked item)
{
    if (ranking->count < ranking->capacity)
        sift_up(ranking->items, ranking->count++, item);
    else
        sift_down(ranking->items, ranking->count, item);
}

void ranking_offer_row(struct ranking *ranking, const struct kernels *kernels, const float *x,
                       size_t n, float added, uint32_t first_id)
{
    for (size_t i = 0; i < n; i++) {
        if (ranking->count == ranking->capacity)
            i = kernels->find_above(x, i, n, added, ranking->items[0].score);
        if (i < n)
            ranking_insert(ranking,
                           (struct ranked){ .score = x[i] + added, .id = first_id + (uint32_t)i });
    }
}

void ranking_sort(struct ranking *ranking)
{
    for (size_t last = ranking->count; last-- > 1;) {
        const struct ranked worst = ranking->items[0];
        sift_down(ranking->items, last, ranking->items[last]);
        ranking->items[last] = worst;
    }
}
