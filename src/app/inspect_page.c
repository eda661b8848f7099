/* The page for people: about 45 lines of at most 100 columns, unless much is wrong. */
#include "inspect.h"

#include <stdio.h>
#include <string.h>

#include "http/describe.h"
#include "model/sentence.h"

enum { COLUMNS = 100, NAME_COLUMNS = 19, TEXT_BYTES = 600 };

/* Characters of UTF-8, up to the next blank. */
static size_t word_columns(const char *text)
{
    size_t columns = 0;
    for (; *text && *text != ' '; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

/* `name`, and the text behind it in lines that end at a blank before COLUMNS. */
static void print_line(struct buffer *out, const char *name, const char *text)
{
    size_t column = NAME_COLUMNS;
    buffer_printf(out, "  %-16s", name);
    while (*text) {
        const size_t columns = word_columns(text), length = strcspn(text, " ");
        if (column + columns > COLUMNS && column > NAME_COLUMNS) {
            buffer_printf(out, "\n%*s", NAME_COLUMNS - 1, "");
            column = NAME_COLUMNS;
        }
        buffer_printf(out, " %.*s", (int)length, text);
        column += columns + 1;
        text += length;
        text += *text == ' ';
    }
    buffer_text(out, "\n");
}

/* 1234567 as 1,234,567. */
struct text {
    char text[32];
};
static struct text grouped(size_t number)
{
    char digits[24];
    struct text grouped;
    const size_t count = (size_t)snprintf(digits, sizeof digits, "%zu", number);
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            grouped.text[length++] = ',';
        grouped.text[length++] = digits[i];
    }
    grouped.text[length] = '\0';
    return grouped;
}

static struct text bytes(size_t count)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    struct text text;
    double amount = (double)count / 1024;
    size_t unit = 0;
    for (; amount >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++)
        amount /= 1024;
    if (count < 1024)
        snprintf(text.text, sizeof text.text, "%zu B", count);
    else
        snprintf(text.text, sizeof text.text, "%.1f %s", amount, units[unit]);
    return text;
}

/* One number where encoder and decoder have the same, else both. */
static struct text both(const struct model_config *c, size_t encoder, size_t decoder)
{
    struct text text;
    if (!config_generates(c) || encoder == decoder)
        snprintf(text.text, sizeof text.text, "%zu", encoder);
    else
        snprintf(text.text, sizeof text.text, "%zu / %zu", encoder, decoder);
    return text;
}

static void print_parameters(const struct model *model, struct buffer *out)
{
    size_t counts[DTYPE_COUNT];
    char text[TEXT_BYTES] = "";
    model_count(model, counts);
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (counts[dtype] > 0)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s",
                     text[0] ? ", " : "", grouped(counts[dtype]).text, dtype_name(dtype));
    if (model->sentence && model->sentence->parameter_count)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", %s in modules",
                 grouped(model->sentence->parameter_count).text);
    print_line(out, "parameters", text[0] ? text : "unknown without the weights");
}

static void print_sizes(const struct model_config *c, struct buffer *out)
{
    const struct stack_shape *e = &c->encoder, *d = &c->decoder;
    char text[TEXT_BYTES], layers[64], values[64] = "";
    snprintf(layers, sizeof layers, config_generates(c) ? "%zu + %zu" : "%zu", e->layers,
             d->layers);
    if (e->value_width != e->key_width || d->value_width != d->key_width)
        snprintf(values, sizeof values, " (values %s)",
                 both(c, e->value_width, d->value_width).text);
    snprintf(text, sizeof text, "width %zu, %s layers, %s heads of %s%s, inner %s, vocabulary %s",
             c->width, layers, both(c, e->heads, d->heads).text,
             both(c, e->key_width, d->key_width).text, values,
             both(c, e->inner_width, d->inner_width).text,
             both(c, c->source_vocabulary, c->target_vocabulary).text);
    print_line(out, "sizes", text);
}

/* Which stored table serves whom. */
static void print_tables(const struct model *model, struct buffer *out)
{
    const struct {
        const char *role;
        const void *data;
    } tables[] = { { "source", model->encoder.tokens.data },
                   { "target", model->decoder.tokens.data },
                   { "output", model->output.w.data } };
    enum { COUNT = sizeof tables / sizeof *tables };
    char text[TEXT_BYTES] = "";
    for (size_t i = 0; i < COUNT; i++) {
        const struct inspect_name name = inspect_table_name(model, tables[i].data);
        size_t first = 0;
        while (tables[first].data != tables[i].data)
            first++;
        if (!name.text[0] || first < i)
            continue;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s (%s", text[0] ? ", " : "",
                 name.text, tables[i].role);
        for (size_t j = i + 1; j < COUNT; j++)
            if (tables[j].data == tables[i].data)
                snprintf(text + strlen(text), sizeof text - strlen(text), ", %s", tables[j].role);
        snprintf(text + strlen(text), sizeof text - strlen(text), ")");
    }
    if (text[0])
        print_line(out, "tables", text);
}

static void print_option(void *context, const char *name, const struct value *value)
{
    struct buffer *out = context;
    struct writer writer = { .out = out };
    buffer_printf(out, "%s%s ", out->length ? ", " : "", name);
    describe_value(&writer, value);
}

static void print_defaults(const struct inspection *in, struct buffer *out)
{
    struct buffer text;
    if (!in->defaults_known || !config_generates(&in->model->config))
        return;
    buffer_init(&text, TEXT_BYTES); /* lists of bad words may be long */
    options_describe(&in->defaults, print_option, &text);
    const bool cut = text.state != BUFFER_OK;
    print_line(out, "defaults", text.data ? text.data : "the reference's");
    if (cut)
        buffer_printf(out, "%*s…\n", NAME_COLUMNS, "");
    buffer_free(&text);
}

static void print_model(const struct inspection *in, struct buffer *out)
{
    const struct model_config *c = &in->model->config;
    char text[TEXT_BYTES];
    buffer_text(out, "\n");
    print_parameters(in->model, out);
    print_sizes(c, out);
    inspect_norms(c, text, sizeof text);
    print_line(out, "norms", text);
    inspect_positions(c, text, sizeof text);
    print_line(out, "positions", text);
    print_tables(in->model, out);
    print_defaults(in, out);
}

struct page {
    const struct model *model;
    struct buffer *out;
    enum walk_part layers_of; /* the part whose layers are being printed; MODULES: none */
};

static void print_step(void *context, const struct walk_step *step)
{
    struct page *page = context;
    const struct model_config *c = &page->model->config;
    const bool decoder = step->part == WALK_DECODER;
    char shape[64] = "[";
    for (size_t i = 0; i < step->rank; i++) {
        const struct walk_side *side = &step->shape[i];
        const size_t length = strlen(shape);
        if (side->letter)
            snprintf(shape + length, sizeof shape - length, "%s%c", i ? ", " : "", side->letter);
        else
            snprintf(shape + length, sizeof shape - length, "%s%zu", i ? ", " : "", side->size);
    }
    if (step->in_layer && page->layers_of != step->part)
        buffer_printf(page->out, "  %s, each of %zu layers: x = %s\n",
                      decoder ? "decoder" : "encoder",
                      decoder ? c->decoder.layers : c->encoder.layers,
                      c->norm_position == NORM_POST ? "norm(x + f(x))" : "x + f(norm(x))");
    page->layers_of = step->in_layer ? step->part : WALK_MODULES;
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "]");
    buffer_printf(page->out, step->note[0] ? "%s%-*s %-20s %s\n" : "%s%-*s %s\n",
                  step->in_layer ? "    " : "  ", step->in_layer ? 14 : 16, step->name, shape,
                  step->note);
}

static void print_walk(const struct inspection *in, struct buffer *out)
{
    struct page page = { in->model, out, WALK_MODULES };
    buffer_printf(out, "\nshapes for B rows of S source tokens%s\n",
                  config_generates(&in->model->config) ? " and T target tokens" : "");
    inspect_walk(in->model, print_step, &page);
}

static void amount(struct buffer *out, const char *name, size_t count, const char *note)
{
    buffer_printf(out, note[0] ? "  %-16s %10s   %s\n" : "  %-16s %10s\n", name, bytes(count).text,
                  note);
}

static void print_cache(const struct inspection *in, struct buffer *out)
{
    const struct lane_memory *memory = &in->memory;
    const size_t room = memory->cache_floats * sizeof(float);
    const size_t sources = inspect_source_max(in);
    const size_t row = inspect_row_bytes(in, sources, memory->target_max);
    char note[TEXT_BYTES];
    amount(out, "key/value cache", room, "a worker; of it takes");
    amount(out, "  a token", inspect_row_bytes(in, 1, 0), "of the source, or of one hypothesis");
    snprintf(note, sizeof note, "the longest, %s to %s tokens, one beam: %s fit",
             grouped(sources).text, grouped(memory->target_max).text, grouped(room / row).text);
    amount(out, "  a row", row, note);
}

static void print_memory(const struct inspection *in, struct buffer *out)
{
    const struct model *model = in->model;
    const struct lane_memory *memory = &in->memory;
    char note[TEXT_BYTES];
    buffer_text(out, "\nmemory, reserved at start and touched as needed\n");
    if (model->mapped_bytes > 0) {
        amount(out, "weights", model->mapped_bytes, "mapped from the files, shared");
        amount(out, "", model->copied_bytes, "copied or computed");
    }
    snprintf(note, sizeof note, "a worker of %zu thread%s", in->crew.threads,
             in->crew.threads == 1 ? "" : "s");
    amount(out, "scratch", memory->scratch_bytes, note);
    amount(out, "states", memory->hidden_bytes + memory->projected_bytes + 2 * memory->states_bytes,
           "a worker");
    if (config_generates(&model->config)) {
        snprintf(note, sizeof note, "a worker, of %s tokens", grouped(memory->step_tokens).text);
        amount(out, "logits", memory->logits_bytes, note);
        print_cache(in, out);
    }
    snprintf(note, sizeof note, "with %zu worker%s", in->crew.workers,
             in->crew.workers == 1 ? "" : "s");
    amount(out, "in all", inspect_memory_bytes(in), note);
}

static void print_verdict(const struct inspection *in, struct buffer *out)
{
    const size_t problems = in->findings.problem_count;
    const bool generates = in->model && config_generates(&in->model->config);
    buffer_printf(out, "%s", in->folder);
    if (in->model)
        buffer_printf(out, ": %s, %s", in->model->config.family,
                      generates ? "encoder and decoder" : "encoder only");
    if (problems > 0)
        buffer_printf(out, "\ncannot be served; %zu problem%s:\n", problems,
                      problems == 1 ? "" : "s");
    else
        buffer_printf(out, "\ncan be served: %s to /v1/encode%s\n",
                      in->tokenizer ? "texts and token ids" : "token ids (there is no tokenizer)",
                      generates ? ", /v1/generate and /v1/score" : "");
    inspect_print_findings(in, FINDING_PROBLEM, out);
}

void inspect_print_page(const struct inspection *in, struct buffer *out)
{
    print_verdict(in, out);
    if (in->model) {
        print_model(in, out);
        print_walk(in, out);
        print_memory(in, out);
    }
    struct buffer warnings;
    buffer_init(&warnings, out->limit);
    inspect_print_findings(in, FINDING_WARNING, &warnings);
    if (warnings.data)
        buffer_printf(out, "\nwarnings\n%s", warnings.data);
    buffer_free(&warnings);
}
