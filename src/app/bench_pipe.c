/* Jobs as JSON lines on stdin, answers on stdout, for bench/. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "app/version.h"
#include "bench.h"
#include "http/writer.h"

enum { LINE_BYTES_MAX = 1 << 30 };

static void write_float(struct writer *writer, const char *name, double value)
{
    writer_key(writer, name);
    writer_float(writer, (float)value);
}

/* A line of /proc/self/status, in MiB; NaN: there is none. */
static double memory_mb(const char *field)
{
    char line[256];
    unsigned long long kib;
    double mb = NAN;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0 &&
            sscanf(line + strlen(field), ": %llu", &kib) == 1)
            mb = (double)kib / 1024.0;
    if (file)
        fclose(file);
    return mb;
}

static void write_memory(struct writer *writer, const char *name, const char *field)
{
    const double mb = memory_mb(field);
    if (!isnan(mb))
        write_float(writer, name, mb);
}

static void write_tokens(struct writer *writer, const struct request *request)
{
    writer_key(writer, "tokens");
    writer_begin(writer, '[');
    for (size_t i = 0; i < request->row_count; i++) {
        const struct sequence best = search_sequence(request->rows[i].answer.search, 0);
        writer_ids(writer, best.tokens, best.count);
    }
    writer_end(writer, ']');
}

static void write_result(struct writer *writer, const struct bench_job *job,
                         const struct bench_result *result)
{
    write_float(writer, "seconds", result->seconds);
    write_float(writer, "cpu_seconds", result->cpu_seconds);
    write_float(writer, "tokens_per_second", (double)result->tokens / result->seconds);
    write_memory(writer, "rss_mb", "VmRSS");
    write_memory(writer, "anonymous_mb", "RssAnon");
    if (job->want_tokens && job->generates)
        write_tokens(writer, result->request);
}

static void answer(struct bench *bench, const struct buffer *line, struct writer *writer)
{
    struct bench_job job;
    struct bench_result result = { 0 };
    struct error err = { 0 };
    const size_t vocabulary = bench->served->model->config.source_vocabulary;
    writer_begin(writer, '{');
    if (bench_job_read(&job, line->data, line->length, vocabulary, &err) < 0 ||
        bench_measure(bench, &job, &result, &err) < 0) {
        writer_key(writer, "error");
        writer_text(writer, err.message);
    } else {
        write_result(writer, &job, &result);
    }
    writer_end(writer, '}');
    request_destroy(&result.request);
    bench_job_clear(&job);
}

/* False: stdin has ended. */
static bool read_line(struct buffer *line)
{
    char piece[1 << 16];
    while (fgets(piece, sizeof piece, stdin)) {
        buffer_text(line, piece);
        if (strchr(piece, '\n'))
            return true;
    }
    return line->length > 0;
}

static int greet(const struct bench *bench, struct error *err)
{
    struct buffer out;
    buffer_init(&out, 4096);
    struct writer writer = { &out, false, false };
    writer_begin(&writer, '{');
    write_float(&writer, "ready_seconds", bench->ready_seconds);
    writer_key(&writer, "kernels");
    writer_text(&writer, bench->serving.kernels.isa);
    writer_key(&writer, "dtype");
    writer_text(&writer, dtype_name(bench->served->model->dtype));
    writer_key(&writer, "version");
    writer_text(&writer, version_number());
    writer_end(&writer, '}');
    const int rc = bench_print(&out, err);
    buffer_free(&out);
    return rc;
}

int bench_pipe(struct bench *bench, struct error *err)
{
    int rc = greet(bench, err);
    for (bool more = true; rc == 0 && more;) {
        struct buffer line, out;
        buffer_init(&line, LINE_BYTES_MAX);
        buffer_init(&out, LINE_BYTES_MAX);
        more = read_line(&line);
        if (line.state != BUFFER_OK) {
            rc = error_set(err, ERR_NO_MEMORY, "no memory for a job");
        } else if (line.length > 1) {
            struct writer writer = { &out, false, false };
            answer(bench, &line, &writer);
            rc = bench_print(&out, err);
        }
        buffer_free(&line);
        buffer_free(&out);
    }
    return rc;
}
