/* panels.h — the packed layout of a weight matrix w (N, K), read by kernels as one linear stream.
 *
 * Panels of PANEL_COLUMNS output columns (rows of w) follow one another; the last has what is left,
 * filled up to a multiple of PANEL_STEP.  A panel of width W holds, for each group of g places of k
 * and for each of its W columns, the g elements w[column][k … k+g−1]:
 *
 *   dtype      g   element
 *   float32    1   float
 *   float16    1   IEEE 754 binary16
 *   bfloat16   2   the upper half of a float
 *   int8       4   round(w / scale), scale = max |w of the column| / 127
 *
 * Columns beyond N and places beyond K are zero.  Behind each int8 panel stand the scales (float)
 * of its W columns and the sums (int32) of their elements.  All little-endian; a packed matrix
 * begins at a multiple of PANEL_ALIGN bytes, and so does each panel. */
#ifndef KERNELS_PANELS_H
#define KERNELS_PANELS_H

#include "kernels/kernels.h"

enum { PANEL_COLUMNS = 48, PANEL_STEP = 16, PANEL_ALIGN = 64 };

/* Elements of one column that lie together: g above. */
static inline size_t panel_group(enum dtype dtype)
{
    return dtype == DTYPE_I8 ? 4 : dtype == DTYPE_BF16 ? 2 : 1;
}

/* N filled up to PANEL_STEP. */
size_t panels_width(size_t rows);

/* Bytes of a packed matrix of `rows` (N) and `columns` (K); SIZE_MAX: more than can be counted. */
size_t panels_bytes(enum dtype dtype, size_t rows, size_t columns);

/* Bytes from the beginning to the panel that starts with row `first`, a multiple of PANEL_COLUMNS.
 */
size_t panel_offset(enum dtype dtype, size_t columns, size_t first);

/* Row `row` of a matrix in rows, (columns): as floats, as the floats that remain when it is packed
 * as `dtype` (not int8), and rounded to bfloat16. */
void matrix_row_floats(const struct matrix *rows, size_t row, float *out);
void matrix_row_as(const struct matrix *rows, size_t row, enum dtype dtype, float *out);
void matrix_row_bf16(const struct matrix *rows, size_t row, uint16_t *out);

/* How many panels `rows` (N) make. */
size_t panel_count(size_t rows);

/* Columns of the panel that starts with row `first`, filling included. */
size_t panel_width(size_t rows, size_t first);

/* Of the int8 panel that starts with row `first`: (panel_width()) each. */
const float *panel_scales(const struct matrix *packed, size_t first);
const int32_t *panel_sums(const struct matrix *packed, size_t first);

/* Of a row x (K) that becomes integers of 8 bits (struct product): the length of x and of what
 * rounding changes in it, neither rounded down.  x is finite. */
void quantized_lengths(const float *x, size_t K, float *length, float *error);

/* out (panels_bytes) = the matrix `rows`, of layout LAYOUT_ROWS and a floating dtype, packed as
 * `dtype`.  Panels follow one another, so a large matrix may be packed by pieces of a multiple of
 * PANEL_COLUMNS rows.  Narrowing rounds to nearest, ties to even; a NaN stays one.  False: an
 * infinity or NaN cannot become int8; `out` is unspecified. */
bool panels_pack(const struct matrix *rows, enum dtype dtype, void *out);

#endif
