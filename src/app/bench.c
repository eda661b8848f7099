#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "app/commands.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"

/* Rows of one request; what is measured is the engine and not its refusals. */
enum { ROWS_MAX = 10000000 };

static int set_integer(struct options *options, const char *name, int64_t integer,
                       const struct option_limits *allowed, struct error *err)
{
    const struct value value = { .kind = VALUE_INT, .integer = integer };
    return options_set(options, name, &value, allowed, "", err);
}

/* The folder's defaults, but exactly so many tokens, found by beams or greedily. */
static int set_options(const struct bench *bench, const struct bench_job *job,
                       struct options *options, struct error *err)
{
    const struct option_limits allowed =
        registry_option_limits(&bench->served->model->config, &bench->config.limits);
    const struct value no = { .kind = VALUE_BOOL }, none = { .kind = VALUE_NULL };
    options_copy(options, &bench->served->defaults);
    if (set_integer(options, "num_beams", (int64_t)job->beams, &allowed, err) < 0 ||
        set_integer(options, "num_return_sequences", 1, &allowed, err) < 0 ||
        set_integer(options, "max_new_tokens", (int64_t)job->new_tokens, &allowed, err) < 0 ||
        set_integer(options, "min_new_tokens", (int64_t)job->new_tokens, &allowed, err) < 0 ||
        options_set(options, "do_sample", &no, &allowed, "", err) < 0 ||
        options_set(options, "forced_eos_token_id", &none, &allowed, "", err) < 0)
        return -1;
    options->no_logprob = !job->logprobs;
    if (options->start_id < 0)
        return error_set(err, ERR_MISSING_FIELD, "this model names no decoder start");
    return options_resolve(options, &allowed, 1, "", err);
}

size_t bench_source_max(const struct bench *bench)
{
    const size_t positions = bench->served->model->config.positions_max;
    const size_t allowed = bench->config.limits.source_tokens;
    return positions < allowed ? positions : allowed;
}

/* Every token is real. */
static int fill_row(const struct bench *bench, struct row *row, const struct bench_row *source,
                    struct error *err)
{
    const size_t count = source->count, most = bench_source_max(bench);
    if (count > most)
        return error_set(err, ERR_TOO_LONG, "row %zu has %zu tokens; model and limits let in %zu",
                         row->index, count, most);
    row->tokens = mem_copy(source->tokens, count, sizeof *row->tokens);
    row->sent_ids = mem_copy(source->tokens, count, sizeof *row->sent_ids);
    row->places = mem_alloc(count, sizeof *row->places);
    row->positions = mem_alloc(count, sizeof *row->positions);
    if (!row->tokens || !row->sent_ids || !row->places || !row->positions)
        return error_set(err, ERR_NO_MEMORY, "no memory for %zu tokens", count);
    row->token_count = row->sent_count = count;
    for (size_t i = 0; i < count; i++)
        row->places[i] = (int32_t)i;
    config_positions(&bench->served->model->config, row->sent_ids, count, row->positions);
    return 0;
}

static int fill_target(struct row *row, const struct options *options, struct error *err)
{
    options_copy(&row->options, options);
    row->prefix = mem_copy(&options->start_id, 1, sizeof *row->prefix);
    row->prefix_count = 1;
    return row->prefix ? 0 : error_set(err, ERR_NO_MEMORY, "no memory for a row");
}

static void tell_done(struct request *request, void *context)
{
    (void)request;
    sem_post(&((struct bench *)context)->done);
}

static struct request *make_request(struct bench *bench, const struct bench_job *job,
                                    struct error *err)
{
    const enum request_kind kind = job->generates ? REQUEST_GENERATE : REQUEST_ENCODE;
    struct options options = { 0 };
    struct request *request = request_create(kind, job->row_count);
    int rc = request ? 0 : error_set(err, ERR_NO_MEMORY, "no memory for %zu rows", job->row_count);
    if (rc == 0 && job->generates)
        rc = set_options(bench, job, &options, err);
    for (size_t i = 0; rc == 0 && i < job->row_count; i++) {
        rc = fill_row(bench, &request->rows[i], &job->rows[i], err);
        if (rc == 0 && job->generates)
            rc = fill_target(&request->rows[i], &options, err);
    }
    options_clear(&options);
    if (rc < 0) {
        request_destroy(&request);
        return NULL;
    }
    request->pooling = POOLING_NONE;
    request->deadline_ns = UINT64_MAX;
    request->received_ns = clock_ns();
    request->done = tell_done;
    request->context = bench;
    return request;
}

static double cpu_seconds(void)
{
    struct timespec t = { 0 };
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run_once(struct bench *bench, struct request *request, struct bench_result *sum,
                    struct error *err)
{
    const double cpu = cpu_seconds();
    const uint64_t start = clock_ns();
    if (engine_submit(bench->served->engine, request, err) < 0)
        return -1;
    while (sem_wait(&bench->done) != 0 && errno == EINTR)
        ;
    sum->seconds += (double)(clock_ns() - start) / (double)NS_PER_S;
    sum->cpu_seconds += cpu_seconds() - cpu;
    if (request->error.code != ERR_NONE)
        return error_set(err, request->error.code, "%s", request->error.message);
    return 0;
}

int bench_measure(struct bench *bench, const struct bench_job *job, struct bench_result *result,
                  struct error *err)
{
    *result = (struct bench_result){ 0 };
    if (job->generates && !config_generates(&bench->served->model->config))
        return error_set(err, ERR_UNSUPPORTED, "this model only encodes");
    for (size_t i = 0; i < job->repeat; i++) {
        request_destroy(&result->request);
        result->request = make_request(bench, job, err);
        if (!result->request || run_once(bench, result->request, result, err) < 0) {
            request_destroy(&result->request);
            return -1;
        }
    }
    result->seconds /= (double)job->repeat;
    result->cpu_seconds /= (double)job->repeat;
    for (size_t i = 0; i < job->row_count; i++)
        result->tokens += job->generates ? job->new_tokens : job->rows[i].count;
    return 0;
}

int bench_print(struct buffer *line, struct error *err)
{
    buffer_append(line, "\n", 1);
    if (line->state != BUFFER_OK)
        return error_set(err, ERR_NO_MEMORY, "no memory for an answer");
    if (fwrite(line->data, 1, line->length, stdout) != line->length || fflush(stdout) != 0)
        return error_set(err, ERR_IO, "stdout: %s", strerror(errno));
    return 0;
}

static int open_bench(struct bench *bench, const struct configuration *config, uint64_t started_ns,
                      struct error *err)
{
    *bench = (struct bench){ .config = *config };
    bench->config.limits.sequences = bench->config.limits.queue_sequences = ROWS_MAX;
    sem_init(&bench->done, 0, 0);
    if (config->model_count != 1)
        return error_set(err, ERR_CONFIG, "bench measures one model: give one --model DIR");
    bench->metrics = metrics_create();
    if (!bench->metrics)
        return error_set(err, ERR_NO_MEMORY, "no memory for metrics");
    struct serving *serving = &bench->serving;
    const struct crew crew = serving_crew(config, cpu_budget_cores());
    if (serving_open(serving, &bench->config, crew, bench->metrics, err) < 0 ||
        workers_start(&bench->workers, serving->engines, serving->registry.count, crew,
                      serving->wakeup, bench->metrics, err) < 0)
        return -1;
    bench->served = &serving->registry.models[0];
    bench->ready_seconds = (double)(clock_ns() - started_ns) / (double)NS_PER_S;
    return 0;
}

static void close_bench(struct bench *bench)
{
    workers_stop(&bench->workers);
    serving_close(&bench->serving);
    metrics_destroy(bench->metrics);
    sem_destroy(&bench->done);
}

int command_bench(const struct configuration *config, uint64_t started_ns, struct error *err)
{
    struct bench bench;
    int rc = open_bench(&bench, config, started_ns, err);
    if (rc == 0)
        rc = config->bench_pipe ? bench_pipe(&bench, err) : bench_workloads(&bench, err);
    close_bench(&bench);
    return rc;
}
