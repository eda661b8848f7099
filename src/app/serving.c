#include "app/serving.h"

#include <string.h>

#include "app/version.h"
#include "base/clock.h"
#include "base/mem.h"

/* More threads gain little at small batches, where pieces of work become too short. */
enum { THREADS_MAX = 8 };

static size_t divide(size_t cores, size_t by)
{
    return cores > by ? cores / by : 1;
}

struct crew serving_crew(const struct configuration *config, double budget_cores)
{
    const size_t cores = budget_cores < 1.0 ? 1 : (size_t)(budget_cores + 0.5);
    struct crew crew = { config->engine.workers, config->threads };
    if (!crew.threads)
        crew.threads = crew.workers          ? divide(cores, crew.workers)
                       : cores < THREADS_MAX ? cores
                                             : THREADS_MAX;
    if (!crew.workers)
        crew.workers = divide(cores, crew.threads);
    return crew;
}

static int open_kernels(struct serving *serving, const struct configuration *config,
                        struct error *err)
{
    if (kernels_init(&serving->kernels, config->isa, config->gemm, err) < 0 ||
        kernels_check(&serving->kernels, err) < 0)
        return -1;
    struct log_line line;
    log_begin(&line, LOG_INFO, "kernels");
    log_text(&line, "isa", serving->kernels.isa);
    log_text(&line, "gemm", serving->kernels.gemm_name);
    log_text(&line, "blas", blas_description());
    log_end(&line);
    return 0;
}

static void log_model(const struct served_model *served)
{
    const struct model *m = served->model;
    struct log_line line;
    log_begin(&line, LOG_INFO, "model loaded");
    log_text(&line, "model", served->name);
    log_text(&line, "folder", m->dir);
    log_text(&line, "family", m->config.family);
    log_text(&line, "dtype", dtype_name(m->dtype));
    log_integer(&line, "parameters", (int64_t)m->parameter_count);
    log_integer(&line, "mapped_bytes", (int64_t)m->mapped_bytes);
    log_integer(&line, "copied_bytes", (int64_t)m->copied_bytes);
    log_text(&line, "input", served->tokenizer ? "texts and token ids" : "token ids");
    log_end(&line);
}

static int open_model(struct serving *serving, struct served_model *served,
                      const struct model_entry *entry, const struct configuration *config,
                      struct metrics *metrics, struct error *err)
{
    served->name = mem_text(entry->name);
    served->aliases = entry->aliases;
    if (!served->name)
        return error_set(err, ERR_NO_MEMORY, "no memory for model %s", entry->name);
    if (model_open(&served->model, entry->path, entry->name, &serving->kernels, err) < 0)
        return -1;
    if (config->cache_dir[0])
        model_use_cache(&served->model, config->cache_dir, &serving->kernels);
    if (tokenizer_open(&served->tokenizer, entry->path, &served->model->config, err) < 0)
        return -1;
    if (registry_defaults(&served->defaults, served->model, &config->limits, err) < 0)
        return -1;
    struct engine_config engine = config->engine;
    engine.workers = serving->crew.workers;
    engine.threads = serving->crew.threads;
    if (engine_open(&served->engine, served->model, &serving->kernels, &engine, &config->limits,
                    metrics, serving->wakeup, serving->watcher, err) < 0)
        return -1;
    served->created_unix = (int64_t)clock_unix_seconds();
    log_model(served);
    return 0;
}

int serving_open(struct serving *serving, const struct configuration *config, struct crew crew,
                 struct metrics *metrics, struct error *err)
{
    *serving = (struct serving){ .crew = crew };
    if (open_kernels(serving, config, err) < 0)
        return -1;
    serving->wakeup = wakeup_create();
    serving->registry.models = mem_alloc(config->model_count, sizeof *serving->registry.models);
    serving->engines = mem_alloc(config->model_count, sizeof(struct engine *));
    if (!serving->wakeup || !serving->registry.models || !serving->engines)
        return error_set(err, ERR_NO_MEMORY, "no memory for the models");
    if (watcher_start(&serving->watcher, err) < 0)
        return -1;
    for (size_t i = 0; i < config->model_count; i++) {
        struct served_model *served = &serving->registry.models[serving->registry.count++];
        if (open_model(serving, served, &config->models[i], config, metrics, err) < 0)
            return -1;
        serving->engines[i] = served->engine;
    }
    return 0;
}

static void describe_build(const struct serving *serving, struct metrics *metrics)
{
    struct buffer labels;
    buffer_init(&labels, 1024);
    metrics_label(&labels, "version", version_number());
    metrics_label(&labels, "commit", version_commit());
    metrics_label(&labels, "blas", blas_description());
    metrics_label(&labels, "kernels", serving->kernels.isa);
    metrics_hide(metrics, "seqd_build_info", "version", version_number()); /* on other kernels */
    if (labels.state == BUFFER_OK)
        gauge_set(metrics_gauge(metrics, "seqd_build_info",
                                "Always 1; which build runs, and on which kernels.", labels.data),
                  1);
    buffer_free(&labels);
}

void serving_publish(const struct serving *serving, struct metrics *metrics)
{
    describe_build(serving, metrics);
    for (size_t i = 0; i < serving->registry.count; i++)
        engine_publish(serving->engines[i]);
}

void serving_close(struct serving *serving)
{
    for (size_t i = 0; i < serving->registry.count; i++) {
        struct served_model *served = &serving->registry.models[i];
        engine_close(&served->engine);
        options_clear(&served->defaults);
        tokenizer_close(&served->tokenizer);
        model_close(&served->model);
        mem_free(served->name);
    }
    mem_free(serving->registry.models);
    mem_free(serving->engines);
    watcher_stop(&serving->watcher);
    wakeup_destroy(&serving->wakeup);
    *serving = (struct serving){ 0 };
}

size_t serving_request_count(const struct serving *serving)
{
    size_t count = 0;
    for (size_t i = 0; i < serving->registry.count; i++)
        count += engine_request_count(serving->registry.models[i].engine);
    return count;
}
