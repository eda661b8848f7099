/* Workloads for `seqd bench` alone: which tokens, and how they are timed. */
#include <stdlib.h>

#include "app/version.h"
#include "base/mem.h"
#include "bench.h"
#include "http/writer.h"

/* Repetitions are long enough for the clock and for a worker to warm up, and few. */
enum { NEW_TOKENS = 64, ROUNDS = 3, REPEAT_MAX = 1000, LINE_BYTES_MAX = 4096 };
static const double REPETITION_SECONDS = 0.2;

static const struct shape {
    const char *name;
    bool generates;
    size_t rows, shortest, longest, beams;
} shapes[] = {
    { "generate B=1", true, 1, 32, 32, 1 },         { "generate B=8", true, 8, 32, 32, 1 },
    { "generate B=32", true, 32, 32, 32, 1 },       { "generate 32 of 5..80", true, 32, 5, 80, 1 },
    { "generate B=1 beams 4", true, 1, 32, 32, 4 }, { "encode 32x32", false, 32, 32, 32, 1 },
    { "encode 8x128", false, 8, 128, 128, 1 },
};
enum { SHAPE_COUNT = sizeof shapes / sizeof *shapes };

struct workload {
    const struct shape *shape;
    const char *left_out; /* why; NULL: it runs */
    struct bench_job job;
    struct bench_result rounds[ROUNDS];
};

/* The same on every machine (xorshift64*). */
static size_t draw(uint64_t *state, size_t count)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (size_t)((*state * UINT64_C(2685821657736338717) >> 33) % count);
}

/* Neither padding nor an end nor a beginning, if the vocabulary has others. */
static int32_t draw_token(const struct model_config *config, uint64_t *state)
{
    enum { TRIES = 100 };
    int32_t token = 0;
    for (int i = 0; i < TRIES; i++) {
        token = (int32_t)draw(state, config->source_vocabulary);
        if (token != config->pad_id && token != config->eos_id && token != config->bos_id &&
            token != config->start_id)
            break;
    }
    return token;
}

static int fill_rows(struct bench_job *job, const struct shape *shape,
                     const struct model_config *config, struct error *err)
{
    uint64_t state = 1;
    job->rows = mem_alloc(shape->rows, sizeof *job->rows);
    if (!job->rows)
        return error_set(err, ERR_NO_MEMORY, "no memory for rows");
    for (; job->row_count < shape->rows; job->row_count++) {
        struct bench_row *row = &job->rows[job->row_count];
        row->count = shape->shortest + draw(&state, shape->longest - shape->shortest + 1);
        row->tokens = mem_alloc(row->count, sizeof *row->tokens);
        if (!row->tokens)
            return error_set(err, ERR_NO_MEMORY, "no memory for rows");
        for (size_t i = 0; i < row->count; i++)
            row->tokens[i] = draw_token(config, &state);
        if (shape->generates && config->eos_id >= 0)
            row->tokens[row->count - 1] = config->eos_id;
    }
    return 0;
}

/* Fills the job and finds out how often it is repeated. */
static int prepare(struct bench *bench, struct workload *workload, const struct shape *shape,
                   struct error *err)
{
    const struct model_config *config = &bench->served->model->config;
    struct bench_result once;
    *workload = (struct workload){ .shape = shape };
    if (shape->generates && !config_generates(config))
        workload->left_out = "the model only encodes";
    else if (shape->longest > bench_source_max(bench))
        workload->left_out = "its rows are longer than the model or the limits let in";
    if (workload->left_out)
        return 0;
    struct bench_job *job = &workload->job;
    const size_t most = config->positions_max - 1; /* the start takes one */
    *job = (struct bench_job){ .generates = shape->generates,
                               .new_tokens = NEW_TOKENS < most ? NEW_TOKENS : most,
                               .beams = shape->beams,
                               .repeat = 1,
                               .logprobs = true };
    if (fill_rows(job, shape, config, err) < 0 || bench_measure(bench, job, &once, err) < 0)
        return -1;
    request_destroy(&once.request);
    const double wanted = REPETITION_SECONDS / once.seconds;
    job->repeat = wanted < 1 ? 1 : wanted < REPEAT_MAX ? (size_t)wanted : REPEAT_MAX;
    return 0;
}

static int by_seconds(const void *a, const void *b)
{
    const struct bench_result *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

static void write_text(struct writer *writer, const char *name, const char *text)
{
    writer_key(writer, name);
    writer_text(writer, text);
}

static void write_count(struct writer *writer, const char *name, size_t count)
{
    writer_key(writer, name);
    writer_integer(writer, (int64_t)count);
}

static void write_float(struct writer *writer, const char *name, double value)
{
    writer_key(writer, name);
    writer_float(writer, (float)value);
}

/* The median round. */
static void write_figures(struct writer *writer, struct workload *workload)
{
    const struct bench_job *job = &workload->job;
    size_t source_tokens = 0;
    qsort(workload->rounds, ROUNDS, sizeof *workload->rounds, by_seconds);
    const struct bench_result *median = &workload->rounds[ROUNDS / 2];
    for (size_t i = 0; i < job->row_count; i++)
        source_tokens += job->rows[i].count;
    write_count(writer, "rows", job->row_count);
    write_count(writer, "source_tokens", source_tokens);
    if (job->generates) {
        write_count(writer, "new", job->new_tokens);
        write_count(writer, "beams", job->beams);
    }
    write_float(writer, "seconds", median->seconds);
    write_float(writer, "cpu_seconds", median->cpu_seconds);
    write_float(writer, "tokens_per_second", (double)median->tokens / median->seconds);
    if (job->generates)
        write_float(writer, "ms_per_step", 1e3 * median->seconds / (double)job->new_tokens);
}

static int print(const struct bench *bench, struct workload *workload, struct error *err)
{
    struct buffer out;
    buffer_init(&out, LINE_BYTES_MAX);
    struct writer writer = { &out, false, false };
    writer_begin(&writer, '{');
    write_text(&writer, "workload", workload->shape->name);
    if (workload->left_out)
        write_text(&writer, "left_out", workload->left_out);
    else
        write_figures(&writer, workload);
    write_text(&writer, "dtype", dtype_name(bench->served->model->dtype));
    write_text(&writer, "isa", bench->serving.kernels.isa);
    write_count(&writer, "workers", bench->serving.crew.workers);
    write_count(&writer, "threads", bench->serving.crew.threads);
    write_text(&writer, "version", version_number());
    writer_end(&writer, '}');
    const int rc = bench_print(&out, err);
    buffer_free(&out);
    return rc;
}

int bench_workloads(struct bench *bench, struct error *err)
{
    struct workload workloads[SHAPE_COUNT] = { 0 };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < SHAPE_COUNT; i++)
        rc = prepare(bench, &workloads[i], &shapes[i], err);
    for (size_t round = 0; rc == 0 && round < ROUNDS; round++)
        for (size_t i = 0; rc == 0 && i < SHAPE_COUNT; i++) {
            struct bench_result *result = &workloads[i].rounds[round];
            if (!workloads[i].left_out)
                rc = bench_measure(bench, &workloads[i].job, result, err);
            request_destroy(&result->request);
        }
    for (size_t i = 0; rc == 0 && i < SHAPE_COUNT; i++)
        rc = print(bench, &workloads[i], err);
    for (size_t i = 0; i < SHAPE_COUNT; i++)
        bench_job_clear(&workloads[i].job);
    return rc;
}
