#include "http/bench_job.h"

#include "base/mem.h"
#include "fields.h"
#include "model/json.h"

enum { NEW_TOKENS = 64 };
static const int64_t COUNT_MAX = 1000000000;

static int read_count(const json_t *object, const char *name, size_t *count, struct error *err)
{
    int64_t value = (int64_t)*count;
    if (fields_integer(object, name, 1, COUNT_MAX, &value, err) < 0)
        return -1;
    *count = (size_t)value;
    return 0;
}

static int read_rows(struct bench_job *job, const json_t *object, size_t vocabulary,
                     struct error *err)
{
    struct row_field field;
    if (fields_id_rows(&field, object, "rows", err) < 0)
        return -1;
    if (field.count == 0)
        return error_at(err, ERR_MISSING_FIELD, "rows", "rows is needed, with at least one row");
    job->rows = mem_alloc(field.count, sizeof *job->rows);
    if (!job->rows)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu rows", field.count);
    for (; job->row_count < field.count; job->row_count++) {
        struct bench_row *row = &job->rows[job->row_count];
        if (json_array_size(fields_row(&field, job->row_count)) == 0)
            return error_at(err, ERR_EMPTY_ROW, "rows", "rows[%zu] is empty", job->row_count);
        if (fields_ids(&field, job->row_count, vocabulary, "source", &row->tokens, &row->count,
                       err) < 0)
            return -1;
    }
    return 0;
}

static int read_job(struct bench_job *job, json_t *object, size_t vocabulary, struct error *err)
{
    static const char *const known[] = { "kind",   "rows",        "new",      "beams",
                                         "repeat", "want_tokens", "logprobs", NULL };
    static const char *const none[] = { NULL }, *const kinds[] = { "encode", "generate", NULL };
    int kind = -1;
    if (!json_is_object(object))
        return error_set(err, ERR_WRONG_TYPE, "a job must be an object");
    if (fields_known(object, known, none, "", err) < 0 ||
        fields_choice(object, "kind", kinds, &kind, err) < 0)
        return -1;
    if (kind < 0)
        return error_at(err, ERR_MISSING_FIELD, "kind", "kind is needed: encode or generate");
    job->generates = kind == 1;
    if (read_count(object, "new", &job->new_tokens, err) < 0 ||
        read_count(object, "beams", &job->beams, err) < 0 ||
        read_count(object, "repeat", &job->repeat, err) < 0 ||
        fields_bool(object, "want_tokens", &job->want_tokens, err) < 0 ||
        fields_bool(object, "logprobs", &job->logprobs, err) < 0)
        return -1;
    return read_rows(job, object, vocabulary, err);
}

int bench_job_read(struct bench_job *job, const char *line, size_t length, size_t vocabulary,
                   struct error *err)
{
    *job =
        (struct bench_job){ .new_tokens = NEW_TOKENS, .beams = 1, .repeat = 1, .logprobs = true };
    json_t *object = json_parse(line, length, "the job", ERR_BAD_JSON, err);
    if (!object)
        return -1;
    const int rc = read_job(job, object, vocabulary, err);
    json_decref(object);
    return rc;
}

void bench_job_clear(struct bench_job *job)
{
    for (size_t i = 0; i < job->row_count; i++)
        mem_free(job->rows[i].tokens);
    mem_free(job->rows);
    *job = (struct bench_job){ 0 };
}
