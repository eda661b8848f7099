#include "search/search.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "search_internal.h"

const char *finish_reason_name(enum finish_reason reason)
{
    static const char *const names[] = {
        [FINISH_EOS] = "eos", [FINISH_LENGTH] = "length", [FINISH_TIMEOUT] = "timeout"
    };
    return names[reason];
}

/* Cuts one block into arrays; with `base` NULL it only counts. */
struct cutter {
    char *base;
    size_t used;
};

static void *cut(struct cutter *cutter, size_t count, size_t size)
{
    void *const piece = cutter->base ? cutter->base + cutter->used : NULL;
    cutter->used += (count * size + 15) / 16 * 16;
    return piece;
}

/* Every array of the search, the struct itself first. */
static size_t cut_all(struct search *s, struct cutter *cutter)
{
    const struct options *const o = s->options;
    const size_t nodes = s->max_length * s->width;
    const size_t candidates = search_has_beams(o) ? beams_candidate_count(o) : 0;
    const size_t answers = o->num_return_sequences * o->max_new_tokens;
    const struct rules_scratch scratch = rules_scratch(o, s->V, s->source_count);
    const size_t ranked = scratch.ranked > candidates ? scratch.ranked : candidates;
    cut(cutter, 1, sizeof *s);
    s->node_tokens = cut(cutter, nodes, sizeof *s->node_tokens);
    s->node_parents = cut(cutter, nodes, sizeof *s->node_parents);
    s->node_logprobs = cut(cutter, nodes, sizeof *s->node_logprobs);
    s->node_tops = cut(cutter, nodes * o->top_logprobs, sizeof *s->node_tops);
    s->tokens = cut(cutter, nodes, sizeof *s->tokens);
    s->paths = cut(cutter, nodes, sizeof *s->paths);
    s->last = cut(cutter, s->width, sizeof *s->last);
    s->numbers = cut(cutter, s->width, sizeof *s->numbers);
    s->scores = cut(cutter, s->width, sizeof *s->scores);
    s->log_sums = cut(cutter, s->width, sizeof *s->log_sums);
    s->ended = cut(cutter, s->width, sizeof *s->ended);
    s->merged = cut(cutter, s->width, sizeof *s->merged);
    s->candidates = cut(cutter, candidates, sizeof *s->candidates);
    s->floats = cut(cutter, scratch.floats, sizeof *s->floats);
    s->ranked = cut(cutter, ranked, sizeof *s->ranked);
    s->weighed = cut(cutter, scratch.weighed, sizeof *s->weighed);
    s->answer_tokens = cut(cutter, answers, sizeof *s->answer_tokens);
    s->answer_logprobs = cut(cutter, answers, sizeof *s->answer_logprobs);
    s->answer_tops = cut(cutter, answers * o->top_logprobs, sizeof *s->answer_tops);
    s->answers = cut(cutter, o->num_return_sequences, sizeof *s->answers);
    return cutter->used;
}

static struct search shape(const struct options *options, size_t V, size_t source_count)
{
    return (struct search){ .options = options,
                            .V = V,
                            .source_count = source_count,
                            .width = options_width(options),
                            .max_length = options->max_length,
                            .prefix_count = options->max_length - options->max_new_tokens };
}

size_t search_bytes(const struct options *options, size_t vocabulary, size_t source_count)
{
    struct search s = shape(options, vocabulary, source_count);
    return cut_all(&s, &(struct cutter){ 0 });
}

/* Hypothesis `index` now ends with `node`.  What its path already shares with the node's stays. */
static void follow(struct search *s, size_t index, int32_t node)
{
    int32_t *const path = s->paths + index * s->max_length;
    int32_t *const tokens = s->tokens + index * s->max_length;
    for (size_t p = s->length; p-- > 0 && path[p] != node; node = s->node_parents[node]) {
        path[p] = node;
        tokens[p] = s->node_tokens[node];
    }
}

static void plant(struct search *s, const int32_t *prefix)
{
    for (size_t i = 0; i < s->width * s->max_length; i++)
        s->paths[i] = -1;
    for (size_t p = 0; p < s->prefix_count; p++) {
        const size_t node = p * s->width;
        s->node_tokens[node] = prefix[p];
        s->node_parents[node] = p > 0 ? (int32_t)(node - s->width) : -1;
    }
    for (size_t i = 0; i < s->width; i++) {
        s->last[i] = (int32_t)((s->prefix_count - 1) * s->width);
        s->numbers[i] = i;
    }
    s->length = s->prefix_count;
    s->live = 1;
    follow(s, 0, s->last[0]);
}

int search_create(struct search **out, const struct options *options, size_t vocabulary,
                  const struct search_input *input, struct error *err)
{
    struct search s = shape(options, vocabulary, input->source_count);
    *out = NULL;
    s.kernels = input->kernels;
    s.source = input->source;
    assert(input->prefix_count > 0);
    assert(s.prefix_count == input->prefix_count);
    /* Nodes and candidates are numbered in 32 bits. */
    if (s.max_length > INT32_MAX / s.width || vocabulary > UINT32_MAX / s.width)
        return error_set(err, ERR_NO_MEMORY, "a search of %zu hypotheses over %zu positions",
                         s.width, s.max_length);
    struct cutter cutter = { .base = mem_alloc(
                                 1, search_bytes(options, vocabulary, input->source_count)) };
    if (!cutter.base)
        return error_set(err, ERR_NO_MEMORY, "no memory for a search");
    struct search *const search = (struct search *)(void *)cutter.base;
    *search = s;
    cut_all(search, &cutter);
    rules_init(&search->rules, options);
    plant(search, input->prefix);
    if (search_has_beams(options))
        beams_start(search);
    *out = search;
    return 0;
}

void search_destroy(struct search **search)
{
    mem_free(*search);
    *search = NULL;
}

size_t search_live(const struct search *search)
{
    return search->live;
}

size_t search_length(const struct search *search)
{
    return search->length;
}

const int32_t *search_tokens(const struct search *search, size_t index)
{
    assert(index < search->live);
    return search->tokens + index * search->max_length;
}

const int32_t *search_path(const struct search *search, size_t index)
{
    assert(index < search->live);
    return search->paths + index * search->max_length;
}

size_t search_needed(const struct search *s)
{
    enum { MOST = 256 }; /* more candidates than this are no fewer than all */
    const struct options *const o = s->options;
    const size_t chosen = o->do_sample ? o->top_k : 1;
    const size_t lowered = rules_lowered(o, s->length, s->source_count);
    const bool whole = search_has_beams(o) || o->top_logprobs > 0 || chosen == 0 ||
                       (!o->do_sample && !o->no_logprob);
    return whole || chosen > MOST || lowered > MOST ? 0 : chosen + lowered;
}

size_t search_members(const struct search *s)
{
    return s->length == s->prefix_count ? s->width : s->live;
}

size_t search_row(const struct search *s, size_t index)
{
    return s->length == s->prefix_count ? 0 : index;
}

/* Of a row that has no sum, the reference's softmax makes NaN alone; remove_invalid_values, without
 * which such a row does not come here, goes on from there. */
static void to_logprobs(const struct search *s, float *logits)
{
    if (!s->options->remove_invalid_values || logits_usable(s->kernels, logits, s->V)) {
        logits_log_softmax(s->kernels, logits, s->V);
        return;
    }
    for (size_t v = 0; v < s->V; v++)
        logits[v] = NAN;
}

void search_process_row(struct search *s, float *logits, size_t row)
{
    const struct options *const o = s->options;
    const bool beams = search_has_beams(o);
    if (beams)
        to_logprobs(s, logits);
    const struct rule_call call = { .kernels = s->kernels,
                                    .options = o,
                                    .tokens = s->tokens + row * s->max_length,
                                    .length = s->length,
                                    .source = s->source,
                                    .source_count = s->source_count,
                                    .scores = logits,
                                    .V = s->V,
                                    .floats = s->floats,
                                    .ranked = s->ranked,
                                    .weighed = s->weighed };
    rules_apply(&s->rules, &call);
    const bool summed = !beams && (o->do_sample || !o->no_logprob);
    s->log_sums[row] = summed ? logits_log_sum_exp(s->kernels, logits, s->V) : 0;
    if (o->top_logprobs > 0)
        logits_top(s->kernels, logits, s->V, s->log_sums[row],
                   s->node_tops + (size_t)s->last[row] * o->top_logprobs, o->top_logprobs);
}

bool search_is_eos(const struct search *s, int32_t token)
{
    for (size_t i = 0; i < s->options->eos_count; i++)
        if (s->options->eos_ids[i] == token)
            return true;
    return false;
}

bool search_ends(const struct search *s, int32_t token, enum finish_reason *reason)
{
    const bool eos = search_is_eos(s, token);
    *reason = eos ? FINISH_EOS : FINISH_LENGTH;
    return eos || s->length + 1 == s->max_length;
}

int32_t search_grow(struct search *s, size_t index, int32_t parent, int32_t token, float logprob)
{
    const size_t node = s->length * s->width + index;
    s->node_tokens[node] = token;
    s->node_parents[node] = parent;
    s->node_logprobs[node] = logprob;
    return (int32_t)node;
}

/* Writes an answer from its end to its beginning. */
static void answer(struct search *s, size_t index)
{
    const struct options *const o = s->options;
    const struct choice *const end = &s->ended[index];
    const size_t first = index * o->max_new_tokens, N = o->top_logprobs;
    const size_t length = (size_t)end->node / s->width + 1 + (end->token >= 0);
    const size_t count = length - s->prefix_count;
    double sum = o->no_logprob ? NAN : 0;
    int32_t node = end->node, token = end->token;
    float logprob = end->logprob;
    if (token < 0 && count > 0) {
        token = s->node_tokens[node];
        logprob = s->node_logprobs[node];
        node = s->node_parents[node];
    }
    for (size_t i = count; i-- > 0;) {
        s->answer_tokens[first + i] = token;
        s->answer_logprobs[first + i] = logprob;
        for (size_t j = 0; j < N; j++)
            s->answer_tops[(first + i) * N + j] = s->node_tops[(size_t)node * N + j];
        sum += (double)logprob;
        token = s->node_tokens[node];
        logprob = s->node_logprobs[node];
        node = s->node_parents[node];
    }
    s->answers[index] =
        (struct sequence){ .tokens = s->answer_tokens + first,
                           .count = count,
                           .token_logprobs = o->logprobs ? s->answer_logprobs + first : NULL,
                           .top_logprobs = N > 0 ? s->answer_tops + first * N : NULL,
                           .score = search_has_beams(o) ? end->score : NAN,
                           .logprob = (float)sum,
                           .finish_reason = end->reason };
}

void search_advance(struct search *s, size_t live)
{
    s->live = live;
    if (live == 0) {
        s->done = true;
        for (size_t i = 0; i < s->options->num_return_sequences; i++)
            answer(s, i);
        return;
    }
    s->length++;
    for (size_t i = 0; i < live; i++)
        follow(s, i, s->last[i]);
}

int search_step(struct search *search, float *logits, struct error *err)
{
    assert(!search->done);
    for (size_t i = 0; i < search->live; i++)
        if (!search->options->remove_invalid_values &&
            !logits_usable(search->kernels, logits + i * search->V, search->V))
            return error_set(err, ERR_NONFINITE,
                             "the model's logits are not finite at decoder position %zu",
                             search->length - 1);
    return search_has_beams(search->options) ? beams_step(search, logits, err)
                                             : paths_step(search, logits, err);
}

bool search_done(const struct search *search)
{
    return search->done;
}

void search_stop(struct search *search)
{
    if (search->done)
        return;
    if (search_has_beams(search->options))
        beams_stop(search);
    else
        paths_stop(search);
    search_advance(search, 0);
}

size_t search_sequence_count(const struct search *search)
{
    assert(search->done);
    return search->options->num_return_sequences;
}

struct sequence search_sequence(const struct search *search, size_t index)
{
    assert(search->done);
    assert(index < search->options->num_return_sequences);
    return search->answers[index];
}
