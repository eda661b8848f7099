#include "kit_numbers.h"

#include <math.h>

static double error_of(const json_t *got, double want)
{
    const double value = json_number_value(got);
    if (!json_is_number(got) || !isfinite(value))
        return INFINITY;
    return fabs(value - want) / fmax(1.0, fabs(want));
}

double kit_difference(const json_t *got, const json_t *want, const size_t *limits)
{
    if (json_is_null(want))
        return 0.0;
    if (json_is_number(want))
        return error_of(got, json_number_value(want));
    size_t count = json_array_size(want);
    const size_t there = json_array_size(got);
    if (limits && *limits < count)
        count = *limits;
    if (!json_is_array(want) || !json_is_array(got) || there < count ||
        (there > count && (!limits || *limits == KIT_WHOLE)))
        return INFINITY;
    double worst = 0.0;
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, kit_difference(json_array_get(got, i), json_array_get(want, i),
                                           limits ? limits + 1 : NULL));
    return worst;
}

double kit_difference_plain(const json_t *got, const double *want, size_t count)
{
    if (json_array_size(got) != count)
        return INFINITY;
    double worst = 0.0;
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, error_of(json_array_get(got, i), want[i]));
    return worst;
}

double kit_log_sum_exp(const json_t *list)
{
    double most = -INFINITY, sum = 0.0;
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++)
        most = fmax(most, json_number_value(json_array_get(list, i)));
    for (size_t i = 0; i < count; i++)
        sum += exp(json_number_value(json_array_get(list, i)) - most);
    return most + log(sum);
}

size_t kit_sum(const json_t *list)
{
    size_t sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += (size_t)json_integer_value(json_array_get(list, i));
    return sum;
}
