/* kit_numbers.h — nested JSON lists of numbers, compared. */
#ifndef KIT_NUMBERS_H
#define KIT_NUMBERS_H

#include <jansson.h>
#include <stddef.h>

#define KIT_WHOLE ((size_t)-1)

/* The largest |got − want| / max(1, |want|) over two nested lists; infinite when shapes differ or a
 * number of `got` is none.  A `want` of null (a value that is not finite) is skipped. limits[d], if
 * not KIT_WHOLE, is how many entries of a list at depth d are compared: more may be there on either
 * side.  `limits` may be NULL: whole. */
double kit_difference(const json_t *got, const json_t *want, const size_t *limits);

/* The same over one list of numbers and `count` plain ones. */
double kit_difference_plain(const json_t *got, const double *want, size_t count);

/* ln Σ exp over a list of numbers. */
double kit_log_sum_exp(const json_t *list);

/* The sum of a list of integers. */
size_t kit_sum(const json_t *list);

#endif
