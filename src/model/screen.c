#include "screen.h"

#include <math.h>

#include "kernels/panels.h"
#include "linear.h"

enum { NEEDED_MAX = 512, CANDIDATES = 4 * PANEL_COLUMNS };

/* What all rows of one step need. */
struct screening {
    const struct pass *pass;
    const float *x;
    const size_t *needed;
    float *logits; /* (M, V): by int8, then as screen_logits() says */
    size_t M, D, V, panels;
    float *highest; /* (M, panels): of a panel's logits by int8, then the end of its interval */
    float *widest;  /* (M, panels): half the interval of any of its rows, at most */
    float *best;    /* (M, NEEDED_MAX) */
};

/* A state that is not finite has no interval. */
bool screen_possible(const struct pass *pass, const float *x, size_t needed)
{
    const struct model_config *c = &pass->model->config;
    return pass->screening && pass->model->screen.data && needed > 0 && needed <= NEEDED_MAX &&
           needed <= panel_count(c->target_vocabulary) && c->output_scale > 0.0f &&
           all_finite(x, c->width);
}

/* Half the interval around a logit of one state is by_error · |w − w'| + by_length · |w'|, and a
 * little of the logit itself, for the roundings at the sums' ends. */
struct interval {
    float by_error, by_length;
};

/* A sum of K products in float32 is off by at most K · 2⁻²⁴ of the product of the lengths. */
static struct interval interval_of(const float *x, size_t K)
{
    float length, error;
    quantized_lengths(x, K, &length, &error);
    const float rounding = (float)(K + 16) * 0x1p-23f;
    return (struct interval){ length * (1.0f + rounding), (error + rounding * length) * 1.0001f };
}

static float half_width(struct interval interval, float error, float length, float logit)
{
    return interval.by_error * error + interval.by_length * length + 0x1p-20f * fabsf(logit);
}

static void measure_panels(const struct screening *s, size_t m, struct interval interval)
{
    const struct kernels *kernels = s->pass->kernels;
    const float *logits = s->logits + m * s->V;
    const float *errors = s->pass->model->screen_bounds, *lengths = errors + s->V;
    for (size_t p = 0; p < s->panels; p++) {
        const size_t first = p * PANEL_COLUMNS;
        const size_t count = s->V - first < PANEL_COLUMNS ? s->V - first : PANEL_COLUMNS;
        const float highest = kernels->max(logits + first, count);
        s->highest[m * s->panels + p] = highest;
        s->widest[m * s->panels + p] =
            1.001f * half_width(interval, kernels->max(errors + first, count),
                                kernels->max(lengths + first, count), highest);
    }
}

/* The T-th highest of `values`; best (T) is scratch. */
static float nth_highest(const float *values, size_t count, size_t T, float *best)
{
    size_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        if (filled == T && !(values[i] > best[T - 1]))
            continue;
        size_t place = filled < T ? filled++ : T - 1;
        for (; place > 0 && best[place - 1] < values[i]; place--)
            best[place] = best[place - 1];
        best[place] = values[i];
    }
    return best[T - 1];
}

/* Each panel has a row whose logit is at least highest − widest: T panels, those with the highest
 * of these, have T rows that reach the lowest of them. */
static float threshold(const struct screening *s, size_t m)
{
    float *lows = s->highest + m * s->panels;
    const float *widest = s->widest + m * s->panels;
    for (size_t p = 0; p < s->panels; p++)
        lows[p] -= widest[p];
    const float low = nth_highest(lows, s->panels, s->needed[m], s->best + m * NEEDED_MAX);
    for (size_t p = 0; p < s->panels; p++)
        lows[p] += 2.001f * widest[p];
    return low;
}

/* Candidates that wait to be computed together. */
struct candidates {
    int32_t ids[CANDIDATES];
    size_t count;
};

static void compute(const struct screening *s, size_t m, struct candidates *candidates)
{
    const struct model *model = s->pass->model;
    float values[CANDIDATES];
    s->pass->kernels->some_columns(s->x + m * s->D, &model->output_rows, model->output.bias,
                                   candidates->ids, candidates->count, values);
    for (size_t i = 0; i < candidates->count; i++)
        s->logits[m * s->V + (size_t)candidates->ids[i]] = values[i];
    candidates->count = 0;
}

static void screen_row(const struct screening *s, size_t m)
{
    float *logits = s->logits + m * s->V;
    const float *errors = s->pass->model->screen_bounds, *lengths = errors + s->V;
    const struct interval interval = interval_of(s->x + m * s->D, s->D);
    struct candidates candidates = { .count = 0 };
    measure_panels(s, m, interval);
    const float low = threshold(s, m);
    for (size_t p = 0; p < s->panels; p++) {
        const size_t first = p * PANEL_COLUMNS;
        const size_t end = s->V - first < PANEL_COLUMNS ? s->V : first + PANEL_COLUMNS;
        const bool chosen = s->highest[m * s->panels + p] >= low;
        for (size_t v = first; chosen && v < end; v++)
            if (logits[v] + half_width(interval, errors[v], lengths[v], logits[v]) >= low)
                candidates.ids[candidates.count++] = (int32_t)v;
        for (size_t v = first; v < end; v++)
            logits[v] = -INFINITY;
        if (candidates.count > CANDIDATES - PANEL_COLUMNS)
            compute(s, m, &candidates);
    }
    compute(s, m, &candidates);
}

static void screen_share(void *context, size_t member, size_t members)
{
    const struct screening *s = context;
    size_t first, end;
    team_share(s->M, 1, member, members, &first, &end);
    for (size_t m = first; m < end; m++)
        screen_row(s, m);
}

void screen_logits(const struct pass *pass, const float *x, size_t M, const size_t *needed,
                   float *logits)
{
    const struct model *model = pass->model;
    const size_t mark = arena_mark(pass->arena);
    struct screening s = { .pass = pass,
                           .x = x,
                           .needed = needed,
                           .logits = logits,
                           .M = M,
                           .D = model->config.width,
                           .V = model->config.target_vocabulary,
                           .panels = panel_count(model->config.target_vocabulary) };
    s.highest = arena_take(pass->arena, M * s.panels, sizeof(float));
    s.widest = arena_take(pass->arena, M * s.panels, sizeof(float));
    s.best = arena_take(pass->arena, M * NEEDED_MAX, sizeof(float));
    const struct linear screen = { model->screen, model->output.bias };
    linear(pass, &screen, x, M, logits);
    team_run(pass->team, screen_share, &s);
    arena_release(pass->arena, mark);
}

size_t screen_scratch_bytes(const struct model_config *c, size_t M)
{
    return 2 * arena_need(M * panel_count(c->target_vocabulary), sizeof(float)) +
           arena_need(M * NEEDED_MAX, sizeof(float)) + linear_scratch_bytes(M, c->width);
}
