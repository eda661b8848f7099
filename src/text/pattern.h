/* pattern.h — tokens as the matches of a regular expression (PCRE2, UTF-8, Unicode properties).
 *
 * A text comes from a client, so a search is bounded: one attempt in steps and memory, all attempts
 * in one text together in time.  What is between two matches is no token; nor is an empty match. A
 * pattern is const after pattern_open() and safe from any thread; a search is one thread's. */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "vocabulary.h"

struct pattern;
struct pattern_search;

/* Compiles.  `file` names the place in messages.  Owned by the caller until pattern_close().
 * Errors: ERR_BAD_MODEL, ERR_NO_MEMORY. */
int pattern_open(struct pattern **out, struct span expression, const char *file, struct error *err);
void pattern_close(struct pattern **pattern);

/* Searches `text`, valid UTF-8 that outlives the search.  Errors: ERR_NO_MEMORY. */
int pattern_search_open(struct pattern_search **out, const struct pattern *pattern,
                        struct span text, struct error *err);

/* 1 and the next match, 0 at the end of the text, −1 on an error: ERR_OUT_OF_RANGE (the search gave
 * up), ERR_NO_MEMORY. */
int pattern_search_next(struct pattern_search *search, struct span *match, struct error *err);
void pattern_search_close(struct pattern_search **search);

#endif
