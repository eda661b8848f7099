/* kit_runner.c — asks a daemon what the kit knows the answers to: alone, and with many clients at
 * once.
 *
 *   kit_runner PROGRAM UNSUPPORTED_OPTIONS LOG_DIR CLIENTS CASE_DIR…
 *
 * For every case a daemon of its own.  One `ok` or `not ok` line a check on stdout, then the sum.
 * Exit code 0: all ok; 1: not; 2: usage. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit_check.h"
#include "kit_client.h"
#include "kit_daemon.h"

#define CLIENTS_MAX 256
#define WHY_BYTES   512

struct totals {
    size_t passed, failed;
};

/* What the clients of one pass found; one entry a check. */
struct verdict {
    atomic_bool failed; /* who sets it writes `why` */
    char why[WHY_BYTES];
};

struct pass {
    const struct kit_case *kit_case;
    struct verdict *verdicts;
    int port;
};

struct asker {
    pthread_t thread;
    const struct pass *pass;
    uint64_t seed; /* of the order of its questions; 0: as they are */
};

static void report(struct totals *totals, bool ok, const char *name, const char *what,
                   const char *why)
{
    if (ok)
        totals->passed++;
    else
        totals->failed++;
    printf("%s - %s: %s%s%s\n", ok ? "ok" : "not ok", name, what, ok ? "" : ": ", ok ? "" : why);
    fflush(stdout);
}

/* A request that must be refused: 400, and the message names the option. */
static bool is_refused(struct kit_client *client, const struct kit_check *check, char *why)
{
    json_t *answer = kit_client_post(client, check->path, check->bodies[0], why, WHY_BYTES);
    if (answer)
        snprintf(why, WHY_BYTES, "%s is not refused", check->unsupported);
    json_decref(answer);
    return strncmp(why, "HTTP 400: ", 10) == 0 && strstr(why, check->unsupported);
}

static bool ask(struct kit_client *client, const struct kit_check *check, char *why)
{
    if (check->unsupported)
        return is_refused(client, check, why);
    json_t *answers[KIT_DRAW_REQUESTS] = { NULL };
    bool ok = true;
    for (size_t i = 0; ok && i < check->body_count; i++) {
        answers[i] = kit_client_post(client, check->path, check->bodies[i], why, WHY_BYTES);
        ok = answers[i] != NULL;
    }
    ok = ok && check->judge(check, answers, why, WHY_BYTES);
    for (size_t i = 0; i < check->body_count; i++)
        json_decref(answers[i]);
    return ok;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* 0 … count−1 in the order of `seed`; the caller frees. */
static size_t *make_order(size_t count, uint64_t seed)
{
    size_t *order = calloc(count ? count : 1, sizeof *order);
    if (!order)
        abort();
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; seed && i > 1; i--) {
        const size_t j = (size_t)(next_random(&seed) % i);
        const size_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
    return order;
}

static void *ask_all(void *context)
{
    const struct asker *asker = context;
    const struct kit_case *kit_case = asker->pass->kit_case;
    struct kit_client *client = kit_client_open(asker->pass->port);
    size_t *order = make_order(kit_case->count, asker->seed);
    if (!client)
        abort();
    for (size_t i = 0; i < kit_case->count; i++) {
        char why[WHY_BYTES] = "";
        struct verdict *verdict = &asker->pass->verdicts[order[i]];
        if (!ask(client, &kit_case->checks[order[i]], why) &&
            !atomic_exchange(&verdict->failed, true))
            memcpy(verdict->why, why, sizeof why);
    }
    free(order);
    kit_client_close(client);
    return NULL;
}

/* `clients` at once, each asking everything; alone in the kit's order, many in random ones. */
static void run_pass(struct totals *totals, const struct kit_case *kit_case, const char *name,
                     int port, size_t clients)
{
    struct pass pass = { .kit_case = kit_case, .port = port };
    struct asker askers[CLIENTS_MAX];
    char what[160];
    pass.verdicts = calloc(kit_case->count ? kit_case->count : 1, sizeof *pass.verdicts);
    if (!pass.verdicts)
        abort();
    for (size_t i = 0; i < clients; i++) {
        askers[i] = (struct asker){ .pass = &pass, .seed = clients > 1 ? i + 1 : 0 };
        if (pthread_create(&askers[i].thread, NULL, ask_all, &askers[i]) != 0)
            abort();
    }
    for (size_t i = 0; i < clients; i++)
        pthread_join(askers[i].thread, NULL);
    for (size_t i = 0; i < kit_case->count; i++) {
        snprintf(what, sizeof what, "%s, %zu client%s", kit_case->checks[i].name, clients,
                 clients > 1 ? "s" : "");
        report(totals, !pass.verdicts[i].failed, name, what, pass.verdicts[i].why);
    }
    free(pass.verdicts);
}

struct arguments {
    const char *program, *log_dir;
    size_t clients;
    struct kit_options unsupported;
};

static void run_case(struct totals *totals, const struct arguments *arguments, const char *folder)
{
    struct kit_case kit_case;
    struct kit_daemon daemon;
    char why[WHY_BYTES] = "", log[4096];
    const char *const options[] = { "--model", folder, NULL };
    const char *slash = strrchr(folder, '/');
    const char *name = slash ? slash + 1 : folder;
    if (kit_case_open(&kit_case, folder, &arguments->unsupported) < 0) {
        report(totals, false, name, "the case can be read", "see above");
        return;
    }
    snprintf(log, sizeof log, "%s/seqd_%s.log", arguments->log_dir, name);
    if (kit_daemon_start(&daemon, arguments->program, options, log, why, sizeof why) < 0) {
        report(totals, false, name, "the daemon starts", why);
    } else {
        run_pass(totals, &kit_case, name, daemon.port, 1);
        run_pass(totals, &kit_case, name, daemon.port, arguments->clients);
        const int rc = kit_daemon_stop(&daemon, why, sizeof why);
        report(totals, rc == 0, name, "the daemon stops cleanly", why);
    }
    kit_case_close(&kit_case);
}

int main(int argc, char **argv)
{
    struct totals totals = { 0 };
    if (argc < 6) {
        fprintf(stderr,
                "usage: kit_runner PROGRAM UNSUPPORTED_OPTIONS LOG_DIR CLIENTS CASE_DIR...\n");
        return 2;
    }
    struct arguments arguments = { .program = argv[1],
                                   .log_dir = argv[3],
                                   .clients = strtoul(argv[4], NULL, 10) };
    if (kit_options_read(&arguments.unsupported, argv[2]) < 0)
        return 2;
    if (arguments.clients < 2 || arguments.clients > CLIENTS_MAX) {
        fprintf(stderr, "CLIENTS is 2 to %d\n", CLIENTS_MAX);
        return 2;
    }
    kit_client_setup();
    for (int i = 5; i < argc; i++)
        run_case(&totals, &arguments, argv[i]);
    printf("# %zu passed, %zu failed\n", totals.passed, totals.failed);
    return totals.failed ? 1 : 0;
}
