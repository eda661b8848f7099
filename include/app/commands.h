/* commands.h — what `seqd` does besides serving.  Texts go to stdout. */
#ifndef APP_COMMANDS_H
#define APP_COMMANDS_H

#include "app/configuration.h"

/* Opens every model as the daemon would and says what it found.
 * Errors: those of credentials_open() and serving_open(). */
int command_check(const struct configuration *config, struct error *err);

/* Looks at config->inspect.folder without serving it, and prints a page or a JSON object; whether
 * the daemon would serve it is in *servable.  Errors: ERR_CONFIG, ERR_NO_MEMORY. */
int command_inspect(const struct configuration *config, bool *servable, struct error *err);

#define QUANTIZE_DTYPES "float32, bfloat16 or int8"

/* Makes the folder config->quantize.out: what serves as `in` does, with packed weights
 * (model/pack.h).  On failure nothing of it is left.
 * Errors: ERR_CONFIG, those of model_open() and pack_write(). */
int command_quantize(const struct configuration *config, struct error *err);

/* Measures the engine on the one model of the configuration, without HTTP: built-in workloads, or
 * jobs that come as JSON lines on stdin (docs/ARCHITECTURE.md).  `started_ns`: clock_ns() when the
 * process started.  Errors: ERR_CONFIG, those of serving_open(), and of a built-in workload. */
int command_bench(const struct configuration *config, uint64_t started_ns, struct error *err);

/* Asks GET /readyz of the daemon that this configuration starts, for less than 3 s.  Its TLS
 * certificate need not be valid for anybody; one that the configuration does not name is a warning.
 * Errors: ERR_IO (nobody answers, or the answer is not 200), ERR_CONFIG (port 0). */
int command_health(const struct configuration *config, struct error *err);

void command_help(void);
void command_help_config(void);
void command_version(void);

#endif
