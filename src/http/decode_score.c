#include "decode_parts.h"

#include "base/mem.h"
#include "fields.h"

const char *const decode_score_fields[] = {
    "target_ids", "targets", "decoder_start_token_id", "output_attentions", "logprobs", NULL
};

static int check_targets(const struct job *job, const struct row_field *ids,
                         const struct row_field *texts, struct error *err)
{
    const struct row_field *field = ids->json ? ids : texts;
    if (!field->json)
        return error_at(err, ERR_MISSING_FIELD, "target_ids", "target_ids or targets is needed");
    if (ids->json && texts->json)
        return error_at(err, ERR_UNSUPPORTED, "targets", "give target_ids or targets, not both");
    if (texts->json && !job->served->tokenizer)
        return error_at(err, ERR_UNSUPPORTED, "targets",
                        "model \"%.128s\" has no tokenizer; send target_ids", job->served->name);
    if (field->count != job->request->row_count)
        return error_at(err, ERR_OUT_OF_RANGE, field->name, "%s has %zu rows; the request has %zu",
                        field->name, field->count, job->request->row_count);
    return 0;
}

/* A text's ids and the end of sequence, which the tokenizer leaves to us. */
static int read_text(struct row *row, const struct row_field *field,
                     const struct served_model *served, struct error *err)
{
    if (decode_text(served, field, row->index, &row->targets, &row->target_count, NULL, err) < 0)
        return -1;
    if (served->model->config.eos_id < 0)
        return 0;
    int32_t *longer = mem_resize(row->targets, row->target_count + 1, sizeof *longer);
    if (!longer)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu tokens", row->target_count + 1);
    longer[row->target_count++] = served->model->config.eos_id;
    row->targets = longer;
    return 0;
}

static int read_target(struct row *row, const struct row_field *field, bool text,
                       const struct served_model *served, const struct limits *limits,
                       struct error *err)
{
    const struct model_config *config = &served->model->config;
    const int rc = text ? read_text(row, field, served, err)
                        : fields_ids(field, row->index, config->target_vocabulary, "target",
                                     &row->targets, &row->target_count, err);
    if (rc < 0)
        return -1;
    char param[FIELD_PARAM_MAX];
    fields_row_param(field, row->index, param);
    if (row->target_count == 0)
        return error_at(err, ERR_EMPTY_ROW, param, "%s has no token", param);
    if (row->target_count > limits->target_tokens)
        return error_at(err, ERR_OVER_LIMIT, param,
                        "%s has %zu tokens; limits.target_tokens is %zu", param, row->target_count,
                        limits->target_tokens);
    if (row->target_count > config->positions_max)
        return error_at(err, ERR_TOO_LONG, param,
                        "%s is %zu tokens long; this model has %zu positions", param,
                        row->target_count, config->positions_max);
    return 0;
}

static int set_start(struct row *row, int32_t start, struct error *err)
{
    row->prefix = mem_copy(&start, 1, sizeof start);
    if (!row->prefix)
        return error_set(err, ERR_NO_MEMORY, "no memory for the decoder start");
    row->prefix_count = 1;
    return 0;
}

static double answer_bytes(const struct row *row, const struct model_config *config)
{
    const struct request *request = row->request;
    const double places = (double)row->target_count;
    double floats = places;
    if (request->output_attentions)
        floats += (double)(config->decoder.layers * config->decoder.heads) * places *
                  (places + (double)row->sent_count);
    return floats * DECODE_FLOAT_BYTES +
           places * (double)request->top_logprobs * DECODE_CANDIDATE_BYTES;
}

static int read_options(struct job *job, const json_t *body, const struct limits *limits,
                        int32_t *start, struct error *err)
{
    const int64_t vocabulary = (int64_t)job->served->model->config.target_vocabulary;
    int64_t start_id = job->served->defaults.start_id, top_logprobs = 0;
    if (fields_integer(body, "decoder_start_token_id", 0, vocabulary - 1, &start_id, err) < 0 ||
        fields_integer(body, "logprobs", 0, vocabulary, &top_logprobs, err) < 0 ||
        fields_bool(body, "output_attentions", &job->request->output_attentions, err) < 0)
        return -1;
    if (start_id < 0)
        return error_at(err, ERR_MISSING_FIELD, "decoder_start_token_id",
                        "this model names no decoder start; decoder_start_token_id is needed");
    if ((uint64_t)top_logprobs > limits->top_logprobs)
        return error_at(err, ERR_OVER_LIMIT, "logprobs",
                        "logprobs is %lld; limits.top_logprobs is %zu", (long long)top_logprobs,
                        limits->top_logprobs);
    job->request->top_logprobs = (size_t)top_logprobs;
    *start = (int32_t)start_id;
    return 0;
}

int decode_score(struct job *job, const json_t *body, const struct limits *limits,
                 struct error *err)
{
    struct request *request = job->request;
    struct row_field ids, texts;
    int32_t start = -1;
    if (fields_id_rows(&ids, body, "target_ids", err) < 0 ||
        fields_text_rows(&texts, body, "targets", err) < 0 ||
        check_targets(job, &ids, &texts, err) < 0 ||
        read_options(job, body, limits, &start, err) < 0)
        return -1;
    double bytes = 0;
    for (size_t i = 0; i < request->row_count; i++) {
        struct row *row = &request->rows[i];
        if (read_target(row, ids.json ? &ids : &texts, texts.json != NULL, job->served, limits,
                        err) < 0 ||
            set_start(row, start, err) < 0)
            return -1;
        bytes += answer_bytes(row, &job->served->model->config);
    }
    return decode_check_size(job, bytes, limits, err);
}
