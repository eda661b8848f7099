#include "decode_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "fields.h"

/* What is the same for all rows of the request. */
struct rows {
    struct job *job;
    const struct limits *limits;
    struct row_field ids, texts, mask; /* one of ids and texts is there */
    bool truncate;
};

/* A row as sent. */
struct source {
    int32_t *ids; /* (count), owned */
    bool *real;   /* (count), owned: attend */
    size_t count;
    size_t trailing; /* ids at the end that a cut keeps */
    char param[FIELD_PARAM_MAX];
};

static void source_clear(struct source *source)
{
    mem_free(source->ids);
    mem_free(source->real);
}

static bool is_end(const struct served_model *served, int32_t id)
{
    for (size_t i = 0; i < served->defaults.eos_count; i++)
        if (served->defaults.eos_ids[i] == id)
            return true;
    return id == served->model->config.eos_id;
}

/* Without a mask the padding ids at the end are padding, unless that id is also an end of sequence.
 */
static void infer_mask(struct source *source, const struct served_model *served)
{
    const int32_t pad = served->model->config.pad_id;
    size_t count = source->count;
    while (count && pad >= 0 && source->ids[count - 1] == pad && !is_end(served, pad))
        count--;
    memset(source->real, 1, count);
}

static int read_mask(struct source *source, const struct row_field *mask, size_t index,
                     struct error *err)
{
    const json_t *row = fields_row(mask, index);
    char param[FIELD_PARAM_MAX];
    fields_row_param(mask, index, param);
    if (json_array_size(row) != source->count)
        return error_at(err, ERR_MASK_SHAPE, param, "%s has %zu values; %s has %zu", param,
                        json_array_size(row), source->param, source->count);
    for (size_t i = 0; i < source->count; i++) {
        const json_t *value = json_array_get(row, i);
        const bool number = json_is_integer(value) && json_integer_value(value) >= 0 &&
                            json_integer_value(value) <= 1;
        if (!number && !json_is_boolean(value)) {
            char at[FIELD_PARAM_MAX + 24];
            snprintf(at, sizeof at, "%s[%zu]", param, i);
            return error_at(err, ERR_OUT_OF_RANGE, at, "%s must be 0, 1, false or true", at);
        }
        source->real[i] = number ? json_integer_value(value) == 1 : json_is_true(value);
    }
    return 0;
}

static int read_source(struct source *source, const struct rows *rows, size_t index,
                       struct error *err)
{
    const struct served_model *served = rows->job->served;
    const struct row_field *field = rows->ids.json ? &rows->ids : &rows->texts;
    fields_row_param(field, index, source->param);
    if (field == &rows->texts) {
        if (decode_text(served, field, index, &source->ids, &source->count, &source->trailing,
                        err) < 0)
            return -1;
    } else {
        if (fields_ids(field, index, served->model->config.source_vocabulary, "source",
                       &source->ids, &source->count, err) < 0)
            return -1;
    }
    source->real = mem_alloc(source->count, sizeof *source->real);
    if (!source->real)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu tokens", source->count);
    if (rows->mask.json)
        return read_mask(source, &rows->mask, index, err);
    if (field == &rows->ids)
        infer_mask(source, served);
    else
        memset(source->real, 1, source->count);
    return 0;
}

/* One past the place of the last real token; 0: there is none. */
static size_t real_length(const struct source *source)
{
    size_t length = source->count;
    while (length && !source->real[length - 1])
        length--;
    return length;
}

/* Cuts to `limit` places at the right end, keeping the special tokens there. */
static void cut(struct source *source, size_t length, size_t limit)
{
    const size_t kept = source->trailing < limit ? source->trailing : limit;
    memmove(source->ids + limit - kept, source->ids + length - kept, kept * sizeof *source->ids);
    memmove(source->real + limit - kept, source->real + length - kept, kept * sizeof *source->real);
    source->count = limit;
}

/* Where `truncate` cuts: at the limits of model and daemon and, for vectors, of the folder. */
static size_t cut_limit(const struct rows *rows)
{
    const struct model *model = rows->job->served->model;
    const size_t positions = model->config.positions_max, allowed = rows->limits->source_tokens;
    const size_t limit = positions < allowed ? positions : allowed;
    if (rows->job->request->kind != REQUEST_ENCODE || !model->sentence)
        return limit;
    return model->sentence->tokens_max < limit ? model->sentence->tokens_max : limit;
}

static int fit(struct source *source, struct row *row, const struct rows *rows, struct error *err)
{
    const struct served_model *served = rows->job->served;
    const size_t positions = served->model->config.positions_max;
    const size_t allowed = rows->limits->source_tokens;
    const size_t limit = cut_limit(rows);
    size_t length = real_length(source);
    if (length && rows->ids.json && is_end(served, source->ids[length - 1]))
        source->trailing = 1;
    if (rows->truncate && length > limit) {
        cut(source, length, limit);
        row->truncated = true;
        length = real_length(source);
    }
    if (rows->truncate && source->count > allowed)
        source->count = allowed; /* padding alone goes */
    if (source->count > allowed)
        return error_at(err, ERR_OVER_LIMIT, source->param,
                        "%s has %zu tokens; limits.source_tokens is %zu", source->param,
                        source->count, allowed);
    if (length > positions)
        return error_at(err, ERR_TOO_LONG, source->param,
                        "%s is %zu tokens long; this model has %zu positions", source->param,
                        length, positions);
    if (length == 0)
        return error_at(err, ERR_EMPTY_ROW, source->param, "%s has no token to attend to",
                        source->param);
    return 0;
}

/* The real tokens, one after another, with their places. */
static int pack(const struct source *source, const struct model_config *config, struct row *row,
                struct error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < source->count; i++)
        count += source->real[i];
    row->tokens = mem_alloc(count, sizeof *row->tokens);
    row->places = mem_alloc(count, sizeof *row->places);
    row->positions = mem_alloc(source->count, sizeof *row->positions);
    if (!row->tokens || !row->places || !row->positions)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu tokens", count);
    row->sent_count = source->count;
    config_positions(config, source->ids, source->count, row->positions);
    for (size_t i = 0; i < source->count; i++) {
        if (!source->real[i])
            continue;
        row->tokens[row->token_count] = source->ids[i];
        row->positions[row->token_count] = row->positions[i];
        row->places[row->token_count++] = (int32_t)i;
    }
    return 0;
}

static int decode_row(const struct rows *rows, size_t index, struct error *err)
{
    struct row *row = &rows->job->request->rows[index];
    struct source source = { 0 };
    int rc = read_source(&source, rows, index, err);
    if (rc == 0)
        rc = fit(&source, row, rows, err);
    if (rc == 0)
        rc = pack(&source, &rows->job->served->model->config, row, err);
    if (rc == 0) {
        row->sent_ids = source.ids;
        source.ids = NULL;
    }
    source_clear(&source);
    return rc;
}

/* Which fields there are, and that they agree on the number of rows. */
static int check_fields(const struct rows *rows, struct error *err)
{
    const struct row_field *field = rows->ids.json ? &rows->ids : &rows->texts;
    if (!rows->ids.json && !rows->texts.json)
        return error_at(err, ERR_MISSING_FIELD, "input_ids", "input_ids or inputs is needed");
    if (rows->ids.json && rows->texts.json)
        return error_at(err, ERR_UNSUPPORTED, "inputs", "give input_ids or inputs, not both");
    if (rows->texts.json && !rows->job->served->tokenizer)
        return error_at(err, ERR_UNSUPPORTED, "inputs",
                        "model \"%.128s\" has no tokenizer; send input_ids",
                        rows->job->served->name);
    if (field->count == 0)
        return error_at(err, ERR_EMPTY_ROW, field->name, "%s has no row", field->name);
    if (field->count > rows->limits->sequences)
        return error_at(err, ERR_OVER_LIMIT, field->name,
                        "%s has %zu rows; limits.sequences is %zu", field->name, field->count,
                        rows->limits->sequences);
    if (!rows->mask.json)
        return 0;
    if (rows->texts.json)
        return error_at(err, ERR_MASK_SHAPE, "attention_mask",
                        "attention_mask goes with input_ids");
    if (rows->mask.count != field->count || rows->mask.single != field->single)
        return error_at(err, ERR_MASK_SHAPE, "attention_mask",
                        "attention_mask must have the shape of input_ids, %zu rows", field->count);
    return 0;
}

int decode_rows(struct job *job, enum request_kind kind, const json_t *body,
                const struct limits *limits, struct error *err)
{
    struct rows rows = { .job = job, .limits = limits };
    if (fields_id_rows(&rows.ids, body, "input_ids", err) < 0 ||
        fields_text_rows(&rows.texts, body, "inputs", err) < 0 ||
        fields_id_rows(&rows.mask, body, "attention_mask", err) < 0 ||
        fields_bool(body, "truncate", &rows.truncate, err) < 0 ||
        fields_bool(body, "return_tokens", &job->return_tokens, err) < 0 ||
        check_fields(&rows, err) < 0)
        return -1;

    const size_t count = rows.ids.json ? rows.ids.count : rows.texts.count;
    job->request = request_create(kind, count);
    if (!job->request)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu rows", count);
    for (size_t i = 0; i < count; i++)
        if (decode_row(&rows, i, err) < 0)
            return -1;
    return 0;
}
