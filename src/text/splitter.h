/* splitter.h — the four ways in which a text falls into tokens.
 *
 * A splitter is a value, const while it is used, safe from any thread; a split is one text's and
 * one thread's. */
#ifndef TEXT_SPLITTER_H
#define TEXT_SPLITTER_H

#include "pattern.h"

enum split_kind {
    SPLIT_CHARACTERS, /* every Unicode scalar value */
    SPLIT_WORDS,      /* what is between white space (the Unicode property) */
    SPLIT_PATTERN,    /* every match */
    SPLIT_SEPARATOR   /* what is between separators; nothing between two of them is no token */
};

struct splitter {
    enum split_kind kind;
    const struct pattern *pattern; /* SPLIT_PATTERN; borrowed */
    struct span separator;         /* SPLIT_SEPARATOR; not empty, borrowed */
};

struct split {
    const struct splitter *splitter;
    struct span rest;              /* of the text */
    struct pattern_search *search; /* SPLIT_PATTERN */
};

/* Begins with `text`, valid UTF-8 that outlives the split.  split_end() also after a failure.
 * Errors: ERR_NO_MEMORY. */
int split_begin(struct split *split, const struct splitter *splitter, struct span text,
                struct error *err);

/* 1 and the next token, a piece of the text; 0 at its end; −1: the errors of pattern_search_next().
 */
int split_next(struct split *split, struct span *token, struct error *err);
void split_end(struct split *split);

#endif
