#include "app/generation.h"

#include "base/mem.h"

struct generation *generation_create(struct configuration *config)
{
    struct generation *generation = mem_alloc(1, sizeof *generation);
    if (!generation)
        return NULL;
    generation->config = *config;
    *config = (struct configuration){ 0 };
    generation->service.limits = &generation->config.limits;
    generation->service.hosts = generation->config.server.hosts;
    return generation;
}

int generation_open_certificate(struct generation *generation, struct error *err)
{
    const struct configuration *config = &generation->config;
    if (*config->server.tls_certificate &&
        certificate_open(&generation->certificate, config->server.tls_certificate,
                         config->server.tls_key, err) < 0)
        return -1;
    generation->service.certificate = generation->certificate;
    return 0;
}

int generation_open(struct generation *generation, struct crew crew, struct metrics *metrics,
                    struct watchdog *watchdog, struct error *err)
{
    struct serving *serving = &generation->serving;
    if (serving_open(serving, &generation->config, crew, metrics, err) < 0)
        return -1;
    if (workers_start(&generation->workers, serving->engines, serving->registry.count, crew,
                      serving->wakeup, metrics, err) < 0)
        return -1;
    generation->watchdog = watchdog;
    return watchdog_watch(watchdog, generation->workers, generation->config.watchdog_ms, err);
}

bool generation_is_unused(const struct generation *generation)
{
    return generation->service.users == 0 && serving_request_count(&generation->serving) == 0;
}

void generation_cancel(struct generation *generation)
{
    const struct serving *serving = &generation->serving;
    for (size_t i = 0; i < serving->registry.count; i++)
        engine_stop_accepting(serving->engines[i]);
    watcher_cancel_all(serving->watcher, ERR_SHUTTING_DOWN);
}

void generation_stop_workers(struct generation *generation)
{
    if (generation->watchdog)
        watchdog_forget(generation->watchdog, generation->workers);
    generation->watchdog = NULL;
    workers_stop(&generation->workers);
}

/* Series of a model that is gone would stand still for ever. */
static void forget_models(const struct registry *gone, struct metrics *metrics,
                          const struct registry *served)
{
    for (size_t i = 0; i < gone->count; i++) {
        const char *name = gone->models[i].name;
        if (name && !(served && registry_find(served, name)))
            metrics_hide(metrics, "model", name);
    }
}

void generation_close(struct generation **in, struct metrics *metrics,
                      const struct registry *served)
{
    struct generation *generation = *in;
    *in = NULL;
    if (!generation)
        return;
    generation_stop_workers(generation);
    forget_models(&generation->serving.registry, metrics, served);
    serving_close(&generation->serving);
    certificate_close(&generation->certificate);
    configuration_free(&generation->config);
    mem_free(generation);
}
