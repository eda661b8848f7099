#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/daemon.h"
#include "app/signals.h"
#include "app/version.h"
#include "base/clock.h"
#include "kernels/kernels.h"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

static int exit_code(const struct error *err)
{
    return err->code == ERR_CONFIG ? EXIT_USAGE : EXIT_FAILED;
}

static int report(const struct error *err)
{
    log_write(LOG_ERROR, "%s", err->message);
    return exit_code(err);
}

static int serve(struct configuration *config, const struct invocation *invocation,
                 struct error *err)
{
    signals_block();
    struct log_line line;
    log_begin(&line, LOG_INFO, "starting");
    log_text(&line, "version", version_number());
    log_text(&line, "commit", version_commit());
    log_end(&line);
    configuration_log(config);
    if (configuration_check_serving(config, err) < 0)
        return report(err);
    switch (daemon_run(config, invocation, err)) {
    case DAEMON_STOPPED:
        return EXIT_OK;
    case DAEMON_FAILED:
        return report(err);
    case DAEMON_LEFT:
        _exit(EXIT_OK); /* other threads still run: nothing may be torn down under them */
    case DAEMON_ABANDONED:
        break;
    }
    _exit(EXIT_FAILED);
}

/* What the log would say at info, the report says. */
static int check(const struct configuration *config, struct error *err)
{
    if (log_level() == LOG_INFO)
        log_set_level(LOG_WARNING);
    if (configuration_check_serving(config, err) < 0 || command_check(config, err) < 0)
        return report(err);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* The page says what is wrong; the exit code, whether anything is. */
static int inspect(const struct configuration *config, struct error *err)
{
    bool servable;
    if (command_inspect(config, &servable, err) < 0)
        return report(err);
    return servable && fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

static int quantize(const struct configuration *config, struct error *err)
{
    if (command_quantize(config, err) < 0)
        return report(err);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* stdout belongs to the figures; the log tells what goes wrong. */
static int bench(const struct configuration *config, uint64_t started_ns, struct error *err)
{
    if (log_level() == LOG_INFO)
        log_set_level(LOG_WARNING);
    if (command_bench(config, started_ns, err) < 0)
        return report(err);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* Container engines know 0 and 1 from a health check, and reserve 2. */
static int health(const struct configuration *config, struct error *err)
{
    if (command_health(config, err) == 0)
        return EXIT_OK;
    report(err);
    return EXIT_FAILED;
}

static int run(enum command command, struct configuration *config,
               const struct invocation *invocation, struct error *err)
{
    switch (command) {
    case COMMAND_SERVE:
        return serve(config, invocation, err);
    case COMMAND_CHECK:
        return check(config, err);
    case COMMAND_INSPECT:
        return inspect(config, err);
    case COMMAND_QUANTIZE:
        return quantize(config, err);
    case COMMAND_BENCH:
        return bench(config, invocation->started_ns, err);
    case COMMAND_HEALTH:
        return health(config, err);
    case COMMAND_HELP:
        command_help();
        break;
    case COMMAND_HELP_CONFIG:
        command_help_config();
        break;
    case COMMAND_VERSION:
        command_version();
        break;
    }
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}

/* Who starts us with one of the three closed would have the next file, or a socket that listens, in
 * its place, and the log in there.  open() takes the lowest that is free. */
static void open_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY); /* writing there fails, as it did */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char *argv[])
{
    const struct invocation invocation = { argc, argv, environ, clock_ns() };
    struct configuration config;
    struct error err = { 0 };
    enum command command;
    int code;
    open_standard_files();
    blas_prepare();
    signal(SIGXFSZ, SIG_IGN); /* a file beyond RLIMIT_FSIZE is an error, like a full disk */
    if (configuration_read(&config, &command, argc, argv, environ, &err) < 0) {
        code = report(&err);
        if (command == COMMAND_HEALTH)
            code = EXIT_FAILED;
    } else {
        log_set_level(configuration_log_level(&config));
        code = run(command, &config, &invocation, &err);
    }
    configuration_free(&config);
    return code;
}
