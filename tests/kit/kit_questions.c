#include "kit_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference's own default, where neither request nor model says; the daemon's is larger. */
#define REFERENCE_MAX_NEW_TOKENS 20

static struct kit_check *add(struct kit_case *kit_case, const char *section, const json_t *item,
                             const char *detail)
{
    struct kit_check *checks =
        realloc(kit_case->checks, (kit_case->count + 1) * sizeof *kit_case->checks);
    if (!checks)
        abort();
    kit_case->checks = checks;
    struct kit_check *check = &checks[kit_case->count++];
    *check = (struct kit_check){ .item = item };
    const char *name = json_string_value(json_object_get(item, "name"));
    snprintf(check->name, sizeof check->name, "%s %s%s%s", section, name ? name : "",
             name && *detail ? " " : "", detail);
    return check;
}

/* Takes over the reference to `body`. */
static void add_body(struct kit_check *check, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    if (!text)
        abort();
    check->bodies[check->body_count++] = text;
}

/* input_ids and attention_mask of `item`, in a new object. */
static json_t *input_of(const json_t *item)
{
    return json_pack("{sOsO}", "input_ids", json_object_get(item, "input_ids"), "attention_mask",
                     json_object_get(item, "attention_mask"));
}

static void ask_encode(struct kit_case *kit_case, const json_t *item, const char *pooling,
                       bool normalize, bool attentions, kit_judge *judge)
{
    char detail[32];
    snprintf(detail, sizeof detail, "%s%s", attentions ? "attentions" : pooling,
             normalize ? " normalized" : "");
    struct kit_check *check = add(kit_case, "encode", item, detail);
    check->path = "/v1/encode";
    check->judge = judge;
    check->pooling = pooling;
    check->normalize = normalize;
    json_t *body = input_of(item);
    json_object_set_new(body, "pooling", json_string(pooling));
    json_object_set_new(body, "normalize", json_boolean(normalize));
    json_object_set_new(body, "output_attentions", json_boolean(attentions));
    add_body(check, body);
}

static void ask_encodes(struct kit_case *kit_case)
{
    const json_t *encode = json_object_get(kit_case->expected, "encode");
    size_t i;
    const json_t *item;
    json_array_foreach (json_object_get(encode, "batches"), i, item) {
        static const char *const poolings[] = { "mean", "max", "cls" };
        ask_encode(kit_case, item, "none", false, false, kit_judge_hidden);
        for (size_t p = 0; p < sizeof poolings / sizeof *poolings; p++) {
            ask_encode(kit_case, item, poolings[p], false, false, kit_judge_pooled);
            ask_encode(kit_case, item, poolings[p], true, false, kit_judge_pooled);
        }
    }
    ask_encode(kit_case, json_object_get(encode, "attentions"), "none", false, true,
               kit_judge_encoder_attentions);
}

/* One decoder start for all rows of `item`: the request has just one. */
static bool has_one_start(const json_t *item)
{
    const json_t *rows = json_object_get(item, "decoder_input_ids");
    for (size_t i = 1; i < json_array_size(rows); i++)
        if (!json_equal(json_array_get(json_array_get(rows, i), 0),
                        json_array_get(json_array_get(rows, 0), 0)))
            return false;
    return true;
}

static void ask_score(struct kit_case *kit_case, const json_t *item, bool attentions,
                      kit_judge *judge)
{
    if (!has_one_start(item))
        return;
    struct kit_check *check = add(kit_case, "score", item, attentions ? "attentions" : "");
    check->path = "/v1/score";
    check->judge = judge;
    const json_t *rows = json_object_get(item, "decoder_input_ids");
    json_t *targets = json_deep_copy(rows);
    for (size_t i = 0; i < json_array_size(targets); i++)
        json_array_remove(json_array_get(targets, i), 0);
    json_t *body = input_of(item);
    json_object_set_new(body, "target_ids", targets);
    json_object_set(body, "decoder_start_token_id", json_array_get(json_array_get(rows, 0), 0));
    json_object_set_new(body, "output_attentions", json_boolean(attentions));
    add_body(check, body);
}

/* Nothing for an encoder alone, and no attentions where the case has none. */
static void ask_scores(struct kit_case *kit_case)
{
    const json_t *logits = json_object_get(kit_case->expected, "logits");
    const json_t *attentions = json_object_get(logits, "attentions");
    size_t i;
    const json_t *item;
    json_array_foreach (json_object_get(logits, "batches"), i, item)
        ask_score(kit_case, item, false, kit_judge_score);
    if (attentions)
        ask_score(kit_case, attentions, true, kit_judge_decoder_attentions);
}

/* The body for a request of the kit, with `more` among its options. */
static json_t *generate_body(const json_t *request, json_t *more)
{
    json_t *body = input_of(request);
    json_t *options = json_deep_copy(json_object_get(request, "options"));
    json_object_update(options, more);
    json_decref(more);
    json_object_set_new(body, "parameters", options);
    if (json_object_get(request, "decoder_input_ids"))
        json_object_set(body, "decoder_input_ids", json_object_get(request, "decoder_input_ids"));
    return body;
}

/* The first of the options that the request needs; NULL: none of them.  null switches one off. */
static const char *needed_option(const json_t *request, const struct kit_options *options)
{
    for (size_t i = 0; i < options->count; i++) {
        const json_t *value =
            json_object_get(json_object_get(request, "options"), options->names[i]);
        if (value && !json_is_null(value))
            return options->names[i];
    }
    return NULL;
}

static struct kit_check *ask_generate(struct kit_case *kit_case, const char *section,
                                      const json_t *item, kit_judge *judge,
                                      const struct kit_options *unsupported)
{
    const char *option = needed_option(json_object_get(item, "request"), unsupported);
    struct kit_check *check = add(kit_case, section, item, option ? "is refused" : "");
    check->path = "/v1/generate";
    check->judge = judge;
    check->unsupported = option;
    return check;
}

static void ask_generates(struct kit_case *kit_case, const struct kit_options *unsupported)
{
    size_t i;
    const json_t *item;
    json_array_foreach (json_object_get(kit_case->expected, "generate"), i, item) {
        struct kit_check *check =
            ask_generate(kit_case, "generate", item, kit_judge_generate, unsupported);
        add_body(check,
                 generate_body(json_object_get(item, "request"), json_pack("{si}", "logprobs", 0)));
    }
}

static void ask_distributions(struct kit_case *kit_case, const struct kit_options *unsupported)
{
    size_t i;
    const json_t *item;
    json_array_foreach (json_object_get(kit_case->expected, "distribution"), i, item) {
        struct kit_check *check =
            ask_generate(kit_case, "distribution", item, kit_judge_distribution, unsupported);
        for (int seed = 1; seed <= KIT_DRAW_REQUESTS; seed++)
            add_body(check, generate_body(json_object_get(item, "request"),
                                          json_pack("{sisi}", "num_return_sequences", KIT_DRAWS,
                                                    "seed", seed)));
    }
}

int kit_options_read(struct kit_options *options, const char *path)
{
    char line[128];
    FILE *file = fopen(path, "r");
    *options = (struct kit_options){ 0 };
    if (!file) {
        perror(path);
        return -1;
    }
    while (options->count < KIT_OPTIONS_MAX && fgets(line, sizeof line, file))
        if (*line != '#' && sscanf(line, "%47s", options->names[options->count]) == 1)
            options->count++;
    fclose(file);
    return 0;
}

static json_t *read_json(const char *folder, const char *name)
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return json_load_file(path, 0, &error);
}

static bool is_given(const json_t *options, const json_t *defaults, const char *name)
{
    const json_t *value = json_object_get(options, name);
    if (!value)
        value = json_object_get(defaults, name);
    return value && !json_is_null(value);
}

static void set_reference_length(struct kit_case *kit_case, const json_t *defaults)
{
    size_t i;
    const json_t *item;
    json_array_foreach (json_object_get(kit_case->expected, "generate"), i, item) {
        json_t *options = json_object_get(json_object_get(item, "request"), "options");
        if (!is_given(options, defaults, "max_length") &&
            !is_given(options, defaults, "max_new_tokens"))
            json_object_set_new(options, "max_new_tokens", json_integer(REFERENCE_MAX_NEW_TOKENS));
    }
}

int kit_case_open(struct kit_case *kit_case, const char *folder,
                  const struct kit_options *unsupported)
{
    *kit_case = (struct kit_case){ .expected = read_json(folder, "expected.json") };
    json_t *defaults = read_json(folder, "generation_config.json");
    if (!defaults)
        defaults = read_json(folder, "config.json");
    if (!kit_case->expected || !defaults) {
        fprintf(stderr, "%s is no case: expected.json or config.json is missing\n", folder);
        json_decref(defaults);
        kit_case_close(kit_case);
        return -1;
    }
    set_reference_length(kit_case, defaults);
    json_decref(defaults);
    ask_encodes(kit_case);
    ask_scores(kit_case);
    ask_generates(kit_case, unsupported);
    ask_distributions(kit_case, unsupported);
    return 0;
}

void kit_case_close(struct kit_case *kit_case)
{
    for (size_t i = 0; i < kit_case->count; i++)
        for (size_t b = 0; b < kit_case->checks[i].body_count; b++)
            free(kit_case->checks[i].bodies[b]);
    free(kit_case->checks);
    json_decref(kit_case->expected);
    *kit_case = (struct kit_case){ 0 };
}
