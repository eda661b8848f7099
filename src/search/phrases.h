/* phrases.h — a list of phrases: sequences of token ids, each with a bias.  A list of single tokens
 * is one of phrases of length 1.
 *
 * Const once sorted, and then shared between rows and threads by those who hold it. */
#ifndef SEARCH_PHRASES_H
#define SEARCH_PHRASES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct phrase {
    const int32_t *ids; /* (count), in the list's block */
    uint32_t count;     /* at least 1 */
    float bias;
};

struct phrases {
    atomic_size_t holders;
    struct phrase *items;
    size_t count;
    int32_t *ids; /* of all phrases */
};

/* Room for `count` phrases of `id_count` ids in all, for the caller to fill and sort; the caller is
 * its one holder.  NULL: no memory. */
struct phrases *phrases_create(size_t count, size_t id_count);

/* Orders by last id, then by length and ids.  Of equal phrases the one that stood last stays. */
void phrases_sort(struct phrases *phrases);

/* NULL is a list that nobody needs to hold or drop. */
void phrases_hold(struct phrases *phrases);
void phrases_drop(struct phrases *phrases);

/* Whether `phrases`, sorted and of single tokens, have this one. */
bool phrases_have(const struct phrases *phrases, int32_t id);

#endif
