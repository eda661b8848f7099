#include "positions.h"

#include <math.h>
#include <string.h>

void config_positions(const struct model_config *config, const int32_t *tokens, size_t count,
                      int32_t *positions)
{
    int32_t real = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_real = tokens[i] != config->uncounted_id;
        real += is_real;
        positions[i] = config->position_count == COUNT_PLACES ? (int32_t)i : is_real ? real : 0;
    }
}

/* The reference counts padding where it sees a whole row, the prefix; a generated token it sees
 * alone, behind `index` cached ones. */
size_t target_position(const struct model_config *config, const int32_t *tokens, size_t index,
                       size_t prefix_count)
{
    const bool is_real = tokens[index] != config->uncounted_id;
    size_t real = 0;
    if (config->position_count == COUNT_PLACES)
        return index;
    if (index >= prefix_count)
        return is_real ? index + 1 : config->position_count == COUNT_REAL_SHIFTED ? index : 0;
    for (size_t i = 0; i <= index; i++)
        real += tokens[i] != config->uncounted_id;
    return is_real ? real : 0;
}

static void fairseq_sinusoids(size_t index, float *row, size_t D)
{
    const size_t half = D / 2;
    const float step = -(float)(log(10000.0) / ((double)half - 1.0));
    for (size_t i = 0; i < half; i++) {
        const float angle = (float)index * expf((float)i * step);
        row[i] = sinf(angle);
        row[half + i] = cosf(angle);
    }
    if (D % 2)
        row[D - 1] = 0.0f;
}

/* Each kind in the precision in which the reference computes it: at position 1000 single precision
 * is off by 1e-4, and so must we be. */
void sinusoids(enum position_kind kind, size_t index, size_t pad_row, float *row, size_t D)
{
    const bool halves = kind == POSITION_HALVES;
    const size_t sines = D - D / 2;
    if (kind == POSITION_FAIRSEQ && index == pad_row) {
        memset(row, 0, D * sizeof *row);
        return;
    }
    if (kind == POSITION_FAIRSEQ) {
        fairseq_sinusoids(index, row, D);
        return;
    }
    for (size_t i = 0; i < D; i++) {
        const size_t pair = halves ? i % sines : i / 2;
        const double angle = (double)index / pow(10000.0, 2.0 * (double)pair / (double)D);
        row[i] = (float)((halves ? i >= sines : i % 2) ? cos(angle) : sin(angle));
    }
}

/* T5's buckets: half of them for near distances, one each; the others grow by a power up to
 * `relative_distance`.  Single precision as in the reference. */
static size_t bucket(size_t distance, size_t buckets, size_t distance_max)
{
    const size_t near = buckets / 2;
    if (distance < near)
        return distance;
    const float part = logf((float)distance / (float)near) /
                       (float)log((double)distance_max / (double)near) * (float)(buckets - near);
    const size_t far = near + (size_t)part;
    return far < buckets - 1 ? far : buckets - 1;
}

void relative_buckets(const struct model_config *config, bool causal, uint16_t *buckets)
{
    const size_t R = config->relative_distance;
    const size_t count = causal ? config->relative_buckets : config->relative_buckets / 2;
    for (size_t i = 0; i <= 2 * R; i++) { /* distance key − query = i − R */
        const bool after = i > R;
        const size_t at = bucket(after ? i - R : R - i, count, R);
        buckets[i] = (uint16_t)(causal ? (after ? 0 : at) : at + (after ? count : 0));
    }
}
