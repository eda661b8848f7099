#include "app/generation.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct generation *generation_create(struct configuration *config, struct error *err)
{
    struct generation *generation = mem_alloc(1, sizeof *generation);
    if (!generation) {
        error_set(err, ERR_NO_MEMORY, "no memory for the configuration");
        return NULL;
    }
    struct credentials *credentials = &generation->credentials;
    if (credentials_open(credentials, config, err) < 0) {
        mem_free(generation);
        return NULL;
    }
    if (credentials->keys)
        log_write(LOG_INFO, "%zu API keys from %s", keys_count(credentials->keys),
                  config->server.keys_file);
    else if (!config->listen.loopback)
        log_write(LOG_WARNING,
                  "there are no keys (server.keys_file): everyone who can connect to %s may use "
                  "the models",
                  config->server.listen);
    generation->config = *config;
    *config = (struct configuration){ 0 };
    const struct configuration *own = &generation->config;
    struct service *service = &generation->service;
    service->limits = &own->limits;
    service->hosts = own->server.hosts;
    service->origins = own->cors_origins;
    service->keys = credentials->keys;
    service->certificate = credentials->certificate;
    service->metrics_public = own->metrics_public;
    service->log_access = own->log_access;
    service->log_client_address = own->log_client_address;
    return generation;
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

/* Series of a model or worker that is gone would stand still for ever. */
static void forget_models(const struct registry *gone, struct metrics *metrics,
                          const struct registry *served)
{
    for (size_t i = 0; i < gone->count; i++) {
        const char *name = gone->models[i].name;
        const struct served_model *still = name ? registry_find(served, name) : NULL;
        /* As an alias it has no series. */
        if (name && !(still && strcmp(still->name, name) == 0))
            metrics_hide(metrics, NULL, "model", name);
    }
}

static void forget_workers(size_t gone, struct metrics *metrics, size_t served)
{
    for (size_t i = served; i < gone; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        metrics_hide(metrics, NULL, "worker", index);
    }
}

void generation_close(struct generation **in, struct metrics *metrics, const struct serving *served)
{
    struct generation *generation = *in;
    *in = NULL;
    if (!generation)
        return;
    generation_stop_workers(generation);
    if (served) {
        forget_models(&generation->serving.registry, metrics, &served->registry);
        forget_workers(generation->serving.crew.workers, metrics, served->crew.workers);
    }
    serving_close(&generation->serving);
    credentials_close(&generation->credentials);
    configuration_free(&generation->config);
    mem_free(generation);
}
