#include "inspect.h"

#include <stdio.h>

#include "app/commands.h"
#include "app/serving.h"
#include "base/cpu.h"
#include "model/forward.h"

enum { OUTPUT_BYTES_MAX = 64 << 20 };

static void take_warning(void *context, const char *message)
{
    findings_add(context, FINDING_WARNING, NULL, message);
}

static void add_problem(struct inspection *in, const char *text)
{
    findings_add(&in->findings, FINDING_PROBLEM, NULL, text);
}

/* Each default alone, so that every one at fault is named. */
static bool examine_each_default(struct inspection *in)
{
    const struct settings *defaults = &in->model->defaults;
    const struct option_limits allowed =
        registry_folder_limits(&in->model->config, &in->config->limits);
    bool good = true;
    for (size_t i = 0; i < defaults->count; i++) {
        const struct settings one = { &defaults->items[i], 1 };
        struct options options;
        struct error err = { 0 };
        options_init(&options);
        if (options_set_defaults(&options, &one, &allowed, &err) < 0) {
            char text[sizeof err.message + 40];
            snprintf(text, sizeof text, "default generation options: %s", err.message);
            add_problem(in, text);
            good = false;
        }
        options_clear(&options);
    }
    return good;
}

static void examine_defaults(struct inspection *in)
{
    struct error err = { 0 };
    if (config_generates(&in->model->config) && !examine_each_default(in))
        return;
    if (registry_defaults(&in->defaults, in->model, &in->config->limits, &err) < 0)
        add_problem(in, err.message);
    else
        in->defaults_known = true;
}

static void examine(struct inspection *in, const struct kernels *kernels)
{
    struct error err = { 0 };
    in->model = model_examine(in->folder, kernels, &in->findings);
    if (!in->model)
        return;
    struct engine_config engine = in->config->engine;
    engine.workers = in->crew.workers;
    engine.threads = in->crew.threads;
    lane_memory_plan(&in->memory, in->model, &engine, &in->config->limits);
    if (tokenizer_open(&in->tokenizer, in->folder, &in->model->config, &err) < 0)
        add_problem(in, err.message);
    examine_defaults(in);
}

static int print(const struct inspection *in, struct error *err)
{
    struct buffer out;
    buffer_init(&out, OUTPUT_BYTES_MAX);
    if (in->config->inspect.json)
        inspect_print_json(in, &out);
    else
        inspect_print_page(in, &out);
    if (out.state == BUFFER_OK)
        fwrite(out.data, 1, out.length, stdout);
    else
        error_set(err, ERR_NO_MEMORY, "no memory for what is to be said of %s", in->folder);
    buffer_free(&out);
    return err->code == ERR_NONE ? 0 : -1;
}

int command_inspect(const struct configuration *config, bool *servable, struct error *err)
{
    struct kernels kernels;
    struct inspection in = { .folder = config->inspect.folder,
                             .config = config,
                             .crew = serving_crew(config, cpu_budget_cores()) };
    if (engine_check_config(&config->engine, &config->limits, err) < 0 ||
        kernels_init(&kernels, config->isa, config->gemm, err) < 0)
        return -1;
    log_divert(take_warning, &in.findings);
    examine(&in, &kernels);
    log_divert(NULL, NULL);
    *servable = in.findings.problem_count == 0;
    const int rc = print(&in, err);
    options_clear(&in.defaults);
    tokenizer_close(&in.tokenizer);
    model_close(&in.model);
    findings_clear(&in.findings);
    return rc;
}

size_t inspect_row_bytes(const struct inspection *in, size_t source_tokens, size_t target_tokens)
{
    return key_values_floats(&in->model->config, source_tokens, target_tokens) * sizeof(float);
}

size_t inspect_source_max(const struct inspection *in)
{
    const size_t most = in->model->config.positions_max, asked = in->config->limits.source_tokens;
    return most < asked ? most : asked;
}

size_t inspect_memory_bytes(const struct inspection *in)
{
    return in->model->mapped_bytes + in->model->copied_bytes +
           in->crew.workers * lane_memory_bytes(&in->memory);
}
