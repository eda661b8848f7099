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
    lane->task_max = config->batch_sequences + config->batch_tokens;
    if (open_memory(lane, engine, err) < 0)
        return -1;
    lane->encoding = mem_alloc(config->batch_tokens, sizeof *lane->encoding);
    lane->sources = mem_alloc(config->batch_tokens, sizeof *lane->sources);
    lane->caches = mem_alloc(config->batch_tokens, sizeof *lane->caches);
    lane->decoding = mem_alloc(config->batch_sequences, sizeof *lane->decoding);
    lane->pieces = mem_alloc(config->batch_sequences, sizeof *lane->pieces);
    lane->segments = mem_alloc(engine->memory.step_tokens, sizeof *lane->segments);
    lane->tasks = mem_alloc(lane->task_max, sizeof *lane->tasks);
    lane->free_tasks = mem_alloc(lane->task_max, sizeof *lane->free_tasks);
    lane->identity = mem_alloc(engine->memory.target_max, sizeof *lane->identity);
    if (!lane->encoding || !lane->sources || !lane->caches || !lane->decoding || !lane->pieces ||
        !lane->segments || !lane->tasks || !lane->free_tasks || !lane->identity)
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
static void insert_encoding(struct lane *lane, struct task *task)
{
    size_t place = lane->encoding_count++;
    if (task->row->width > 0) {
        lane->encoding[place] = lane->encoding[lane->decoded_count];
        place = lane->decoded_count++;
        lane->decoded_tokens += task->row->token_count;
    }
    lane->encoding[place] = task;
    lane->encoding_tokens += task->row->token_count;
}

void lane_admit(struct lane *lane)
{
    struct engine *engine = lane->engine;
    const struct engine_config *config = &engine->config;
    if (lane->encoding_count > 0)
        return; /* a pass is under way: its rows come first */
    /* A share of what waits, so that idle workers find something too. */
    size_t share = (queue_waiting(&engine->queue) + config->workers - 1) / config->workers;
    for (; share > 0 && lane->encoding_count < config->batch_tokens; share--) {
        const struct room room = { .tokens = config->batch_tokens - lane->encoding_tokens,
                                   .width = config->batch_sequences - lane->width_used,
                                   .key_values = kv_pool_largest(&lane->pool) };
        struct row *row = queue_take(&engine->queue, &room);
        if (!row)
            break;
        insert_encoding(lane, admit_row(lane, row));
    }
    for (size_t i = 0; i < lane->encoding_count; i++) {
        const struct row *row = lane->encoding[i]->row;
        lane->sources[i] = (struct source_row){ .tokens = row->tokens,
                                                .places = row->places,
                                                .positions = row->positions,
                                                .count = row->token_count,
                                                .sent_count = row->sent_count,
                                                .attentions = row->answer.encoder_attentions };
        lane->caches[i] = &lane->encoding[i]->key_values;
    }
    if (lane->encoding_count > 0) {
        histogram_observe(engine->metrics.batch_sequences[PHASE_ENCODE],
                          (double)lane->encoding_count);
        histogram_observe(engine->metrics.batch_tokens[PHASE_ENCODE],
                          (double)lane->encoding_tokens);
    }
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
    engine_give_up_row(lane->engine, release(lane, task));
}

void lane_fail(struct lane *lane, struct task *task, const struct error *error)
{
    if (error->code == ERR_NONFINITE)
        counter_add(lane->engine->metrics.nonfinite_outputs, 1.0);
    request_fail(task->row->request, error);
}

/* An encoder pass is dropped row by row only at its end (lane_encode), since its rows are packed;
 * a pass none of whose requests is wanted any more ends here. */
static bool drop_encoding(struct lane *lane)
{
    for (size_t i = 0; i < lane->encoding_count; i++)
        if (!request_is_off(lane->encoding[i]->row->request))
            return false;
    const size_t count = lane->encoding_count;
    for (size_t i = 0; i < count; i++)
        lane_give_up_task(lane, lane->encoding[i]);
    lane_forget_pass(lane);
    return count > 0;
}

bool lane_drop_off(struct lane *lane)
{
    bool dropped = drop_encoding(lane);
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
