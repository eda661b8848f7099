#include <stdio.h>

#include "app/commands.h"
#include "app/credentials.h"
#include "app/serving.h"
#include "base/cpu.h"

static void print_model(const struct served_model *served)
{
    const struct model *m = served->model;
    const struct model_config *c = &m->config;
    printf("model %s: %s\n"
           "  %s, %s, %zu parameters, %zu bytes mapped, %zu copied\n"
           "  width %zu, %zu + %zu layers, %zu heads, vocabularies %zu and %zu\n"
           "  takes %s\n",
           served->name, m->dir, c->family, dtype_name(m->dtype), m->parameter_count,
           m->mapped_bytes, m->copied_bytes, c->width, c->encoder.layers, c->decoder.layers,
           c->encoder.heads, c->source_vocabulary, c->target_vocabulary,
           served->tokenizer ? "texts and token ids" : "token ids (no tokenizer in the folder)");
}

int command_check(const struct configuration *config, struct error *err)
{
    struct credentials credentials;
    if (credentials_open(&credentials, config, err) < 0)
        return -1;
    const size_t key_count = credentials.keys ? keys_count(credentials.keys) : 0;
    credentials_close(&credentials);
    struct metrics *metrics = metrics_create();
    if (!metrics)
        return error_set(err, ERR_NO_MEMORY, "no memory for metrics");
    const double cores = cpu_budget_cores();
    const struct crew crew = serving_crew(config, cores);
    struct serving serving;
    const int result = serving_open(&serving, config, crew, metrics, err);
    if (result == 0) {
        printf("configuration: valid, listens on %s%s\n"
               "API keys: %zu\n"
               "cpu: %.2f cores, %zu workers of %zu threads, kernels %s, gemm %s\n",
               config->server.listen, *config->server.tls_certificate ? " with TLS" : "", key_count,
               cores, crew.workers, crew.threads, serving.kernels.isa, serving.kernels.gemm_name);
        for (size_t i = 0; i < serving.registry.count; i++)
            print_model(&serving.registry.models[i]);
    }
    serving_close(&serving);
    metrics_destroy(metrics);
    return result;
}
