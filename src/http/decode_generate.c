#include "decode_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "fields.h"
#include "model/json.h"

const char *const decode_generate_fields[] = { "parameters", "decoder_input_ids", "stream",
                                               "partial", NULL };

/* What errors put before an option's name: "parameters." or "parameters[2].". */
static void options_param(bool each, size_t index, char param[FIELD_PARAM_MAX])
{
    if (each)
        snprintf(param, FIELD_PARAM_MAX, "parameters[%zu].", index);
    else
        snprintf(param, FIELD_PARAM_MAX, "parameters.");
}

/* Sets every option of the object. */
static int set_options(struct options *options, json_t *object, const struct option_limits *allowed,
                       const char *param, struct error *err)
{
    const char *name;
    json_t *json;
    json_object_foreach (object, name, json) {
        struct value value;
        if (json_to_value(json, &value, err) < 0)
            return -1;
        const int rc = options_set(options, name, &value, allowed, param, err);
        value_clear(&value);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int read_parameters(struct request *request, const struct options *defaults,
                           const struct option_limits *allowed, const json_t *body,
                           struct error *err)
{
    const json_t *parameters = json_object_get(body, "parameters");
    const bool each = json_is_array(parameters);
    if (parameters && !each && !json_is_object(parameters))
        return error_at(err, ERR_WRONG_TYPE, "parameters",
                        "parameters must be an object, or an array with one object a row");
    if (each && json_array_size(parameters) != request->row_count)
        return error_at(err, ERR_OUT_OF_RANGE, "parameters",
                        "parameters has %zu objects; the request has %zu rows",
                        json_array_size(parameters), request->row_count);
    for (size_t i = 0; i < request->row_count; i++) {
        struct options *options = &request->rows[i].options;
        char param[FIELD_PARAM_MAX];
        options_param(each, i, param);
        json_t *object = each ? json_array_get(parameters, i) : json_object_get(body, "parameters");
        if (each && !json_is_object(object))
            return error_at(err, ERR_WRONG_TYPE, "parameters", "parameters[%zu] must be an object",
                            i);
        const bool shared = !each && i > 0;
        options_copy(options, shared ? &request->rows[0].options : defaults);
        if (!shared && object && set_options(options, object, allowed, param, err) < 0)
            return -1;
    }
    return 0;
}

/* The decoder start, unless the row begins with it, and the row of decoder_input_ids. */
static int read_prefix(struct row *row, const struct row_field *field, size_t vocabulary,
                       const struct limits *limits, struct error *err)
{
    int32_t *ids = NULL;
    size_t count = 0;
    if (row->options.start_id < 0)
        return error_at(err, ERR_MISSING_FIELD, "parameters.decoder_start_token_id",
                        "this model names no decoder start; decoder_start_token_id is needed");
    if (field->json && fields_ids(field, row->index, vocabulary, "target", &ids, &count, err) < 0)
        return -1;
    if (count > limits->target_tokens) {
        mem_free(ids);
        return error_at(err, ERR_OVER_LIMIT, field->name,
                        "%s has a row of %zu tokens; limits.target_tokens is %zu", field->name,
                        count, limits->target_tokens);
    }
    const size_t start = count == 0 || ids[0] != row->options.start_id;
    row->prefix = mem_alloc(count + start, sizeof *row->prefix);
    if (row->prefix) {
        row->prefix[0] = row->options.start_id;
        if (count)
            memcpy(row->prefix + start, ids, count * sizeof *ids);
        row->prefix_count = count + start;
    }
    mem_free(ids);
    return row->prefix ? 0 : error_set(err, ERR_NO_MEMORY, "no memory for %zu tokens", count);
}

static double answer_bytes(const struct row *row, const struct model_config *config)
{
    const struct options *options = &row->options;
    double floats = 0;
    if (options->output_attentions)
        floats += (double)(config->decoder.layers * config->decoder.heads) *
                  (double)(options->max_length - 1) * (double)row->sent_count;
    if (options->logprobs)
        floats += (double)options->max_new_tokens;
    /* An id and its text are about as long. */
    const double token =
        2 * DECODE_ID_BYTES + (double)options->top_logprobs * DECODE_CANDIDATE_BYTES;
    return (double)options->num_return_sequences *
           (floats * DECODE_FLOAT_BYTES + (double)options->max_new_tokens * token);
}

static int decode_options(struct job *job, const json_t *body, const struct row_field *prefixes,
                          const struct limits *limits, struct error *err)
{
    const struct model_config *config = &job->served->model->config;
    struct request *request = job->request;
    const struct option_limits allowed = registry_option_limits(config, limits);
    if (read_parameters(request, &job->served->defaults, &allowed, body, err) < 0)
        return -1;
    const bool each = json_is_array(json_object_get(body, "parameters"));
    double bytes = 0;
    for (size_t i = 0; i < request->row_count; i++) {
        struct row *row = &request->rows[i];
        char param[FIELD_PARAM_MAX];
        options_param(each, i, param);
        if (read_prefix(row, prefixes, config->target_vocabulary, limits, err) < 0 ||
            options_resolve(&row->options, &allowed, row->prefix_count, param, err) < 0)
            return -1;
        bytes += answer_bytes(row, config);
    }
    return decode_check_size(job, bytes, limits, err);
}

int decode_generate(struct job *job, const json_t *body, const struct limits *limits,
                    struct error *err)
{
    struct request *request = job->request;
    struct row_field prefixes;
    bool stream = false;
    if (fields_bool(body, "stream", &stream, err) < 0 ||
        fields_bool(body, "partial", &request->partial, err) < 0 ||
        fields_id_rows(&prefixes, body, "decoder_input_ids", err) < 0)
        return -1;
    if (stream)
        return error_at(err, ERR_UNSUPPORTED, "stream", "stream is not supported; leave it out");
    if (prefixes.json && prefixes.count != request->row_count)
        return error_at(err, ERR_OUT_OF_RANGE, prefixes.name,
                        "decoder_input_ids has %zu rows; the request has %zu", prefixes.count,
                        request->row_count);
    return decode_options(job, body, &prefixes, limits, err);
}
