#include "pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/clock.h"
#include "base/mem.h"

/* One attempt at one place: about 20 ms, and 16 MiB of backtracking. */
#define STEPS_MAX     1000000
#define HEAP_KIB_MAX  16384
#define SEARCH_NS_MAX NS_PER_S /* all attempts in one text */

struct pattern {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
};

struct pattern_search {
    const struct pattern *pattern;
    pcre2_match_data *match;
    struct span text;
    size_t at;
    uint64_t deadline_ns;
};

static void *allocate(size_t bytes, void *context)
{
    (void)context;
    return mem_alloc(bytes, 1);
}

static void release(void *block, void *context)
{
    (void)context;
    mem_free(block);
}

static int compile(struct pattern *pattern, struct span expression, const char *file,
                   struct error *err)
{
    int code;
    size_t place;
    pcre2_compile_context *context = pcre2_compile_context_create(pattern->memory);
    if (!context)
        return error_set(err, ERR_NO_MEMORY, "%s: no memory for the pattern", file);
    pattern->code =
        pcre2_compile((PCRE2_SPTR)expression.text, expression.bytes,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &place, context);
    pcre2_compile_context_free(context);
    if (pattern->code)
        return 0;
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return error_set(err, ERR_NO_MEMORY, "%s: no memory for the pattern", file);
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(code, reason, sizeof reason);
    return error_set(err, ERR_BAD_MODEL, "%s: pattern: %s at byte %zu", file, (char *)reason,
                     place);
}

int pattern_open(struct pattern **out, struct span expression, const char *file, struct error *err)
{
    *out = NULL;
    struct pattern *pattern = mem_alloc(1, sizeof *pattern);
    if (pattern)
        pattern->memory = pcre2_general_context_create(allocate, release, NULL);
    if (pattern && pattern->memory)
        pattern->limits = pcre2_match_context_create(pattern->memory);
    if (!pattern || !pattern->limits) {
        error_set(err, ERR_NO_MEMORY, "%s: no memory for the pattern", file);
        goto fail;
    }
    pcre2_set_match_limit(pattern->limits, STEPS_MAX);
    pcre2_set_heap_limit(pattern->limits, HEAP_KIB_MAX);
    if (compile(pattern, expression, file, err) < 0)
        goto fail;
    *out = pattern;
    return 0;

fail:
    pattern_close(&pattern);
    return -1;
}

void pattern_close(struct pattern **pattern)
{
    struct pattern *p = *pattern;
    if (!p)
        return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    mem_free(p);
    *pattern = NULL;
}

int pattern_search_open(struct pattern_search **out, const struct pattern *pattern,
                        struct span text, struct error *err)
{
    *out = NULL;
    struct pattern_search *search = mem_alloc(1, sizeof *search);
    if (search)
        search->match = pcre2_match_data_create(1, pattern->memory);
    if (!search || !search->match) {
        pattern_search_close(&search);
        return error_set(err, ERR_NO_MEMORY, "no memory to search a text");
    }
    search->pattern = pattern;
    search->text = text;
    search->deadline_ns = clock_ns() + SEARCH_NS_MAX;
    *out = search;
    return 0;
}

void pattern_search_close(struct pattern_search **search)
{
    struct pattern_search *s = *search;
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    mem_free(s);
    *search = NULL;
}

static int give_up(const struct pattern_search *search, const char *reason, struct error *err)
{
    return error_set(err, ERR_OUT_OF_RANGE,
                     "the tokenizer's pattern gave up at byte %zu of the text: %s", search->at,
                     reason);
}

static int match_error(const struct pattern_search *search, int code, struct error *err)
{
    if (code == PCRE2_ERROR_NOMEMORY)
        return error_set(err, ERR_NO_MEMORY, "no memory to search a text");
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(code, reason, sizeof reason);
    return give_up(search, (char *)reason, err);
}

static void skip_character(struct pattern_search *search)
{
    do
        search->at++;
    while (search->at < search->text.bytes && (search->text.text[search->at] & 0xc0) == 0x80);
}

/* Attempts are anchored, place by place: the library counts steps anew at every place, so a search
 * that it is left to move on by itself would have no bound in time. */
int pattern_search_next(struct pattern_search *search, struct span *match, struct error *err)
{
    const struct span text = search->text;
    for (; search->at < text.bytes; skip_character(search)) {
        if (clock_ns() > search->deadline_ns)
            return give_up(search, "it takes too long", err);
        const int rc = pcre2_match(search->pattern->code, (PCRE2_SPTR)text.text, text.bytes,
                                   search->at, PCRE2_ANCHORED | PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK,
                                   search->match, search->pattern->limits);
        if (rc == PCRE2_ERROR_NOMATCH)
            continue;
        if (rc < 0)
            return match_error(search, rc, err);
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(search->match);
        if (ends[0] < search->at || ends[1] <= ends[0]) /* \K can move a match anywhere */
            return give_up(search, "a match runs backwards", err);
        *match = (struct span){ .text = text.text + ends[0], .bytes = ends[1] - ends[0] };
        search->at = ends[1];
        return 1;
    }
    return 0;
}
