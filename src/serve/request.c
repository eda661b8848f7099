#include "serve/request.h"

#include <assert.h>

#include "base/mem.h"

#define TO(state) (1u << (state))

static const unsigned allowed[REQUEST_STATE_COUNT] = {
    [REQUEST_PARSED] = TO(REQUEST_QUEUED) | TO(REQUEST_REFUSED),
    [REQUEST_QUEUED] = TO(REQUEST_RUNNING) | TO(REQUEST_DONE),
    [REQUEST_RUNNING] = TO(REQUEST_DONE),
};

struct request *request_create(enum request_kind kind, size_t row_count)
{
    struct request *request = mem_alloc(1, sizeof *request);
    struct row *rows = mem_alloc(row_count, sizeof *rows);
    if (!request || !rows) {
        mem_free(request);
        mem_free(rows);
        return NULL;
    }
    request->kind = kind;
    request->rows = rows;
    request->row_count = row_count;
    for (size_t i = 0; i < row_count; i++) {
        rows[i].request = request;
        rows[i].index = i;
    }
    atomic_init(&request->state, REQUEST_PARSED);
    atomic_init(&request->cancelled, ERR_NONE);
    atomic_init(&request->rows_left, row_count);
    atomic_init(&request->failed, false);
    atomic_init(&request->notice, NULL);
    return request;
}

static void row_free(struct row *row)
{
    struct row_answer *answer = &row->answer;
    if (answer->sequence_attentions) {
        for (size_t i = 0; i < search_sequence_count(answer->search); i++)
            mem_free(answer->sequence_attentions[i]);
        mem_free(answer->sequence_attentions);
    }
    search_destroy(&answer->search);
    mem_free(answer->embedding);
    mem_free(answer->encoder_attentions);
    mem_free(answer->token_logprobs);
    mem_free(answer->top_logprobs);
    mem_free(answer->decoder_attentions);
    mem_free(answer->cross_attentions);
    mem_free(row->tokens);
    mem_free(row->places);
    mem_free(row->sent_ids);
    mem_free(row->positions);
    mem_free(row->prefix);
    mem_free(row->targets);
    options_clear(&row->options);
}

void request_destroy(struct request **request)
{
    struct request *r = *request;
    *request = NULL;
    if (!r)
        return;
    const enum request_state state = r->state;
    assert(state != REQUEST_QUEUED && state != REQUEST_RUNNING);
    for (size_t i = 0; i < r->row_count; i++)
        row_free(&r->rows[i]);
    mem_free(r->rows);
    mem_free(r);
}

void request_move(struct request *request, enum request_state state)
{
    const enum request_state before = atomic_exchange(&request->state, state);
    assert(allowed[before] & TO(state));
}

static void give_notice(struct request *request)
{
    atomic_bool *notice = request->notice;
    if (notice)
        *notice = true;
}

void request_cancel(struct request *request, enum error_code reason)
{
    enum error_code none = ERR_NONE;
    if (atomic_compare_exchange_strong(&request->cancelled, &none, reason))
        give_notice(request);
}

void request_fail(struct request *request, const struct error *error)
{
    bool before = false;
    if (atomic_compare_exchange_strong(&request->failed, &before, true))
        request->error = *error; /* read when every row has ended: rows_left orders the two */
    give_notice(request);
}

bool request_is_off(const struct request *request)
{
    return atomic_load(&request->cancelled) != ERR_NONE || atomic_load(&request->failed);
}
