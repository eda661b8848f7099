/* What a row's options mean together, for this model and under these limits. */
#include <inttypes.h>
#include <stdio.h>

#include "search/options.h"

#include "base/random.h"
#include "phrases.h"

/* What every check needs. */
struct check {
    struct options *options;
    const struct option_limits *limits;
    size_t prefix_count;
    const char *param;
    struct error *err;
};

/* An error at an option: "<param><name> is <value>; <limit>". */
static int refuse(const struct check *c, enum error_code code, const char *name, uintmax_t value,
                  const char *limit)
{
    char place[128];
    snprintf(place, sizeof place, "%s%s", c->param, name);
    return error_at(c->err, code, place, "%s is %ju; %s", place, value, limit);
}

static int refuse_above(const struct check *c, enum error_code code, const char *name,
                        uintmax_t value, const char *what, uintmax_t limit)
{
    char text[128];
    snprintf(text, sizeof text, "%s is %ju", what, limit);
    return refuse(c, code, name, value, text);
}

/* −1 and below mean that there is none. */
static int check_id(const struct check *c, const char *name, int32_t id)
{
    if (id < 0 || (size_t)id < c->limits->vocabulary)
        return 0;
    return refuse_above(c, ERR_TOKEN_OUT_OF_RANGE, name, (uintmax_t)id,
                        "the highest id of the model's target vocabulary",
                        c->limits->vocabulary - 1);
}

static int check_few(const struct check *c, const char *name, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (check_id(c, name, ids[i]) < 0)
            return -1;
    return 0;
}

static int check_ids(const struct check *c)
{
    const struct options *const o = c->options;
    if (o->start_id < 0) {
        char place[128];
        snprintf(place, sizeof place, "%sdecoder_start_token_id", c->param);
        return error_at(c->err, ERR_MISSING_FIELD, place,
                        "%s is missing and the model has neither that nor a bos_token_id", place);
    }
    if (check_id(c, "decoder_start_token_id", o->start_id) < 0 ||
        check_id(c, "forced_bos_token_id", o->forced_bos_id) < 0 ||
        check_few(c, "forced_eos_token_id", o->forced_eos_ids, o->forced_eos_count) < 0)
        return -1;
    return check_few(c, "eos_token_id", o->eos_ids, o->eos_count);
}

static bool is_allowed(const struct options *o, int32_t id)
{
    for (size_t i = 0; i < o->eos_count; i++)
        if (o->eos_ids[i] == id)
            return true;
    return phrases_have(o->lists[LIST_ALLOWED], id);
}

/* A token that is forced and removed again would leave none. */
static int check_forced(const struct check *c, const char *forced, const int32_t *ids, size_t count)
{
    const struct options *const o = c->options;
    size_t suppressed = 0, barred = 0;
    for (size_t i = 0; i < count; i++) {
        suppressed += o->lists[LIST_SUPPRESS] && phrases_have(o->lists[LIST_SUPPRESS], ids[i]);
        barred += o->lists[LIST_ALLOWED] && !is_allowed(o, ids[i]);
    }
    if (count == 0 || (suppressed < count && barred < count))
        return 0;
    const char *const name = suppressed == count ? "suppress_tokens" : "allowed_token_ids";
    char place[128];
    snprintf(place, sizeof place, "%s%s", c->param, name);
    return error_at(c->err, ERR_OUT_OF_RANGE, place, "%s %s %d, the %s; no token would be left",
                    place, suppressed == count ? "has" : "lacks", ids[0], forced);
}

static int check_all_forced(const struct check *c)
{
    const struct options *const o = c->options;
    if (check_forced(c, "forced_bos_token_id", &o->forced_bos_id, o->forced_bos_id >= 0) < 0)
        return -1;
    return check_forced(c, "forced_eos_token_id", o->forced_eos_ids, o->forced_eos_count);
}

static int check_mode(const struct check *c)
{
    const struct options *const o = c->options;
    const struct option_limits *const l = c->limits;
    if (o->do_sample && o->num_beams > 1)
        return refuse(c, ERR_UNSUPPORTED, "num_beams", o->num_beams,
                      "with do_sample only 1 is supported");
    if (o->num_beams > l->beams_max)
        return refuse_above(c, ERR_OVER_LIMIT, "num_beams", o->num_beams, "limits.beams",
                            l->beams_max);
    if (!o->do_sample && o->num_return_sequences > o->num_beams)
        return refuse_above(c, ERR_OUT_OF_RANGE, "num_return_sequences", o->num_return_sequences,
                            "without do_sample it must not be above num_beams, which",
                            o->num_beams);
    if (o->num_return_sequences > l->sequences_max)
        return refuse_above(c, ERR_OVER_LIMIT, "num_return_sequences", o->num_return_sequences,
                            "limits.return_sequences", l->sequences_max);
    if (o->top_logprobs > l->top_logprobs_max)
        return refuse_above(c, ERR_OVER_LIMIT, "logprobs", o->top_logprobs, "limits.top_logprobs",
                            l->top_logprobs_max);
    return 0;
}

/* The longest answer that the model and the limit leave room for, in new tokens. */
static size_t room(const struct check *c)
{
    const size_t places = c->limits->positions_max - c->prefix_count;
    return places < c->limits->max_new_tokens ? places : c->limits->max_new_tokens;
}

/* A length that the request itself gave is never cut. */
static int check_given(const struct check *c, const char *name, size_t value, size_t new_tokens)
{
    const struct option_limits *const l = c->limits;
    if (new_tokens > l->positions_max - c->prefix_count)
        return refuse_above(c, ERR_OUT_OF_RANGE, name, value,
                            "start, prefix and new tokens must fit the decoder's positions, whose "
                            "number",
                            l->positions_max);
    if (new_tokens > l->max_new_tokens)
        return refuse_above(c, ERR_OVER_LIMIT, name, value, "limits.max_new_tokens",
                            l->max_new_tokens);
    return 0;
}

static int resolve_length(const struct check *c)
{
    struct options *const o = c->options;
    const char *name = "max_new_tokens";
    size_t value = o->max_new_tokens, new_tokens = value;
    bool given = o->max_new_tokens_given;
    if (c->prefix_count >= c->limits->positions_max)
        return error_at(c->err, ERR_TOO_LONG, "decoder_input_ids",
                        "decoder_input_ids: %zu ids with the start leave no room for a token; the "
                        "decoder has %zu positions",
                        c->prefix_count, c->limits->positions_max);
    if (value == SIZE_MAX && o->max_length != SIZE_MAX) {
        name = "max_length";
        value = o->max_length;
        given = o->max_length_given;
        if (value <= c->prefix_count)
            return refuse_above(c, ERR_OUT_OF_RANGE, name, value,
                                "it must be above the number of ids of start and prefix, which",
                                c->prefix_count);
        new_tokens = value - c->prefix_count;
    }
    if (given && check_given(c, name, value, new_tokens) < 0)
        return -1;
    if (new_tokens == SIZE_MAX)
        new_tokens = c->limits->default_max_new_tokens;
    if (new_tokens > room(c))
        new_tokens = room(c);
    o->max_new_tokens = new_tokens;
    o->max_length = c->prefix_count + new_tokens;
    if (o->min_new_tokens != SIZE_MAX)
        o->min_length = c->prefix_count + o->min_new_tokens;
    return 0;
}

static void resolve_seed(struct options *options)
{
    if (options->do_sample && !options->seed_given)
        options->seed = random_bits() >> 11; /* 53 bits: a JSON number can carry it */
}

int options_resolve(struct options *options, const struct option_limits *limits,
                    size_t prefix_count, const char *param, struct error *err)
{
    const struct check c = { .options = options,
                             .limits = limits,
                             .prefix_count = prefix_count,
                             .param = param,
                             .err = err };
    if (check_ids(&c) < 0 || check_all_forced(&c) < 0 || check_mode(&c) < 0 ||
        resolve_length(&c) < 0)
        return -1;
    resolve_seed(options);
    return 0;
}
