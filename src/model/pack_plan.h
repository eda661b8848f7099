/* pack_plan.h — what a packed file will hold.  Private to src/model. */
#ifndef MODEL_PACK_PLAN_H
#define MODEL_PACK_PLAN_H

#include "model/pack.h"
#include "weight_files.h"

enum pack_kind {
    PACK_STORED, /* the tensor's bytes */
    PACK_ROWS,   /* the matrix in rows, narrowed to bfloat16 */
    PACK_PANELS,
    PACK_BOUNDS
};

struct pack_entry {
    char *name;
    enum pack_kind kind;
    const struct tensor *tensor; /* STORED; else the source of `rows` */
    struct matrix rows;          /* not STORED */
    enum dtype dtype;            /* what it becomes; BOUNDS: what the matrix does */
    size_t bytes;
};

struct pack_plan {
    struct pack_entry *entries;
    size_t count, capacity;
};

/* In the order of the file: what must lie aligned goes first.  Errors: as pack_write(). */
int pack_plan_make(struct pack_plan *plan, const struct model *model,
                   const struct pack_options *options, struct error *err);
void pack_plan_free(struct pack_plan *plan);

#endif
