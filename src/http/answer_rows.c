#include "answer_parts.h"

#include "base/mem.h"

static void write_embedding(struct writer *writer, const struct job *job, const struct row *row)
{
    const size_t width = pooling_dim(job->served->model, job->request->pooling);
    const bool states = job->request->pooling == POOLING_NONE;
    const size_t shape[] = { row->sent_count, width };
    writer_key(writer, "embedding");
    if (!job->base64) {
        writer_tensor(writer, row->answer.embedding, states ? shape : shape + 1, states ? 2 : 1);
        return;
    }
    writer_base64(writer, row->answer.embedding, states ? shape[0] * width : width);
    writer_key(writer, "shape");
    writer_begin(writer, '[');
    if (states)
        writer_integer(writer, (int64_t)row->sent_count);
    writer_integer(writer, (int64_t)width);
    writer_end(writer, ']');
}

void answer_encode_rows(struct writer *writer, const struct job *job)
{
    const struct model_config *config = &job->served->model->config;
    writer_key(writer, "dim");
    writer_integer(writer, (int64_t)pooling_dim(job->served->model, job->request->pooling));
    writer_key(writer, "data");
    writer_begin(writer, '[');
    for (size_t i = 0; i < job->request->row_count; i++) {
        const struct row *row = &job->request->rows[i];
        writer_begin(writer, '{');
        writer_key(writer, "index");
        writer_integer(writer, (int64_t)i);
        writer_key(writer, "tokens");
        writer_integer(writer, (int64_t)row->token_count);
        write_embedding(writer, job, row);
        answer_attentions(writer, "attentions", row->answer.encoder_attentions,
                          config->encoder.layers, config->encoder.heads, row->sent_count,
                          row->sent_count);
        answer_row_extras(writer, job, i);
        writer_end(writer, '}');
    }
    writer_end(writer, ']');
}

static int write_text(struct writer *writer, const struct tokenizer *tokenizer,
                      const struct sequence *sequence, bool skip_special)
{
    char *text = NULL;
    if (tokenizer) {
        text = tokenizer_decode(tokenizer, sequence->tokens, sequence->count, skip_special);
        if (!text)
            return -1;
    }
    writer_key(writer, "text");
    writer_text(writer, text);
    mem_free(text);
    return 0;
}

static void write_logprobs(struct writer *writer, const struct sequence *sequence,
                           const struct options *options)
{
    writer_key(writer, "logprob");
    if (options->no_logprob)
        writer_null(writer);
    else
        writer_float(writer, sequence->logprob);
    writer_key(writer, "finish_reason");
    writer_text(writer, finish_reason_name(sequence->finish_reason));
    writer_key(writer, "token_logprobs");
    if (sequence->token_logprobs)
        writer_floats(writer, sequence->token_logprobs, sequence->count);
    else
        writer_null(writer);
    if (sequence->top_logprobs)
        answer_candidates(writer, sequence->top_logprobs, sequence->count, options->top_logprobs);
}

static int write_sequence(struct writer *writer, const struct job *job, const struct row *row,
                          size_t index)
{
    const struct model_config *config = &job->served->model->config;
    const struct sequence sequence = search_sequence(row->answer.search, index);
    writer_begin(writer, '{');
    writer_key(writer, "token_ids");
    writer_ids(writer, sequence.tokens, sequence.count);
    const int rc =
        write_text(writer, job->served->tokenizer, &sequence, row->options.skip_special_tokens);
    writer_key(writer, "score");
    if (row->options.num_beams > 1)
        writer_float(writer, sequence.score);
    else
        writer_null(writer);
    write_logprobs(writer, &sequence, &row->options);
    answer_attentions(writer, "cross_attentions",
                      row->answer.sequence_attentions ? row->answer.sequence_attentions[index]
                                                      : NULL,
                      config->decoder.layers, config->decoder.heads,
                      row->prefix_count + sequence.count - 1, row->sent_count);
    writer_end(writer, '}');
    return rc;
}

int answer_generate_rows(struct writer *writer, const struct job *job)
{
    int rc = 0;
    writer_key(writer, "outputs");
    writer_begin(writer, '[');
    for (size_t i = 0; i < job->request->row_count; i++) {
        const struct row *row = &job->request->rows[i];
        const struct search *search = row->answer.search;
        writer_begin(writer, '{');
        writer_key(writer, "index");
        writer_integer(writer, (int64_t)i);
        if (row->options.do_sample) {
            writer_key(writer, "seed");
            writer_integer(writer, (int64_t)row->options.seed);
        }
        writer_key(writer, "sequences");
        writer_begin(writer, '[');
        /* A deadline with "partial" may come before the row was begun. */
        for (size_t k = 0; search && k < search_sequence_count(search); k++)
            if (write_sequence(writer, job, row, k) < 0)
                rc = -1;
        writer_end(writer, ']');
        answer_row_extras(writer, job, i);
        writer_end(writer, '}');
    }
    writer_end(writer, ']');
    return rc;
}

void answer_score_rows(struct writer *writer, const struct job *job)
{
    const struct model_config *config = &job->served->model->config;
    const size_t layers = config->decoder.layers, heads = config->decoder.heads;
    writer_key(writer, "outputs");
    writer_begin(writer, '[');
    for (size_t i = 0; i < job->request->row_count; i++) {
        const struct row *row = &job->request->rows[i];
        const size_t places = row->target_count;
        double sum = 0;
        for (size_t k = 0; k < places; k++)
            sum += (double)row->answer.token_logprobs[k];
        writer_begin(writer, '{');
        writer_key(writer, "index");
        writer_integer(writer, (int64_t)i);
        writer_key(writer, "token_logprobs");
        writer_floats(writer, row->answer.token_logprobs, places);
        writer_key(writer, "logprob");
        writer_float(writer, (float)sum);
        if (row->answer.top_logprobs)
            answer_candidates(writer, row->answer.top_logprobs, places, job->request->top_logprobs);
        answer_attentions(writer, "decoder_attentions", row->answer.decoder_attentions, layers,
                          heads, places, places);
        answer_attentions(writer, "cross_attentions", row->answer.cross_attentions, layers, heads,
                          places, row->sent_count);
        answer_row_extras(writer, job, i);
        writer_end(writer, '}');
    }
    writer_end(writer, ']');
}
