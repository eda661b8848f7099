/* Beam search as the reference's _beam_search does it for one row.
 *
 * Of the best `beam_candidates` continuations of all beams, the best that do not end are the next
 * beams; those that end and are among the first num_beams compete, with their length penalty, for
 * the num_beams places of `ended`.  Arithmetic is float32 and FAR_BELOW is added where the
 * reference adds it, because which of two bad hypotheses survives depends on the rounding.  Equal
 * scores: the one that came first. */
#include <float.h>
#include <math.h>

#include "search_internal.h"

/* Where the reference puts hypotheses that do not count. */
#define FAR_BELOW (-1.0e9f)

/* Enough candidates that num_beams go on even if every beam ends with every end token. */
size_t beams_candidate_count(const struct options *options)
{
    const size_t per_beam = options->eos_count > 0 ? 1 + options->eos_count : 2;
    return per_beam * options->num_beams;
}

/* All beams begin as one; the others' scores keep their copies out of the first choice.  A place
 * that nothing ended for is an empty sequence, which only search_stop() may have to return. */
void beams_start(struct search *s)
{
    for (size_t b = 0; b < s->width; b++) {
        s->scores[b] = b == 0 ? 0 : FAR_BELOW;
        s->ended[b] = (struct choice){
            .node = s->last[b], .token = -1, .score = FAR_BELOW, .reason = FINISH_TIMEOUT
        };
    }
}

/* length ** length_penalty, kept within what float can divide by. */
static float length_divisor(const struct search *s, size_t length)
{
    const double power = pow((double)length, s->options->length_penalty);
    return (float)fmin(fmax(power, (double)FLT_MIN), (double)FLT_MAX);
}

/* Fills `candidates`, best first. */
static void find_candidates(struct search *s, const float *logprobs)
{
    struct ranking ranking = { .items = s->ranked, .capacity = beams_candidate_count(s->options) };
    for (size_t b = 0; b < search_members(s); b++)
        ranking_offer_row(&ranking, s->kernels, logprobs + search_row(s, b) * s->V, s->V,
                          s->scores[b], (uint32_t)(b * s->V));
    ranking_sort(&ranking);
    s->candidate_count = ranking.count;
    for (size_t i = 0; i < ranking.count; i++) {
        const size_t beam = ranking.items[i].id / s->V, token = ranking.items[i].id % s->V;
        struct choice *const c = &s->candidates[i];
        *c = (struct choice){ .node = s->last[beam],
                              .token = (int32_t)token,
                              .logprob = logprobs[search_row(s, beam) * s->V + token],
                              .score = ranking.items[i].score };
        c->ended = search_ends(s, c->token, &c->reason);
    }
}

/* The best candidates that do not end become the beams. */
static size_t extend_beams(struct search *s)
{
    struct ranking ranking = { .items = s->ranked, .capacity = s->width };
    for (size_t i = 0; i < s->candidate_count; i++) {
        const struct choice *const c = &s->candidates[i];
        ranking_offer(&ranking, c->score + (c->ended ? FAR_BELOW : 0), (uint32_t)i);
    }
    ranking_sort(&ranking);
    for (size_t b = 0; b < ranking.count; b++) {
        const struct choice *const c = &s->candidates[ranking.items[b].id];
        s->last[b] = search_grow(s, b, c->node, c->token, c->logprob);
        s->scores[b] = ranking.items[b].score;
    }
    return ranking.count;
}

/* The best of `ended` and `choices`, whose scores are final, take the places. */
static void merge_ended(struct search *s, const struct choice *choices, size_t count)
{
    struct ranking ranking = { .items = s->ranked, .capacity = s->width };
    for (size_t i = 0; i < s->width; i++)
        ranking_offer(&ranking, s->ended[i].score, (uint32_t)i);
    for (size_t i = 0; i < count; i++)
        ranking_offer(&ranking, choices[i].score, (uint32_t)(s->width + i));
    ranking_sort(&ranking);
    for (size_t i = 0; i < s->width; i++) {
        const size_t id = ranking.items[i].id;
        s->merged[i] = id < s->width ? s->ended[id] : choices[id - s->width];
    }
    for (size_t i = 0; i < s->width; i++)
        s->ended[i] = s->merged[i];
}

/* Only a candidate among the first num_beams may take a place; the others are there to go on. */
static void end_candidates(struct search *s, size_t generated)
{
    const float divisor = length_divisor(s, generated);
    const size_t count = s->candidate_count < s->width ? s->candidate_count : s->width;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!s->candidates[i].ended)
            continue;
        s->candidates[kept] = s->candidates[i];
        s->candidates[kept++].score /= divisor;
    }
    merge_ended(s, s->candidates, kept);
}

static bool all_candidates_end(const struct search *s)
{
    for (size_t i = 0; i < s->candidate_count; i++)
        if (!s->candidates[i].ended)
            return false;
    return true;
}

/* Whether a living beam may still beat the worst of the ended, by the reference's estimate. */
static bool can_improve(const struct search *s, size_t generated)
{
    const struct options *const o = s->options;
    const bool longest = o->early_stopping == EARLY_STOPPING_NEVER && o->length_penalty > 0;
    const float divisor = length_divisor(s, longest ? o->max_new_tokens : generated);
    return s->scores[0] / divisor > s->ended[s->width - 1].score;
}

static bool all_places_taken(const struct search *s)
{
    for (size_t i = 0; i < s->width; i++)
        if (!s->ended[i].ended)
            return false;
    return true;
}

/* Done, unless a place that nothing ended for would be returned: the rules left no token, or a wild
 * length_penalty put what ended below FAR_BELOW. */
static int finish(struct search *s, struct error *err)
{
    for (size_t i = 0; i < s->options->num_return_sequences; i++)
        if (!s->ended[i].ended)
            return error_at(err, ERR_OUT_OF_RANGE, "parameters",
                            "parameters let fewer than %zu sequences end at decoder position "
                            "%zu",
                            s->options->num_return_sequences, s->length);
    search_advance(s, 0);
    return 0;
}

int beams_step(struct search *s, float *logits, struct error *err)
{
    const size_t generated = s->length + 1 - s->prefix_count;
    for (size_t row = 0; row < s->live; row++)
        search_process_row(s, logits + row * s->V, row);
    find_candidates(s, logits);
    const size_t live = extend_beams(s);
    const bool exhausted = all_candidates_end(s);
    end_candidates(s, generated);
    const bool enough = s->options->early_stopping == EARLY_STOPPING_TRUE && all_places_taken(s);
    if (exhausted || enough || !can_improve(s, generated))
        return finish(s, err);
    search_advance(s, live);
    return 0;
}

void beams_stop(struct search *s)
{
    const size_t generated = s->length - s->prefix_count;
    const float divisor = length_divisor(s, generated > 0 ? generated : 1);
    for (size_t b = 0; b < search_members(s); b++)
        s->candidates[b] = (struct choice){ .node = s->last[b],
                                            .token = -1,
                                            .score = s->scores[b] / divisor,
                                            .ended = true,
                                            .reason = FINISH_TIMEOUT };
    merge_ended(s, s->candidates, search_members(s));
}
