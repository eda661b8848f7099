/* findings.h — what there is to say against a model folder: all of it, not only the first error.
 * One thread at a time. */
#ifndef MODEL_FINDINGS_H
#define MODEL_FINDINGS_H

#include <stddef.h>

enum finding_kind {
    FINDING_PROBLEM, /* the folder cannot be served */
    FINDING_WARNING  /* it can */
};

struct finding {
    enum finding_kind kind;
    char *tensor; /* owned; NULL: it is about no tensor */
    char *text;   /* owned; about a tensor it goes on behind its name: "is missing" */
};

/* All zero: nothing was found. */
struct findings {
    struct finding *items; /* owned, in the order in which they were met */
    size_t count, capacity;
    size_t problem_count; /* with those that found no room: beyond some thousands, or no memory */
};

/* The same of the same tensor is kept once. */
void findings_add(struct findings *findings, enum finding_kind kind, const char *tensor,
                  const char *text);
void findings_clear(struct findings *findings);

#endif
