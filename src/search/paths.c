/* Greedy and sampling: every hypothesis goes its own way and leaves when it ends. */
#include <math.h>

#include "draw.h"
#include "search_internal.h"

static int32_t choose(const struct search *s, const float *row, double log_sum, size_t number)
{
    const struct options *const o = s->options;
    if (!o->do_sample)
        return (int32_t)logits_argmax(s->kernels, row, s->V);
    const double uniform = draw_uniform(o->seed, number, s->length - s->prefix_count);
    return (int32_t)draw_token(row, s->V, log_sum, uniform);
}

int paths_step(struct search *s, float *logits, struct error *err)
{
    const size_t members = search_members(s);
    size_t live = 0;
    for (size_t row = 0; row < s->live; row++) {
        search_process_row(s, logits + row * s->V, row);
        if (logits_max(s->kernels, logits + row * s->V, s->V) == -INFINITY)
            return error_at(err, ERR_OUT_OF_RANGE, "parameters",
                            "parameters leave no token to choose at decoder position %zu",
                            s->length);
    }
    for (size_t i = 0; i < members; i++) {
        const size_t row = search_row(s, i), number = s->numbers[i];
        const float *const scores = logits + row * s->V;
        const int32_t token = choose(s, scores, s->log_sums[row], number);
        const float logprob = (float)((double)scores[token] - s->log_sums[row]);
        enum finish_reason reason;
        if (search_ends(s, token, &reason)) {
            s->ended[number] = (struct choice){
                .node = s->last[i], .token = token, .logprob = logprob, .reason = reason
            };
        } else {
            s->last[live] = search_grow(s, live, s->last[i], token, logprob);
            s->numbers[live++] = number;
        }
    }
    search_advance(s, live);
    return 0;
}

void paths_stop(struct search *s)
{
    for (size_t i = 0; i < search_members(s); i++)
        s->ended[s->numbers[i]] =
            (struct choice){ .node = s->last[i], .token = -1, .reason = FINISH_TIMEOUT };
}
