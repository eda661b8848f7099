/* ranking.h — the best few of many scores: a heap of fixed size with the worst on top.
 *
 * Offer in ascending order of id: of equal scores the one that came first stays.  One thread at a
 * time. */
#ifndef SEARCH_RANKING_H
#define SEARCH_RANKING_H

#include <stddef.h>
#include <stdint.h>

struct kernels;

struct ranked {
    float score;
    uint32_t id;
};

struct ranking {
    struct ranked *items; /* borrowed room for `capacity` */
    size_t count, capacity;
};

/* Puts `item` into the heap; when that is full, in place of the worst. */
void ranking_insert(struct ranking *ranking, struct ranked item);

/* Keeps the score if it is among the best so far. */
static inline void ranking_offer(struct ranking *ranking, float score, uint32_t id)
{
    if (ranking->count < ranking->capacity || score > ranking->items[0].score)
        ranking_insert(ranking, (struct ranked){ .score = score, .id = id });
}

/* Offers x[i] + added, with the id first_id + i, for all i < n. */
void ranking_offer_row(struct ranking *ranking, const struct kernels *kernels, const float *x,
                       size_t n, float added, uint32_t first_id);

/* Best first, the lower id first of equal ones.  No offers after that. */
void ranking_sort(struct ranking *ranking);

#endif
