#include <stdio.h>

#include "app/commands.h"
#include "app/serving.h"
#include "base/cpu.h"
#include "http/certificate.h"
#include "http/keys.h"

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

/* How many keys there are; 0: everyone may ask. */
static int read_keys(const struct configuration *config, size_t *count, struct error *err)
{
    struct keys *keys;
    *count = 0;
    if (!config->server.keys_file[0])
        return 0;
    if (keys_open(&keys, config->server.keys_file, err) < 0)
        return -1;
    *count = keys_count(keys);
    keys_close(&keys);
    return 0;
}

/* As the daemon would read them. */
static int check_certificate(const struct configuration *config, struct error *err)
{
    if (!*config->server.tls_certificate)
        return 0;
    struct certificate *certificate;
    const int result =
        certificate_open(&certificate, config->server.tls_certificate, config->server.tls_key, err);
    certificate_close(&certificate);
    return result;
}

int command_check(const struct configuration *config, struct error *err)
{
    size_t key_count;
    if (read_keys(config, &key_count, err) < 0 || check_certificate(config, err) < 0)
        return -1;
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
