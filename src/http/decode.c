#include "decode.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "decode_parts.h"
#include "fields.h"
#include "model/json.h"

/* Ids of one digit take 36 times their text while they are parsed, nothing that is served much
 * more; lists of many short lists do, up to a length. */
static const size_t JSON_FACTOR = 40, JSON_LEAST = (size_t)16 << 20;

/* From this size on what a body took is given back to the system at once. */
enum { LARGE_BODY_BYTES = 1 << 20 };

static const char *const common_fields[] = { "model",      "input_ids", "attention_mask",
                                             "inputs",     "truncate",  "return_tokens",
                                             "timeout_ms", NULL };

struct route_part {
    const char *const *fields;
    const char *hint; /* behind the news that a field is unknown */
    int (*decode)(struct job *job, const json_t *body, const struct limits *limits,
                  struct error *err);
};

static const struct route_part parts[] = {
    [REQUEST_ENCODE] = { decode_encode_fields, "", decode_encode },
    [REQUEST_GENERATE] = { decode_generate_fields, "; generation options go into parameters",
                           decode_generate },
    [REQUEST_SCORE] = { decode_score_fields, "", decode_score },
};

/* "a, b, c": as many of the loaded names as fit. */
static void list_models(const struct registry *registry, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < registry->count; i++) {
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", i ? ", " : "", registry->models[i].name);
    }
}

static int find_model(struct job *job, const json_t *body, const struct registry *registry,
                      struct error *err)
{
    const char *name = NULL;
    if (fields_text(body, "model", &name, err) < 0)
        return -1;
    job->served = registry_find(registry, name);
    if (job->served)
        return 0;
    char names[256];
    list_models(registry, names, sizeof names);
    if (name)
        return error_at(err, ERR_NO_MODEL, "model", "there is no model \"%.128s\"; loaded: %s",
                        name, names);
    return error_at(err, ERR_MISSING_FIELD, "model", "model is needed to choose one of: %s", names);
}

int decode_text(const struct served_model *served, const struct row_field *field, size_t index,
                int32_t **ids, size_t *count, size_t *trailing, struct error *err)
{
    const json_t *text = fields_row(field, index);
    const char *bytes = json_string_value(text);
    const size_t length = json_string_length(text);
    struct error reason = { 0 };
    const int rc =
        trailing ? tokenizer_encode(served->tokenizer, bytes, length, ids, count, trailing, &reason)
                 : tokenizer_encode_target(served->tokenizer, bytes, length, ids, count, &reason);
    if (rc == 0)
        return 0;
    char param[FIELD_PARAM_MAX];
    fields_row_param(field, index, param);
    return error_at(err, reason.code, param, "%s: %s", param, reason.message);
}

int decode_check_size(struct job *job, double bytes, const struct limits *limits, struct error *err)
{
    for (size_t i = 0; job->return_tokens && i < job->request->row_count; i++)
        bytes += (double)job->request->rows[i].sent_count * DECODE_ID_BYTES;
    if (bytes > (double)limits->response_bytes)
        return error_set(err, ERR_OVER_LIMIT,
                         "the answer would take about %.0f bytes; limits.response_bytes is %zu",
                         bytes, limits->response_bytes);
    job->answer_bytes = (size_t)bytes;
    return 0;
}

static int check_model(const struct job *job, enum request_kind kind, struct error *err)
{
    const struct served_model *served = job->served;
    if (kind == REQUEST_ENCODE || config_generates(&served->model->config))
        return 0;
    return error_at(
        err, ERR_UNSUPPORTED, "model",
        "model \"%.128s\" (%s) has an encoder and no decoder: it serves /v1/encode only",
        served->name, served->model->config.family);
}

static int decode_object(struct job *job, enum request_kind kind, json_t *body,
                         const struct decode_context *context, struct error *err)
{
    if (!json_is_object(body))
        return error_set(err, ERR_WRONG_TYPE, "the body is an array; it must be an object");
    if (find_model(job, body, context->registry, err) < 0 || check_model(job, kind, err) < 0 ||
        fields_known(body, common_fields, parts[kind].fields, parts[kind].hint, err) < 0)
        return -1;

    int64_t timeout_ms = (int64_t)context->limits->request_timeout_ms;
    if (fields_integer(body, "timeout_ms", 1, timeout_ms, &timeout_ms, err) < 0 ||
        decode_rows(job, kind, body, context->limits, err) < 0)
        return -1;
    struct request *request = job->request;
    snprintf(request->id, sizeof request->id, "%s", context->request_id);
    request->received_ns = context->received_ns;
    request->deadline_ns = context->received_ns + (uint64_t)timeout_ms * NS_PER_MS;
    return parts[kind].decode(job, body, context->limits, err);
}

int decode_request(struct job *job, enum request_kind kind, const char *bytes, size_t count,
                   const struct decode_context *context, struct error *err)
{
    json_t *body = json_parse_within(bytes, count, JSON_LEAST + JSON_FACTOR * count, "the body",
                                     ERR_BAD_JSON, err);
    const int rc = body ? decode_object(job, kind, body, context, err) : -1;
    json_decref(body);
    if (count >= LARGE_BODY_BYTES)
        mem_give_back();
    if (rc < 0)
        job_clear(job);
    return rc;
}
