#include "app/reload.h"

#include <string.h>

#include "app/config_table.h"
#include "base/mem.h"

/* What the server is started with. */
static const char *const fixed_keys[] = {
    "server.listen",          "server.threads",
    "server.connections",     "server.connections_per_address",
    "server.idle_timeout_ms", "metrics.enabled"
};

static char *printed(const struct config_key *key, const struct configuration *config)
{
    struct buffer text;
    buffer_init(&text, 4096);
    config_key_print(key, config, &text);
    char *copy = mem_text(text.data ? text.data : "");
    buffer_free(&text);
    return copy;
}

/* The next configuration has what is true, so what is checked of it is true as well: a daemon that
 * others can reach does not lose its keys because it would listen elsewhere after a new start. */
static int keep_fixed_keys(const struct configuration *now, struct configuration *next,
                           struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof fixed_keys / sizeof *fixed_keys && rc == 0; i++) {
        const struct config_key *key = config_key_find(fixed_keys[i]);
        char *old = printed(key, now), *wanted = printed(key, next);
        if (!old || !wanted) {
            rc = error_set(err, ERR_NO_MEMORY, "no memory for %s", key->name);
        } else if (strcmp(old, wanted) != 0) {
            log_write(LOG_WARNING, "%s stays %s: only a new start makes it %s", key->name, old,
                      wanted);
            rc = config_key_set(key, next, old, now->origins[key - config_keys], key->name, err);
        }
        mem_free(old);
        mem_free(wanted);
    }
    return rc;
}

/* Who turned TLS on or off must not be served on as if nothing were said. */
static int check_tls_stays(const struct configuration *now, const struct configuration *next,
                           struct error *err)
{
    if (!*now->server.tls_certificate == !*next->server.tls_certificate)
        return 0;
    return error_at(err, ERR_CONFIG, "server.tls_certificate",
                    "server.tls_certificate: only a new start turns TLS on or off");
}

/* *config is for configuration_free(), also on failure. */
static int read_again(struct configuration *config, const struct configuration *now,
                      const struct invocation *invocation, struct error *err)
{
    enum command command;
    if (configuration_read(config, &command, invocation->argc, invocation->argv,
                           invocation->environment, err) < 0)
        return -1;
    if (keep_fixed_keys(now, config, err) < 0 || configuration_check_serving(config, err) < 0)
        return -1;
    return check_tls_stays(now, config, err);
}

struct generation *reload_open(const struct generation *current,
                               const struct invocation *invocation, double cores,
                               struct metrics *metrics, struct watchdog *watchdog,
                               struct error *err)
{
    struct configuration config;
    struct generation *generation = NULL;
    if (read_again(&config, &current->config, invocation, err) == 0)
        generation = generation_create(&config, err);
    configuration_free(&config);
    if (!generation)
        return NULL;
    if (generation_open(generation, serving_crew(&generation->config, cores), metrics, watchdog,
                        err) < 0)
        generation_close(&generation, metrics, &current->serving);
    else
        generation->service.registry = &generation->serving.registry;
    return generation;
}
