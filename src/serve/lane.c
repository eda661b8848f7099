/* A lane's memory, and how rows come in and leave. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine_internal.h"

static int open_memory(struct lane *lane, const struct engine *engine, struct error *err)
{
    const struct lane_memory *memory = &engine->memory;
    if (arena_open(&lane->scratch, memory->scratch_bytes, err) < 0 ||
        arena_open(&lane->batch, lane_memory_batch_bytes(memory), err) < 0 ||
        kv_pool_open(&lane->pool, memory->cache_floats, lane->task_max, err) < 0)
        return -1;
    lane->hidden = arena_take(&lane->batch, memory->hidden_bytes, 1);
    lane->projected = arena_take(&lane->batch, memory->projected_bytes, 1);
    lane->states = arena_take(&lane->batch, memory->states_bytes, 1);
    lane->wanted = arena_take(&lane->batch, memory->states_bytes, 1);
    lane->logits = arena_take(&lane->batch, memory->logits_bytes, 1);
    return 0;
}

int lane_open(struct lane *lane, struct engine *engine, struct error *err)
{
    const struct engine_config *config = &engine->config;
    *lane = (struct lane){ .engine = engine };
    /* A row that is decoded has at least one hypothesis, one that is encoded at least one token. */
    const size_t places = engine->memory.token_places;
    lane->task_max = config->batch_sequences + places;
    if (open_memory(lane, engine, err) < 0)
        return -1;
    lane->encoding = mem_alloc(places, sizeof *lane->encoding);
    lane->sources = mem_alloc(places, sizeof *lane->sources);
    lane->caches = mem_alloc(places, sizeof *lane->caches);
    lane->decoding = mem_alloc(config->batch_sequences, sizeof *lane->decoding);
    lane->pieces = mem_alloc(config->batch_sequences, sizeof *lane->pieces);
    lane->needed = mem_alloc(engine->memory.step_tokens, sizeof *lane->needed);
    lane->segments = mem_alloc(engine->memory.step_tokens, sizeof *lane->segments);
    lane->tasks = mem_alloc(lane->task_max, sizeof *lane->tasks);
    lane->free_tasks = mem_alloc(lane->task_max, sizeof *lane->free_tasks);
    lane->identity = mem_alloc(engine->memory.target_max, sizeof *lane->identity);
    if (!lane->encoding || !lane->sources || !lane->caches || !lane->decoding || !lane->pieces ||
        !lane->segments || !lane->needed || !lane->tasks || !lane->free_tasks || !lane->identity)
        return error_set(err, ERR_NO_MEMORY, "a lane of %zu tasks", lane->task_max);
    for (size_t i = 0; i < lane->task_max; i++)
        lane->free_tasks[lane->free_count++] = &lane->tasks[i];
    for (size_t i = 0; i < engine->memory.target_max; i++)
        lane->identity[i] = (int32_t)i;
    return 0;
}

void lane_close(struct lane *lane)
{
    mem_free(lane->encoding);
    mem_free(lane->sources);
    mem_free(lane->caches);
    mem_free(lane->decoding);
    mem_free(lane->pieces);
    mem_free(lane->segments);
    mem_free(lane->needed);
    mem_free(lane->tasks);
    mem_free(lane->free_tasks);
    mem_free(lane->identity);
    kv_pool_close(&lane->pool);
    arena_close(&lane->batch);
    arena_close(&lane->scratch);
    *lane = (struct lane){ 0 };
}

/* The gauges are sums over lanes: each lane adds its changes. */
static void count_active(struct lane *lane, const struct row *row, double sign)
{
    gauge_add(lane->engine->metrics.active_sequences, sign * (double)(row->width ? row->width : 1));
    gauge_add(lane->engine->metrics.kv_cache_bytes,
              sign * (double)(row->key_values * sizeof(float)));
}

static struct task *admit_row(struct lane *lane, struct row *row)
{
    assert(lane->free_count > 0);
    struct task *task = lane->free_tasks[--lane->free_count];
    *task = (struct task){ .row = row };
    row->taken_ns = clock_ns();
    histogram_observe(lane->engine->metrics.queue_wait,
                      (double)(row->taken_ns - row->request->queued_ns) / 1e9);
    lane->width_used += row->width;
    if (row->key_values > 0) {
        float *base = kv_pool_take(&lane->pool, row->key_values);
        task->key_values = (struct key_values){ base, row->token_count, row->slots };
        if (row->request->kind == REQUEST_GENERATE && row->options.output_attentions)
            task->review = (int32_t *)(void *)(base + row->key_values - row->options.max_length);
    }
    count_active(lane, row, 1.0);
    return task;
}

/* Rows to be decoded go before rows that are only encoded, so that the former's states lie
 * together. */
static void insert_encoding(struct lane *lane, struct encode_pass *pass, struct task *task)
{
    struct task **tasks = lane->encoding + pass->offset;
    size_t place = pass->row_count++;
    if (task->row->width > 0) {
        tasks[place] = tasks[pass->decoded_count];
        place = pass->decoded_count++;
        pass->decoded_tokens += task->row->token_count;
    }
    tasks[place] = task;
    pass->encoding.M += task->row->token_count;
}

/* The largest run of the lane's token places that no pass has; returns its length, or as much of it
 * as one pass may take. */
static size_t find_gap(const struct lane *lane, size_t *first)
{
    const size_t all = lane->engine->memory.token_places;
    const size_t most = lane->engine->config.batch_tokens;
    size_t longest = 0, begin = 0;
    while (begin < all) {
        size_t end = all, after = all;
        for (size_t i = 0; i < ENCODE_PASSES; i++) {
            const struct encode_pass *pass = &lane->passes[i];
            if (pass->row_count > 0 && pass->offset >= begin && pass->offset < end) {
                end = pass->offset;
                after = pass->offset + pass->encoding.M;
            }
        }
        if (end - begin > longest) {
            longest = end - begin;
            *first = begin;
        }
        begin = after;
    }
    return longest < most ? longest : most;
}

static void start_pass(struct lane *lane, struct encode_pass *pass)
{
    const struct model_config *c = &lane->engine->model->config;
    const size_t first = pass->offset;
    pass->encoding.rows = lane->sources + first;
    pass->encoding.row_count = pass->row_count;
    pass->encoding.x = lane->hidden + first * c->width;
    encoding_place(&pass->encoding, c, lane->projected + encoding_floats(c, first));
    for (size_t i = 0; i < pass->row_count; i++) {
        const struct row *row = lane->encoding[first + i]->row;
        lane->sources[first + i] =
            (struct source_row){ .tokens = row->tokens,
                                 .places = row->places,
                                 .positions = row->positions,
                                 .count = row->token_count,
                                 .sent_count = row->sent_count,
                                 .attentions = row->answer.encoder_attentions };
        lane->caches[first + i] = &lane->encoding[first + i]->key_values;
    }
    histogram_observe(lane->engine->metrics.batch_sequences[PHASE_ENCODE], (double)pass->row_count);
    histogram_observe(lane->engine->metrics.batch_tokens[PHASE_ENCODE], (double)pass->encoding.M);
}

/* NULL: there is none. */
static struct encode_pass *free_pass(struct lane *lane, bool *last)
{
    struct encode_pass *pass = NULL;
    *last = true;
    for (size_t i = 0; i < ENCODE_PASSES; i++) {
        if (lane->passes[i].row_count > 0)
            continue;
        *last = pass == NULL;
        pass = &lane->passes[i];
    }
    return pass;
}

/* Tokens that the next row may have.  A long row has a pass to itself, which others would have to
 * see to its end, and leaves the last one to short rows. */
static size_t tokens_room(const struct encode_pass *pass, size_t gap, bool last)
{
    const size_t room = gap - pass->encoding.M;
    if (pass->encoding.M > BESIDE_TOKENS && pass->row_count == 1)
        return 0;
    return (last || pass->row_count > 0) && room > BESIDE_TOKENS ? BESIDE_TOKENS : room;
}

/* Fills a pass with up to *share rows, which it takes from it.  False: there was none, no room or
 * no free pass. */
static bool admit_pass(struct lane *lane, size_t *share)
{
    struct engine *engine = lane->engine;
    const struct engine_config *config = &engine->config;
    bool last;
    struct encode_pass *pass = free_pass(lane, &last);
    size_t offset = 0;
    const size_t gap = find_gap(lane, &offset);
    if (!pass || gap == 0)
        return false;
    *pass =
        (struct encode_pass){ .offset = offset, .products = { ENCODE_PRODUCTS, ENCODE_PRODUCTS } };
    for (; *share > 0 && pass->row_count < gap; --*share) {
        const size_t width =
            lane->width_used < BATCH_ENOUGH ? config->batch_sequences - lane->width_used : 0;
        const struct room room = { .tokens = tokens_room(pass, gap, last),
                                   .width = width,
                                   .key_values = kv_pool_largest(&lane->pool) };
        struct row *row = queue_take(&engine->queue, &room);
        if (!row)
            break;
        insert_encoding(lane, pass, admit_row(lane, row));
    }
    if (pass->row_count > 0)
        start_pass(lane, pass);
    return pass->row_count > 0;
}

void lane_admit(struct lane *lane)
{
    /* A share of what waits, so that idle workers find something too. */
    const size_t workers = lane->engine->config.workers;
    size_t share = (queue_waiting(&lane->engine->queue) + workers - 1) / workers;
    while (share > 0 && admit_pass(lane, &share))
        ;
}

/* Takes the task out of the lane; its row is the caller's to end. */
static struct row *release(struct lane *lane, struct task *task)
{
    struct row *row = task->row;
    for (size_t i = 0; i < lane->decoding_count; i++) {
        if (lane->decoding[i] == task) {
            lane->decoding_count--;
            memmove(&lane->decoding[i], &lane->decoding[i + 1],
                    (lane->decoding_count - i) * sizeof *lane->decoding);
            break;
        }
    }
    lane->width_used -= row->width;
    if (row->key_values > 0)
        kv_pool_give(&lane->pool, task->key_values.base, row->key_values);
    count_active(lane, row, -1.0);
    lane->free_tasks[lane->free_count++] = task;
    return row;
}

void lane_end_task(struct lane *lane, struct task *task)
{
    engine_end_row(lane->engine, release(lane, task));
}

void lane_give_up_task(struct lane *lane, struct task *task)
{
    if (task->phase == TASK_REVIEW) { /* weights that are not whole are none */
        float **weights = &task->row->answer.sequence_attentions[task->reviewed];
        mem_free(*weights);
        *weights = NULL;
    }
    engine_observe_late(lane->engine, task->row, lane->crowd);
    engine_give_up_row(lane->engine, release(lane, task));
}

void lane_fail(struct lane *lane, struct task *task, const struct error *error)
{
    if (error->code == ERR_NONFINITE)
        counter_add(lane->engine->metrics.nonfinite_outputs, 1.0);
    request_fail(task->row->request, error);
}

/* An encoder pass is dropped row by row only at its end (lane_encode), since its rows are packed; a
 * pass none of whose requests is wanted any more ends here. */
static bool drop_pass(struct lane *lane, struct encode_pass *pass)
{
    struct task **tasks = lane->encoding + pass->offset;
    for (size_t i = 0; i < pass->row_count; i++)
        if (!request_is_off(tasks[i]->row->request))
            return false;
    const size_t count = pass->row_count;
    for (size_t i = 0; i < count; i++)
        lane_give_up_task(lane, tasks[i]);
    pass->row_count = 0;
    return count > 0;
}

bool lane_drop_off(struct lane *lane)
{
    bool dropped = false;
    lane->crowd = lane->task_max - lane->free_count;
    for (size_t i = 0; i < ENCODE_PASSES; i++)
        dropped = drop_pass(lane, &lane->passes[i]) || dropped;
    struct row *row = queue_take_off(&lane->engine->queue);
    while (row) {
        struct row *next = row->next;
        engine_give_up_row(lane->engine, row);
        row = next;
        dropped = true;
    }
    for (size_t i = lane->decoding_count; i-- > 0;) {
        struct task *task = lane->decoding[i];
        if (request_is_off(task->row->request)) {
            lane_give_up_task(lane, task);
            dropped = true;
        }
    }
    return dropped;
}
