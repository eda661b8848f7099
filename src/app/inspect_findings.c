/* Findings for people: those that differ in the number of the layer alone make one line. */
#include "inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { WARNING_LINES_MAX = 8 };

/* Where the first number of a tensor's name stands; digits 0: it has none. */
struct number {
    size_t start, digits;
};

static struct number find_number(const char *name)
{
    const size_t start = strcspn(name, "0123456789");
    return (struct number){ start, strspn(name + start, "0123456789") };
}

/* The same of two tensors but for that number. */
static bool alike(const struct finding *a, const struct finding *b)
{
    if (a->kind != b->kind || !a->tensor || !b->tensor || strcmp(a->text, b->text) != 0)
        return false;
    const struct number x = find_number(a->tensor), y = find_number(b->tensor);
    return x.digits && y.digits && x.start == y.start &&
           strncmp(a->tensor, b->tensor, x.start) == 0 &&
           strcmp(a->tensor + x.start + x.digits, b->tensor + y.start + y.digits) == 0;
}

/* A folder's texts must not move the cursor of a terminal: control characters become "?". */
static void print_plain(struct buffer *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool c1 = c == 0xc2 && i + 1 < length && (text[i + 1] & 0xe0) == 0x80;
        buffer_append(out, c < 0x20 || c == 0x7f || c1 ? "?" : text + i, 1);
        i += c1;
    }
}

static void end_range(struct buffer *out, unsigned long first, unsigned long last)
{
    if (last > first)
        buffer_printf(out, "%s%lu", last == first + 1 ? "," : "-", last);
}

/* "encoder.layers.{0-5}.fc1.weight", for all from `first` on that are like it; they are then said.
 */
static void print_alike(const struct findings *findings, size_t first, bool *said,
                        struct buffer *out)
{
    const struct finding *a = &findings->items[first];
    const struct number number = find_number(a->tensor);
    unsigned long from = strtoul(a->tensor + number.start, NULL, 10), to = from;
    bool several = false;
    for (size_t i = first + 1; i < findings->count && !several; i++)
        several = alike(a, &findings->items[i]);
    if (!several) {
        print_plain(out, a->tensor, strlen(a->tensor));
        return;
    }
    print_plain(out, a->tensor, number.start);
    buffer_printf(out, "{%lu", from);
    for (size_t i = first + 1; i < findings->count; i++) {
        if (said[i] || !alike(a, &findings->items[i]))
            continue;
        const unsigned long next = strtoul(findings->items[i].tensor + number.start, NULL, 10);
        said[i] = true;
        if (next != to + 1) {
            end_range(out, from, to);
            buffer_printf(out, ",%lu", next);
            from = next;
        }
        to = next;
    }
    end_range(out, from, to);
    const char *rest = a->tensor + number.start + number.digits;
    buffer_text(out, "}");
    print_plain(out, rest, strlen(rest));
}

/* Paths in the folder without it. */
static const char *within(const char *folder, const char *text)
{
    const size_t length = strlen(folder);
    return strncmp(text, folder, length) == 0 && text[length] == '/' ? text + length + 1 : text;
}

void inspect_print_findings(const struct inspection *in, enum finding_kind kind, struct buffer *out)
{
    const struct findings *findings = &in->findings;
    bool *said = mem_alloc(findings->count, sizeof *said);
    size_t lines = 0, left = 0;
    if (!said) {
        out->state = BUFFER_NO_MEMORY;
        return;
    }
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        if (said[i] || finding->kind != kind)
            continue;
        if (kind == FINDING_WARNING && lines == WARNING_LINES_MAX) {
            left++;
            continue;
        }
        lines++;
        buffer_text(out, "  ");
        if (finding->tensor) {
            print_alike(findings, i, said, out);
            buffer_text(out, " ");
        }
        const char *text = within(in->folder, finding->text);
        print_plain(out, text, strlen(text));
        buffer_text(out, "\n");
    }
    if (left > 0)
        buffer_printf(out, "  and %zu more, which --json names\n", left);
    mem_free(said);
}
