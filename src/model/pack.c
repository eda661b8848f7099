#include "model/pack.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "kernels/panels.h"
#include "pack_plan.h"

/* Rows of a matrix that are packed at once; a multiple of PANEL_COLUMNS. */
enum { PIECE_ROWS = 64 * PANEL_COLUMNS };

struct writer {
    const struct model *model;
    int fd;
    struct error *err;
};

static int write_bytes(const struct writer *w, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        const ssize_t written = write(w->fd, at, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return error_set(w->err, ERR_IO, "a packed file of %s: %s", w->model->dir,
                             strerror(written < 0 ? errno : ENOSPC));
        at += written;
        count -= (size_t)written;
    }
    return 0;
}

static const char *type_name(const struct pack_entry *entry)
{
    static const char *const names[DTYPE_COUNT] = { "F32", "F16", "BF16", "U8" };
    return entry->kind == PACK_PANELS   ? "U8"
           : entry->kind == PACK_BOUNDS ? "F32"
                                        : names[entry->dtype];
}

/* NULL: no memory. */
static json_t *entry_shape(const struct pack_entry *entry)
{
    const size_t panels[] = { entry->bytes }, bounds[] = { 2, entry->rows.rows };
    const size_t *sides = entry->kind == PACK_PANELS   ? panels
                          : entry->kind == PACK_BOUNDS ? bounds
                                                       : entry->tensor->shape;
    const size_t rank = entry->kind == PACK_PANELS   ? 1
                        : entry->kind == PACK_BOUNDS ? 2
                                                     : entry->tensor->rank;
    json_t *shape = json_array();
    for (size_t i = 0; shape && i < rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)sides[i])) < 0) {
            json_decref(shape);
            shape = NULL;
        }
    return shape;
}

/* NULL: no memory. */
static json_t *header_of(const struct pack_plan *plan)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "seqd_packed", PACK_VERSION);
    size_t offset = 0;
    for (size_t i = 0; header && i < plan->count; i++) {
        const struct pack_entry *entry = &plan->entries[i];
        json_t *fields = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(entry), "shape",
                                   entry_shape(entry), "data_offsets", (json_int_t)offset,
                                   (json_int_t)(offset + entry->bytes));
        if (json_object_set_new(header, entry->name, fields) < 0) {
            json_decref(header);
            header = NULL;
        }
        offset += entry->bytes;
    }
    return header;
}

/* The header and its length, filled up with spaces so that the data begin aligned. */
static int write_header(const struct writer *w, const struct pack_plan *plan)
{
    static const char spaces[] = "                                                  "
                                 "              ";
    json_t *header = header_of(plan);
    char *text = header ? json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    json_decref(header);
    if (!text)
        return error_set(w->err, ERR_NO_MEMORY, "a packed file's header");
    const size_t length = strlen(text);
    const size_t fill = (PANEL_ALIGN - (8 + length) % PANEL_ALIGN) % PANEL_ALIGN;
    uint64_t count = length + fill;
    unsigned char bytes[8];
    for (size_t i = 0; i < 8; i++, count >>= 8)
        bytes[i] = (unsigned char)(count & 0xff);
    const int rc = write_bytes(w, bytes, sizeof bytes) < 0 || write_bytes(w, text, length) < 0
                       ? -1
                       : write_bytes(w, spaces, fill);
    mem_free(text);
    return rc;
}

static int cannot_round(const struct writer *w, const struct pack_entry *entry)
{
    return error_at(w->err, ERR_BAD_MODEL, entry->tensor->name,
                    "%s: tensor \"%s\" has infinities or NaN, which int8 cannot hold",
                    entry->tensor->path, entry->tensor->name);
}

/* The lengths of one row's rounding error and of the row itself; panels: the piece it lies in. */
static void row_bounds(const struct matrix *rows, enum dtype dtype, const struct matrix *panels,
                       size_t row, float *floats, float *error, float *length)
{
    const size_t first = row / PANEL_COLUMNS * PANEL_COLUMNS;
    const size_t width = panel_width(panels->rows, first), column = row - first;
    const int8_t *elements =
        (const int8_t *)panels->data + panel_offset(DTYPE_I8, panels->columns, first);
    const double scale = (double)panel_scales(panels, first)[column];
    double errors = 0.0, lengths = 0.0;
    matrix_row_as(rows, row, dtype, floats);
    for (size_t k = 0; k < rows->columns; k++) {
        const double rounded = scale * elements[(k / 4 * width + column) * 4 + k % 4];
        errors += (floats[k] - rounded) * (floats[k] - rounded);
        lengths += rounded * rounded;
    }
    /* Up, by more than the sums above can be off. */
    *error = nextafterf((float)(sqrt(errors) * (1.0 + 1e-9)), INFINITY);
    *length = nextafterf((float)(sqrt(lengths) * (1.0 + 1e-9)), INFINITY);
}

/* At most `most` rows from `first` on. */
static struct matrix rows_from(const struct matrix *rows, size_t first, size_t most)
{
    struct matrix piece = *rows;
    piece.data = (const char *)rows->data + first * rows->columns * dtype_bytes(rows->dtype);
    piece.rows = rows->rows - first < most ? rows->rows - first : most;
    return piece;
}

static bool pack_piece(const struct pack_entry *entry, const struct matrix *piece, void *out)
{
    if (entry->kind == PACK_PANELS)
        return panels_pack(piece, entry->dtype, out);
    for (size_t i = 0; i < piece->rows; i++)
        matrix_row_bf16(piece, i, (uint16_t *)out + i * piece->columns);
    return true;
}

static int write_matrix(const struct writer *w, const struct pack_entry *entry)
{
    const struct matrix *rows = &entry->rows;
    const size_t most = rows->rows < PIECE_ROWS ? rows->rows : PIECE_ROWS;
    void *out = mem_alloc(panels_bytes(entry->dtype, most, rows->columns), 1);
    int rc = out ? 0 : error_set(w->err, ERR_NO_MEMORY, "a packed file");
    for (size_t first = 0; rc == 0 && first < rows->rows; first += PIECE_ROWS) {
        const struct matrix piece = rows_from(rows, first, PIECE_ROWS);
        const size_t bytes = entry->kind == PACK_PANELS
                                 ? panels_bytes(entry->dtype, piece.rows, rows->columns)
                                 : piece.rows * rows->columns * sizeof(uint16_t);
        rc = pack_piece(entry, &piece, out) ? write_bytes(w, out, bytes) : cannot_round(w, entry);
    }
    mem_free(out);
    return rc;
}

static int write_bounds(const struct writer *w, const struct pack_entry *entry)
{
    const struct matrix *rows = &entry->rows;
    void *out = mem_alloc(panels_bytes(DTYPE_I8, PANEL_COLUMNS, rows->columns), 1);
    float *bounds = mem_alloc(2 * rows->rows, sizeof *bounds);
    float *floats = mem_alloc(rows->columns, sizeof *floats);
    int rc = out && bounds && floats ? 0 : error_set(w->err, ERR_NO_MEMORY, "a packed file");
    for (size_t first = 0; rc == 0 && first < rows->rows; first += PANEL_COLUMNS) {
        const struct matrix piece = rows_from(rows, first, PANEL_COLUMNS);
        const struct matrix panels = { out, DTYPE_I8, piece.rows, piece.columns, LAYOUT_PANELS };
        if (!panels_pack(&piece, DTYPE_I8, out))
            rc = cannot_round(w, entry);
        for (size_t i = 0; rc == 0 && i < piece.rows; i++)
            row_bounds(&piece, entry->dtype, &panels, i, floats, &bounds[first + i],
                       &bounds[rows->rows + first + i]);
    }
    if (rc == 0)
        rc = write_bytes(w, bounds, entry->bytes);
    mem_free(floats);
    mem_free(bounds);
    mem_free(out);
    return rc;
}

static int write_entry(const struct writer *w, const struct pack_entry *entry)
{
    switch (entry->kind) {
    case PACK_STORED:
        return write_bytes(w, entry->tensor->data, entry->bytes);
    case PACK_BOUNDS:
        return write_bounds(w, entry);
    default:
        return write_matrix(w, entry);
    }
}

int pack_write(const struct model *model, const struct pack_options *options, int fd,
               struct error *err)
{
    const struct writer writer = { model, fd, err };
    struct pack_plan plan;
    if (pack_plan_make(&plan, model, options, err) < 0)
        return -1;
    int rc = write_header(&writer, &plan);
    for (size_t i = 0; rc == 0 && i < plan.count; i++)
        rc = write_entry(&writer, &plan.entries[i]);
    pack_plan_free(&plan);
    return rc;
}
