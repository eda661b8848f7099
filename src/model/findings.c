#include "model/findings.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum { FINDINGS_MAX = 4096 };

/* Room for one more; NULL: none. */
static struct finding *room(struct findings *findings)
{
    if (findings->count == FINDINGS_MAX)
        return NULL;
    if (findings->count == findings->capacity) {
        const size_t capacity = findings->capacity ? findings->capacity * 2 : 16;
        struct finding *items = mem_resize(findings->items, capacity, sizeof *items);
        if (!items)
            return NULL;
        findings->items = items;
        findings->capacity = capacity;
    }
    return &findings->items[findings->count];
}

/* A table that serves two stacks is at fault in both. */
static bool is_known(const struct findings *findings, enum finding_kind kind, const char *tensor,
                     const char *text)
{
    for (size_t i = 0; tensor && i < findings->count; i++) {
        const struct finding *item = &findings->items[i];
        if (item->kind == kind && item->tensor && strcmp(item->tensor, tensor) == 0 &&
            strcmp(item->text, text) == 0)
            return true;
    }
    return false;
}

void findings_add(struct findings *findings, enum finding_kind kind, const char *tensor,
                  const char *text)
{
    if (is_known(findings, kind, tensor, text))
        return;
    findings->problem_count += kind == FINDING_PROBLEM;
    struct finding *item = room(findings);
    if (!item)
        return;
    *item = (struct finding){ kind, tensor ? mem_text(tensor) : NULL, mem_text(text) };
    if (item->text && (item->tensor || !tensor)) {
        findings->count++;
        return;
    }
    mem_free(item->tensor);
    mem_free(item->text);
}

void findings_clear(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        mem_free(findings->items[i].tensor);
        mem_free(findings->items[i].text);
    }
    mem_free(findings->items);
    *findings = (struct findings){ 0 };
}
