#include "kernels/panels.h"

#include <math.h>
#include <string.h>

#include "kernels_internal.h"

static size_t fill_up(size_t count, size_t step)
{
    return (count + step - 1) / step * step;
}

size_t panels_width(size_t rows)
{
    return fill_up(rows, PANEL_STEP);
}

/* Of one column, its share of the tables included. */
static size_t column_bytes(enum dtype dtype, size_t columns)
{
    const size_t tables = dtype == DTYPE_I8 ? sizeof(float) + sizeof(int32_t) : 0;
    return fill_up(columns, panel_group(dtype)) * dtype_bytes(dtype) + tables;
}

size_t panel_offset(enum dtype dtype, size_t columns, size_t first)
{
    return first * column_bytes(dtype, columns);
}

size_t panels_bytes(enum dtype dtype, size_t rows, size_t columns)
{
    size_t bytes;
    if (rows > SIZE_MAX - PANEL_STEP || columns > SIZE_MAX / 8 - 4 ||
        __builtin_mul_overflow(panels_width(rows), column_bytes(dtype, columns), &bytes))
        return SIZE_MAX;
    return bytes;
}

size_t panel_count(size_t rows)
{
    return (rows + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
}

size_t panel_width(size_t rows, size_t first)
{
    const size_t left = panels_width(rows) - first;
    return left < PANEL_COLUMNS ? left : PANEL_COLUMNS;
}

const float *panel_scales(const struct matrix *packed, size_t first)
{
    const size_t elements = panel_width(packed->rows, first) * fill_up(packed->columns, 4);
    const char *panel = (const char *)packed->data + panel_offset(DTYPE_I8, packed->columns, first);
    return (const float *)(const void *)(panel + elements);
}

const int32_t *panel_sums(const struct matrix *packed, size_t first)
{
    const float *scales = panel_scales(packed, first);
    return (const int32_t *)(const void *)(scales + panel_width(packed->rows, first));
}

/* Nearest, ties to even. */
static uint16_t float_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const float size = fabsf(value);
    if (isnan(value))
        return (uint16_t)(sign | 0x7e00);
    if (size >= 65520.0f)
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14f) /* a multiple of 2⁻²⁴, which this sum rounds to */
        return (uint16_t)(sign | (uint16_t)(size * 0x1p24f + 0x1p23f - 0x1p23f));
    bits &= 0x7fffffff;
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits >> 13) - (112 << 10)));
}

void matrix_row_floats(const struct matrix *rows, size_t row, float *out)
{
    for (size_t k = 0; k < rows->columns; k++)
        out[k] = stored_to_float(rows->data, rows->dtype, row * rows->columns + k);
}

void matrix_row_as(const struct matrix *rows, size_t row, enum dtype dtype, float *out)
{
    matrix_row_floats(rows, row, out);
    for (size_t k = 0; k < rows->columns; k++)
        out[k] = dtype == DTYPE_BF16  ? bf16_to_float(float_to_bf16(out[k]))
                 : dtype == DTYPE_F16 ? f16_to_float(float_to_f16(out[k]))
                                      : out[k];
}

void matrix_row_bf16(const struct matrix *rows, size_t row, uint16_t *out)
{
    for (size_t k = 0; k < rows->columns; k++)
        out[k] = float_to_bf16(stored_to_float(rows->data, rows->dtype, row * rows->columns + k));
}

/* One panel under construction. */
struct panel {
    const struct matrix *rows;
    size_t first, width; /* its columns, filling included */
    void *out;
};

static void store_float(void *out, enum dtype dtype, size_t index, float value)
{
    if (dtype == DTYPE_F32)
        ((float *)out)[index] = value;
    else
        ((uint16_t *)out)[index] = dtype == DTYPE_F16 ? float_to_f16(value) : float_to_bf16(value);
}

/* By blocks of places, so that both the rows read and the panel written stay in the cache. */
enum { BLOCK_PLACES = 64 };

static inline __attribute__((always_inline)) void
pack_block(const struct panel *panel, enum dtype from, enum dtype to, size_t k, size_t end)
{
    const struct matrix *w = panel->rows;
    const size_t g = to == DTYPE_BF16 ? 2 : 1;
    for (size_t i = 0; i < panel->width; i++) {
        const size_t row = panel->first + i;
        for (size_t j = k; j < end; j++) {
            const bool inside = row < w->rows && j < w->columns;
            store_float(panel->out, to, (j / g * panel->width + i) * g + j % g,
                        inside ? stored_to_float(w->data, from, row * w->columns + j) : 0.0f);
        }
    }
}

static void pack_floats(const struct panel *panel, enum dtype to)
{
    const enum dtype from = panel->rows->dtype;
    const size_t K = fill_up(panel->rows->columns, panel_group(to));
    for (size_t k = 0; k < K; k += BLOCK_PLACES) {
        const size_t end = K - k < BLOCK_PLACES ? K : k + BLOCK_PLACES;
        if (from == DTYPE_F32 && to == DTYPE_F32)
            pack_block(panel, DTYPE_F32, DTYPE_F32, k, end);
        else if (from == DTYPE_F32 && to == DTYPE_BF16)
            pack_block(panel, DTYPE_F32, DTYPE_BF16, k, end);
        else
            pack_block(panel, from, to, k, end);
    }
}

void quantized_lengths(const float *x, size_t K, float *length, float *error)
{
    float largest = 0.0f;
    double lengths = 0.0, errors = 0.0;
    for (size_t k = 0; k < K; k++)
        largest = fabsf(x[k]) > largest ? fabsf(x[k]) : largest;
    const double scale = (double)(largest / 127.0f);
    const float inverse = integer_inverse(largest);
    for (size_t k = 0; k < K; k++) {
        const double rounded = scale * rint((double)(x[k] * inverse));
        lengths += (double)x[k] * x[k];
        errors += ((double)x[k] - rounded) * ((double)x[k] - rounded);
    }
    /* Up, by more than the sums can be off. */
    *length = (float)(sqrt(lengths) * (1.0 + 1e-6));
    *error = (float)(sqrt(errors) * (1.0 + 1e-6));
}

static float largest_of_row(const struct matrix *w, size_t row)
{
    float largest = 0.0f;
    for (size_t k = 0; k < w->columns; k++) {
        const float size = fabsf(stored_to_float(w->data, w->dtype, row * w->columns + k));
        if (!(size <= largest)) /* a NaN too */
            largest = size;
        if (!isfinite(largest))
            break;
    }
    return largest;
}

/* Row `row` into column `column` of the panel. */
static bool pack_integers(const struct panel *panel, size_t column, float *scale, int32_t *sum)
{
    const struct matrix *w = panel->rows;
    const size_t row = panel->first + column;
    const float largest = largest_of_row(w, row);
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    if (!isfinite(largest))
        return false;
    *scale = largest / 127.0f;
    for (size_t k = 0; k < w->columns; k++) {
        const float value = stored_to_float(w->data, w->dtype, row * w->columns + k);
        /* A subnormal row has an infinite inverse; its elements are then divided. */
        const float ratio = isfinite(inverse) ? value * inverse : value / largest * 127.0f;
        const int8_t element = (int8_t)lrintf(fminf(fmaxf(ratio, -127.0f), 127.0f));
        ((int8_t *)panel->out)[(k / 4 * panel->width + column) * 4 + k % 4] = element;
        *sum += element;
    }
    return true;
}

static bool pack_integer_panel(const struct panel *panel)
{
    const size_t K = fill_up(panel->rows->columns, 4);
    float *scales = (float *)(void *)((char *)panel->out + panel->width * K);
    int32_t *sums = (int32_t *)(void *)(scales + panel->width);
    memset(panel->out, 0, panel->width * column_bytes(DTYPE_I8, panel->rows->columns));
    for (size_t i = 0; i < panel->width && panel->first + i < panel->rows->rows; i++)
        if (!pack_integers(panel, i, &scales[i], &sums[i]))
            return false;
    return true;
}

bool panels_pack(const struct matrix *rows, enum dtype dtype, void *out)
{
    for (size_t first = 0; first < rows->rows; first += PANEL_COLUMNS) {
        const struct panel panel = {
            .rows = rows,
            .first = first,
            .width = panel_width(rows->rows, first),
            .out = (char *)out + panel_offset(dtype, rows->columns, first),
        };
        if (dtype != DTYPE_I8)
            pack_floats(&panel, dtype);
        else if (!pack_integer_panel(&panel))
            return false;
    }
    return true;
}
