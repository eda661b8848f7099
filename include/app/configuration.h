/* configuration.h — everything an operator can set.
 *
 * One table (src/app/config_table.c) knows each key; values come from the defaults, then a YAML
 * file, then the environment, then the command line, the later ones winning.  Main's thread; const
 * once the daemon starts. */
#ifndef APP_CONFIGURATION_H
#define APP_CONFIGURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/listen.h"
#include "base/error.h"
#include "base/log.h"
#include "serve/engine.h"
#include "serve/limits.h"

enum config_origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_COMMAND_LINE };

enum { CONFIG_KEYS_MAX = 64 };

struct model_entry {
    char *name, *path; /* owned */
    char **aliases;    /* other names; NULL-terminated, or NULL; owned */
};

struct configuration {
    struct {
        char *listen; /* as written; owned */
        uint64_t threads, connections;
        uint64_t connections_per_address; /* 0: any number */
        uint64_t idle_timeout_ms;
        char **hosts;    /* NULL-terminated; owned */
        char *keys_file; /* "": everyone may ask; owned */
        bool allow_unauthenticated;
        char *tls_certificate, *tls_key; /* files; "": no TLS; owned */
        uint64_t drain_delay_ms, drain_timeout_ms;
    } server;
    struct limits limits;
    struct engine_config engine; /* workers 0: from the CPU budget */
    uint64_t threads;            /* of a worker; 0: divides the cores */
    uint64_t watchdog_ms;        /* of a worker's step; 0: any time */
    char *cache_dir;             /* "": none; owned */
    char *isa;                   /* "": the best; owned */
    const char *gemm;            /* static */
    char **cors_origins;         /* NULL-terminated; owned */
    bool metrics_enabled, metrics_public;
    const char *log_level; /* static */
    bool log_access, log_client_address;

    struct model_entry *models; /* (model_count), owned */
    size_t model_count;
    enum config_origin models_origin;

    struct inspect {
        const char *folder; /* borrowed from the command line */
        bool json;
    } inspect; /* what `seqd inspect` was told */
    struct quantize {
        const char *in, *out; /* folders, borrowed from the command line */
        const char *dtype;    /* as written; borrowed */
    } quantize;
    bool bench_pipe; /* `seqd bench --pipe` */

    struct listen_address listen;                /* `server.listen`, read */
    enum config_origin origins[CONFIG_KEYS_MAX]; /* by place in the table */
};

enum command {
    COMMAND_SERVE,
    COMMAND_CHECK,
    COMMAND_INSPECT,
    COMMAND_QUANTIZE,
    COMMAND_BENCH,
    COMMAND_HEALTH,
    COMMAND_HELP,
    COMMAND_HELP_CONFIG,
    COMMAND_VERSION
};

/* Fills *config from all four sources and *command from the command line; `environment` is as
 * `environ`. Help and version stop at the command line.  On failure too the caller frees, and
 * *command is what was asked for as far as that was read.  Errors: ERR_CONFIG says where, which
 * key, what is wrong and what is allowed; ERR_NO_MEMORY. */
int configuration_read(struct configuration *config, enum command *command, int argc,
                       char *const argv[], char *const environment[], struct error *err);
void configuration_free(struct configuration *config);

/* What serving needs beyond single values: a model, keys or leave to listen beyond loopback,
 * origins that are some, and a certificate and its key or neither.
 * Errors: ERR_CONFIG. */
int configuration_check_serving(const struct configuration *config, struct error *err);

enum log_level configuration_log_level(const struct configuration *config);

/* One line at info with what is not at its default, one a key at debug with all. */
void configuration_log(const struct configuration *config);

#endif
