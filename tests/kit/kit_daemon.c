#include "kit_daemon.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS      20
#define START_MS_MAX 60000
#define STOP_MS_MAX  60000

static void sleep_poll(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = POLL_MS * 1000000L }, NULL);
}

static void become_daemon(const char *program, const char *const *options, const char *log)
{
    enum { OPTIONS_MAX = 16 };
    union {
        const char *ours[OPTIONS_MAX + 4];
        char *theirs[OPTIONS_MAX + 4]; /* as execv() wants them; it changes nothing */
    } arguments = { { program, "--listen", "127.0.0.1:0" } };
    for (size_t i = 0; i < OPTIONS_MAX && options[i]; i++)
        arguments.ours[3 + i] = options[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives the runner */
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
    execv(program, arguments.theirs);
    _exit(127);
}

/* The port that a whole line of the log tells; 0 while there is none. */
static int read_port(const char *log)
{
    char line[4096];
    int port = 0;
    FILE *file = fopen(log, "r");
    while (file && !port && fgets(line, sizeof line, file)) {
        json_t *json = strchr(line, '\n') ? json_loads(line, 0, NULL) : NULL;
        port = (int)json_integer_value(json_object_get(json, "port"));
        json_decref(json);
    }
    if (file)
        fclose(file);
    return port;
}

static void describe_end(int status, char *why, size_t why_bytes)
{
    if (WIFSIGNALED(status))
        snprintf(why, why_bytes, "the daemon was ended by signal %d", WTERMSIG(status));
    else
        snprintf(why, why_bytes, "the daemon exited with %d", WEXITSTATUS(status));
}

/* Waits until the daemon has ended; kills it when that takes too long. */
static int wait_end(pid_t pid, int *status)
{
    for (int ms = 0; ms < STOP_MS_MAX; ms += POLL_MS) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return 0;
        sleep_poll();
    }
    kill(pid, SIGKILL);
    waitpid(pid, status, 0);
    return -1;
}

int kit_daemon_start(struct kit_daemon *daemon, const char *program, const char *const *options,
                     const char *log, char *why, size_t why_bytes)
{
    unlink(log); /* or the port of the run before would be read */
    *daemon = (struct kit_daemon){ .pid = fork() };
    if (daemon->pid < 0) {
        snprintf(why, why_bytes, "fork failed");
        return -1;
    }
    if (daemon->pid == 0)
        become_daemon(program, options, log);
    for (int ms = 0; ms < START_MS_MAX; ms += POLL_MS) {
        int status;
        if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
            describe_end(status, why, why_bytes);
            return -1;
        }
        daemon->port = read_port(log);
        if (daemon->port)
            return 0;
        sleep_poll();
    }
    kit_daemon_stop(daemon, why, why_bytes);
    snprintf(why, why_bytes, "no line with a port in %s", log);
    return -1;
}

int kit_daemon_stop(struct kit_daemon *daemon, char *why, size_t why_bytes)
{
    int status = 0;
    kill(daemon->pid, SIGTERM);
    if (wait_end(daemon->pid, &status) < 0) {
        snprintf(why, why_bytes, "the daemon did not end after SIGTERM");
        return -1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    describe_end(status, why, why_bytes);
    return -1;
}
