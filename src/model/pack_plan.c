#include "pack_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/panels.h"
#include "weights.h"

struct planner {
    struct pack_plan *plan;
    const struct model *model;
    const struct pack_options *options;
    struct error *err;
};

static struct tensor *tensor_of(const struct planner *p, const void *data)
{
    return data ? weights_tensor_at(p->model->weights, data) : NULL;
}

static bool is_planned(const struct planner *p, const char *name)
{
    for (size_t i = 0; i < p->plan->count; i++)
        if (strcmp(p->plan->entries[i].name, name) == 0)
            return true;
    return false;
}

/* `ending` goes behind the tensor's name.  A tensor that serves twice is written once. */
static int add(const struct planner *p, const struct pack_entry *entry, const char *ending)
{
    struct pack_plan *plan = p->plan;
    const size_t length = strlen(entry->tensor->name) + strlen(ending) + 1;
    char *name = mem_alloc(length, 1);
    if (!name)
        return error_set(p->err, ERR_NO_MEMORY, "a packed file");
    snprintf(name, length, "%s%s", entry->tensor->name, ending);
    if (is_planned(p, name)) {
        mem_free(name);
        return 0;
    }
    if (plan->count == plan->capacity) {
        const size_t capacity = plan->capacity ? 2 * plan->capacity : 256;
        struct pack_entry *entries = mem_resize(plan->entries, capacity, sizeof *entries);
        if (!entries) {
            mem_free(name);
            return error_set(p->err, ERR_NO_MEMORY, "a packed file");
        }
        plan->entries = entries;
        plan->capacity = capacity;
    }
    plan->entries[plan->count] = *entry;
    plan->entries[plan->count++].name = name;
    return 0;
}

/* The length of what rounding changes in a row, by the width of a step, against the row's own. */
static int int8_changes_much(const struct planner *p, const struct matrix *w, bool *much)
{
    enum { PERCENT = 5 };
    float *row = mem_alloc(w->columns, sizeof *row);
    if (!row)
        return error_set(p->err, ERR_NO_MEMORY, "a packed file");
    *much = false;
    for (size_t n = 0; !*much && n < w->rows; n++) {
        double squares = 0.0, largest = 0.0;
        matrix_row_floats(w, n, row);
        for (size_t k = 0; k < w->columns; k++) {
            squares += (double)row[k] * row[k];
            largest = fmax(largest, fabs((double)row[k]));
        }
        const double error = largest / 127.0 * sqrt((double)w->columns / 12.0);
        *much = error > sqrt(squares) * PERCENT / 100.0;
    }
    mem_free(row);
    return 0;
}

static int panels_dtype(const struct planner *p, const struct matrix *w, bool keep,
                        enum dtype *dtype)
{
    *dtype = p->options->as_stored ? w->dtype : p->options->dtype;
    if (*dtype != DTYPE_I8)
        return 0;
    if (!keep && int8_changes_much(p, w, &keep) < 0)
        return -1;
    if (keep)
        *dtype = DTYPE_F32;
    return 0;
}

/* `keep`: the reference keeps it in float32. */
static int add_panels(const struct planner *p, const struct linear *linear, bool keep)
{
    const struct matrix *w = &linear->w;
    const struct tensor *tensor = tensor_of(p, w->data);
    if (!tensor) /* the layer has no such matrix */
        return 0;
    char ending[32];
    enum dtype dtype;
    if (w->layout != LAYOUT_ROWS)
        return error_set(p->err, ERR_BAD_MODEL,
                         "%s is packed already; pack the folder it was made of", p->model->dir);
    if (panels_dtype(p, w, keep, &dtype) < 0)
        return -1;
    snprintf(ending, sizeof ending, ".panels.%s", dtype_name(dtype));
    return add(p,
               &(struct pack_entry){ .kind = PACK_PANELS,
                                     .tensor = tensor,
                                     .rows = *w,
                                     .dtype = dtype,
                                     .bytes = panels_bytes(dtype, w->rows, w->columns) },
               ending);
}

static int add_attention(const struct planner *p, const struct attention_weights *attention)
{
    return add_panels(p, &attention->q, false) < 0 || add_panels(p, &attention->k, false) < 0 ||
                   add_panels(p, &attention->v, false) < 0 ||
                   add_panels(p, &attention->out, false) < 0
               ? -1
               : 0;
}

static int add_stack(const struct planner *p, const struct stack *stack)
{
    const bool keep = p->model->config.ffn_out_float32;
    for (size_t i = 0; i < stack->layer_count; i++) {
        const struct layer *layer = &stack->layers[i];
        if (add_attention(p, &layer->self) < 0 || add_attention(p, &layer->cross) < 0 ||
            add_panels(p, &layer->ffn_in, false) < 0 ||
            add_panels(p, &layer->ffn_gate, false) < 0 || add_panels(p, &layer->ffn_out, keep) < 0)
            return -1;
    }
    return 0;
}

static bool screens(const struct planner *p)
{
    return p->model->output.w.data && (p->options->as_stored || p->options->dtype != DTYPE_I8);
}

/* Of an output layer that is no integers itself. */
static int add_screen(const struct planner *p)
{
    const struct matrix *w = &p->model->output.w;
    struct pack_entry entry = { .kind = PACK_PANELS,
                                .tensor = tensor_of(p, w->data),
                                .rows = *w,
                                .dtype = DTYPE_I8,
                                .bytes = panels_bytes(DTYPE_I8, w->rows, w->columns) };
    if (add(p, &entry, ".screen") < 0)
        return -1;
    entry.kind = PACK_BOUNDS;
    /* Candidates are computed from what the matrix becomes. */
    if (panels_dtype(p, w, false, &entry.dtype) < 0)
        return -1;
    entry.bytes = 2 * w->rows * sizeof(float);
    return add(p, &entry, ".bounds");
}

/* A table whose rows are looked up. */
static int add_table(const struct planner *p, const struct matrix *table)
{
    const struct tensor *tensor = tensor_of(p, table->data);
    if (!tensor)
        return 0;
    const bool narrow = !p->options->as_stored && table->dtype != DTYPE_BF16 &&
                        (p->options->dtype == DTYPE_BF16 ||
                         (p->options->dtype == DTYPE_I8 && table->dtype == DTYPE_F32));
    const enum dtype dtype = narrow ? DTYPE_BF16 : table->dtype;
    return add(p,
               &(struct pack_entry){ .kind = narrow ? PACK_ROWS : PACK_STORED,
                                     .tensor = tensor,
                                     .rows = *table,
                                     .dtype = dtype,
                                     .bytes = table->rows * table->columns * dtype_bytes(dtype) },
               "");
}

static bool has_panels(const struct planner *p, const struct tensor *tensor)
{
    for (size_t i = 0; i < p->plan->count; i++)
        if (p->plan->entries[i].kind == PACK_PANELS && p->plan->entries[i].tensor == tensor)
            return true;
    return false;
}

static int add_rest(const struct planner *p)
{
    const struct weight_files *files = &p->model->weights->tensors;
    for (size_t i = 0; i < files->tensor_count; i++) {
        const struct tensor *tensor = files->tensors[i];
        if (!tensor->needed || has_panels(p, tensor))
            continue;
        if (add(p,
                &(struct pack_entry){ .kind = PACK_STORED,
                                      .tensor = tensor,
                                      .dtype = tensor->dtype,
                                      .bytes = tensor->bytes },
                "") < 0)
            return -1;
    }
    return 0;
}

/* Sizes of panels are multiples of 64; what follows needs 4 bytes, then 2. */
static int rank(const struct pack_entry *entry)
{
    if (entry->kind == PACK_PANELS)
        return 0;
    return entry->kind == PACK_BOUNDS || entry->dtype == DTYPE_F32 ? 1 : 2;
}

static int by_rank_and_name(const void *a, const void *b)
{
    const struct pack_entry *x = a, *y = b;
    return rank(x) != rank(y) ? rank(x) - rank(y) : strcmp(x->name, y->name);
}

int pack_plan_make(struct pack_plan *plan, const struct model *model,
                   const struct pack_options *options, struct error *err)
{
    const struct planner p = { plan, model, options, err };
    *plan = (struct pack_plan){ 0 };
    if (add_stack(&p, &model->encoder) < 0 || add_stack(&p, &model->decoder) < 0 ||
        add_panels(&p, &model->output, false) < 0 || (screens(&p) && add_screen(&p) < 0) ||
        (options->whole &&
         (add_table(&p, &model->encoder.tokens) < 0 || add_table(&p, &model->decoder.tokens) < 0 ||
          (screens(&p) && add_table(&p, &model->output.w) < 0) || add_rest(&p) < 0))) {
        pack_plan_free(plan);
        return -1;
    }
    qsort(plan->entries, plan->count, sizeof *plan->entries, by_rank_and_name);
    return 0;
}

void pack_plan_free(struct pack_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        mem_free(plan->entries[i].name);
    mem_free(plan->entries);
    *plan = (struct pack_plan){ 0 };
}
