#include "answer.h"

#include "answer_parts.h"

struct answer_usage answer_usage(const struct request *request)
{
    struct answer_usage usage = { 0 };
    for (size_t i = 0; i < request->row_count; i++) {
        const struct row *row = &request->rows[i];
        usage.prompt_tokens += row->token_count;
        usage.output_tokens += row->target_count;
        const struct search *search = row->answer.search;
        if (!search || !search_done(search)) /* of a request that failed */
            continue;
        for (size_t k = 0; k < search_sequence_count(search); k++)
            usage.output_tokens += search_sequence(search, k).count;
    }
    return usage;
}

static void write_usage(struct writer *writer, const struct request *request)
{
    const struct answer_usage usage = answer_usage(request);
    writer_key(writer, "usage");
    writer_begin(writer, '{');
    writer_key(writer, "prompt_tokens");
    writer_integer(writer, (int64_t)usage.prompt_tokens);
    if (request->kind != REQUEST_ENCODE) {
        writer_key(writer, request->kind == REQUEST_SCORE ? "target_tokens" : "completion_tokens");
        writer_integer(writer, (int64_t)usage.output_tokens);
    }
    writer_key(writer, "total_tokens");
    writer_integer(writer, (int64_t)(usage.prompt_tokens + usage.output_tokens));
    writer_end(writer, '}');
}

static uint64_t span(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns > from_ns ? to_ns - from_ns : 0;
}

static uint64_t longest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct answer_timing answer_timing(const struct request *request)
{
    struct answer_timing timing = { 0 };
    for (size_t i = 0; i < request->row_count; i++) {
        const struct row *row = &request->rows[i];
        timing.queue_ns = longest(timing.queue_ns, span(request->queued_ns, row->taken_ns));
        timing.encode_ns = longest(timing.encode_ns, span(row->taken_ns, row->encoded_ns));
        timing.decode_ns = longest(timing.decode_ns, span(row->encoded_ns, row->ended_ns));
    }
    return timing;
}

static void write_timing(struct writer *writer, const struct request *request)
{
    const struct answer_timing timing = answer_timing(request);
    writer_key(writer, "timing");
    writer_begin(writer, '{');
    writer_key(writer, "queue_ms");
    writer_ms(writer, timing.queue_ns);
    writer_key(writer, "encode_ms");
    writer_ms(writer, timing.encode_ns);
    writer_key(writer, "decode_ms");
    writer_ms(writer, timing.decode_ns);
    writer_end(writer, '}');
}

void answer_row_extras(struct writer *writer, const struct job *job, size_t index)
{
    if (job->request->rows[index].truncated) {
        writer_key(writer, "truncated");
        writer_bool(writer, true);
    }
    if (job->return_tokens) {
        writer_key(writer, "token_ids");
        writer_ids(writer, job->request->rows[index].sent_ids,
                   job->request->rows[index].sent_count);
    }
}

void answer_attentions(struct writer *writer, const char *name, const float *values, size_t layers,
                       size_t heads, size_t queries, size_t keys)
{
    writer_key(writer, name);
    if (values)
        writer_tensor(writer, values, (size_t[]){ layers, heads, queries, keys }, 4);
    else
        writer_null(writer);
}

void answer_candidates(struct writer *writer, const struct token_logprob *candidates, size_t places,
                       size_t count)
{
    writer_key(writer, "top_logprobs");
    writer_begin(writer, '[');
    for (size_t place = 0; place < places; place++) {
        writer_begin(writer, '[');
        for (size_t i = 0; i < count; i++) {
            const struct token_logprob *candidate = &candidates[place * count + i];
            if (candidate->id < 0)
                continue;
            writer_begin(writer, '{');
            writer_key(writer, "id");
            writer_integer(writer, candidate->id);
            writer_key(writer, "logprob");
            writer_float(writer, candidate->logprob);
            writer_end(writer, '}');
        }
        writer_end(writer, ']');
    }
    writer_end(writer, ']');
}

static int write_rows(struct writer *writer, const struct job *job)
{
    switch (job->request->kind) {
    case REQUEST_ENCODE:
        answer_encode_rows(writer, job);
        return 0;
    case REQUEST_GENERATE:
        return answer_generate_rows(writer, job);
    case REQUEST_SCORE:
        answer_score_rows(writer, job);
        return 0;
    }
    return 0;
}

int answer_write(struct buffer *out, const struct job *job, struct error *err)
{
    static const char *const objects[] = {
        [REQUEST_ENCODE] = "list",
        [REQUEST_GENERATE] = "generation",
        [REQUEST_SCORE] = "score",
    };
    struct writer writer = { .out = out };
    writer_begin(&writer, '{');
    writer_key(&writer, "object");
    writer_text(&writer, objects[job->request->kind]);
    writer_key(&writer, "model");
    writer_text(&writer, job->served->name);
    const int rc = write_rows(&writer, job);
    write_usage(&writer, job->request);
    if (job->request->kind == REQUEST_GENERATE)
        write_timing(&writer, job->request);
    writer_end(&writer, '}');

    if (writer.nonfinite)
        return error_set(err, ERR_NONFINITE, "the model's output holds a value that is no number");
    if (out->state == BUFFER_OVER_LIMIT)
        return error_set(
            err, ERR_OVER_LIMIT,
            "the answer is longer than was foreseen, %zu bytes (limits.response_bytes)",
            out->limit);
    if (rc < 0 || out->state == BUFFER_NO_MEMORY)
        return error_set(err, ERR_NO_MEMORY, "no memory for the answer");
    return 0;
}
