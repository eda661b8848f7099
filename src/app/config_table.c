#include "app/config_table.h"

#include <string.h>

static const char *const gemms[] = { "own", "openblas", NULL };
const char *const config_log_levels[] = { "debug", "info", "warning", "error", "none", NULL };

#define KIB        (UINT64_C(1) << 10)
#define MIB        (UINT64_C(1) << 20)
#define GIB        (UINT64_C(1) << 30)
#define DAY_MS     UINT64_C(86400000)
#define AT(member) offsetof(struct configuration, member)

/* clang-format off */
const struct config_key config_keys[] = {
    { "server.listen", CONFIG_LISTEN, "", "127.0.0.1:8080", 0, 0, NULL, "listen", AT(server.listen),
      "Address and port; port 0 lets the system pick one, which the log names." },
    { "server.threads", CONFIG_COUNT, "threads", "2", 1, 64, NULL, NULL, AT(server.threads),
      "Threads that parse requests and send answers; the workers do the work." },
    { "server.connections", CONFIG_COUNT, "connections", "4096", 1, 1000000, NULL, NULL,
      AT(server.connections), "Connections open at once; each needs a file descriptor." },
    { "server.connections_per_address", CONFIG_COUNT, "connections", "0", 0, 1000000, NULL, NULL,
      AT(server.connections_per_address),
      "Connections open at once from one client address; more are closed unanswered.  0: any "
      "number, since behind a proxy, a NAT or a container's network all clients may have one "
      "address; set it where clients connect themselves." },
    { "server.idle_timeout_ms", CONFIG_COUNT, "ms", "90000", 100, DAY_MS, NULL, NULL,
      AT(server.idle_timeout_ms),
      "A kept connection without a request is closed after this; longer than the 60 to 75 s of "
      "usual load balancers, which would answer 502 otherwise." },
    { "server.hosts", CONFIG_HOSTS, "", "", 0, 0, NULL, NULL, AT(server.hosts),
      "Names, besides localhost, that a Host header may carry on loopback: no web page can reach "
      "the daemon under a name of its own." },
    { "server.keys_file", CONFIG_TEXT, "", "", 0, 0, NULL, NULL, AT(server.keys_file),
      "File of API keys, one a line, perhaps as NAME: KEY, which not everyone may read; at most "
      "1024 keys and 1 MiB.  Requests but probes then need one, as Authorization: Bearer KEY.  "
      "SIGHUP reads it again." },
    { "server.allow_unauthenticated", CONFIG_BOOL, "", "false", 0, 0, NULL, NULL,
      AT(server.allow_unauthenticated),
      "Listening beyond loopback without keys serves everyone who can connect, and needs this "
      "said." },
    { "server.tls_certificate", CONFIG_TEXT, "", "", 0, 0, NULL, NULL, AT(server.tls_certificate),
      "PEM file: the certificate that TLS shows, issuers after it; empty: no TLS.  Read again on "
      "SIGHUP." },
    { "server.tls_key", CONFIG_TEXT, "", "", 0, 0, NULL, NULL, AT(server.tls_key),
      "PEM file: the key of server.tls_certificate, not encrypted." },
    { "server.drain_delay_ms", CONFIG_COUNT, "ms", "0", 0, DAY_MS, NULL, NULL,
      AT(server.drain_delay_ms),
      "After SIGTERM requests are served for this long while /readyz is 503: load balancers need "
      "some seconds to notice." },
    { "server.drain_timeout_ms", CONFIG_COUNT, "ms", "limits.request_timeout_ms", 0, DAY_MS, NULL,
      NULL, AT(server.drain_timeout_ms),
      "Accepted requests have this long to end after the delay; what is left then gets 503." },

    { "limits.body_bytes", CONFIG_BYTES, "bytes", "8 MiB", KIB, GIB, NULL, NULL,
      AT(limits.body_bytes), "Body of one request." },
    { "limits.bodies_bytes", CONFIG_BYTES, "bytes", "256 MiB", KIB, 1024 * GIB, NULL, NULL,
      AT(limits.bodies_bytes),
      "Bodies of all requests until they are answered, since what is made of them waits as long; a "
      "request that finds no room gets 429, but for bodies below 16 KiB.  At least "
      "limits.body_bytes." },
    { "limits.response_bytes", CONFIG_BYTES, "bytes", "64 MiB", KIB, 64 * GIB, NULL, NULL,
      AT(limits.response_bytes),
      "Answer to one request, estimated before it is queued: attention weights grow with the "
      "square of the length." },
    { "limits.answers_bytes", CONFIG_BYTES, "bytes", "1 GiB", KIB, 1024 * GIB, NULL, NULL,
      AT(limits.answers_bytes),
      "Answers of 64 KiB or more, all together, from before their requests are queued, as "
      "estimated, until their clients have taken them; a request that finds no room gets 429.  At "
      "least limits.response_bytes." },
    { "limits.sequences", CONFIG_COUNT, "rows", "2048", 1, 1000000, NULL, NULL,
      AT(limits.sequences), "Rows of one request." },
    { "limits.source_tokens", CONFIG_COUNT, "tokens", "4096", 1, 1000000, NULL, NULL,
      AT(limits.source_tokens), "Source tokens of a row, masked places included." },
    { "limits.target_tokens", CONFIG_COUNT, "tokens", "4096", 1, 1000000, NULL, NULL,
      AT(limits.target_tokens), "Target tokens of a row of /v1/score." },
    { "limits.beams", CONFIG_COUNT, "beams", "16", 1, 1024, NULL, NULL, AT(limits.beams),
      "num_beams: each beam of a row reserves its own share of the key/value cache." },
    { "limits.return_sequences", CONFIG_COUNT, "sequences", "256", 1, 4096, NULL, NULL,
      AT(limits.return_sequences), "num_return_sequences of a row." },
    { "limits.top_logprobs", CONFIG_COUNT, "tokens", "20", 0, 1000, NULL, NULL,
      AT(limits.top_logprobs), "The best tokens that `logprobs` may ask for at each place." },
    { "limits.option_tokens", CONFIG_COUNT, "tokens", "262144", 0, 10000000, NULL, NULL,
      AT(limits.option_tokens),
      "Token ids in one list of a row's options: `bad_words_ids`, `suppress_tokens` and the "
      "like." },
    { "limits.default_max_new_tokens", CONFIG_COUNT, "tokens", "256", 1, 1000000, NULL, NULL,
      AT(limits.default_max_new_tokens),
      "Generated tokens when neither request nor model says; never more than "
      "limits.max_new_tokens." },
    { "limits.max_new_tokens", CONFIG_COUNT, "tokens", "4096", 1, 1000000, NULL, NULL,
      AT(limits.max_new_tokens), "Generated tokens that a request may ask for." },
    { "limits.queue_sequences", CONFIG_COUNT, "rows", "4096", 1, 10000000, NULL, NULL,
      AT(limits.queue_sequences),
      "Rows of one model that wait; a request that finds no room gets 429 at once.  At least "
      "limits.sequences." },
    { "limits.request_timeout_ms", CONFIG_COUNT, "ms", "60000", 1, DAY_MS, NULL, NULL,
      AT(limits.request_timeout_ms),
      "From the last byte of the request to its answer, waiting included; then 504." },
    { "limits.key_requests_per_second", CONFIG_COUNT, "requests", "0", 0, 1000000, NULL, NULL,
      AT(limits.key_requests_per_second),
      "Requests of one API key, or of one client address where there are no keys, in the long run; "
      "then 429 rate_limited; 0: any number." },
    { "limits.key_burst", CONFIG_COUNT, "requests", "limits.key_requests_per_second", 1, 1000000,
      NULL, NULL, AT(limits.key_burst),
      "Requests that may come at once after a pause, before limits.key_requests_per_second "
      "counts." },
    { "limits.key_concurrency", CONFIG_COUNT, "requests", "0", 0, 1000000, NULL, NULL,
      AT(limits.key_concurrency),
      "Requests of one API key, or of one client address where there are no keys, that are being "
      "sent, computed or answered; then 429 rate_limited; 0: any number." },

    { "engine.workers", CONFIG_COUNT, "threads", "0", 0, 1024, NULL, NULL, AT(engine.workers),
      "Batches that are computed at once, each by a team of engine.threads; 0 chooses by the cores "
      "that affinity and cgroup quota allow." },
    { "engine.threads", CONFIG_COUNT, "threads", "0", 0, 1024, NULL, NULL, AT(threads),
      "Threads that share the work of one worker, it among them; 0 divides the cores by the "
      "workers." },
    { "engine.batch_sequences", CONFIG_COUNT, "hypotheses", "256", 1, 65536, NULL, NULL,
      AT(engine.batch_sequences),
      "Hypotheses (rows times beams) that one worker decodes at once.  At least limits.beams and "
      "limits.return_sequences." },
    { "engine.batch_tokens", CONFIG_COUNT, "tokens", "4096", 1, 1000000, NULL, NULL,
      AT(engine.batch_tokens),
      "Source tokens of one encoder pass; sets the memory of a worker.  At least "
      "limits.source_tokens." },
    { "engine.step_tokens", CONFIG_COUNT, "tokens", "256", 1, 1000000, NULL, NULL,
      AT(engine.step_tokens),
      "Tokens of prefixes and of targets to score that one decoder step takes besides the live "
      "hypotheses." },
    { "engine.encode_ms", CONFIG_COUNT, "ms", "50", 0, 10000, NULL, NULL, AT(engine.encode_ms),
      "The most encoder work between two decoder steps, of which it has a third of the time, more "
      "if more rows are encoded than decoded: less makes generation smoother, more fills batches "
      "sooner." },
    { "engine.kv_cache_bytes", CONFIG_BYTES, "bytes", "1 GiB", 64 * KIB, 1024 * GIB, NULL, NULL,
      AT(engine.kv_cache_bytes),
      "Keys and values of one model, divided among the workers; reserved at start, used as "
      "needed." },
    { "engine.overtakes_max", CONFIG_COUNT, "rows", "64", 0, 1000000, NULL, NULL,
      AT(engine.overtakes_max),
      "How many rows that fit may be taken before the oldest one, which does not fit yet." },
    { "engine.watchdog_ms", CONFIG_COUNT, "ms", "60000", 0, DAY_MS, NULL, NULL, AT(watchdog_ms),
      "A worker whose step takes longer hangs, and the process ends, to be started anew; 0: it may "
      "take any time." },
    { "engine.cache_dir", CONFIG_TEXT, "", "", 0, 0, NULL, NULL, AT(cache_dir),
      "Folder for packed copies of the models' matrices, by content: made at the first start, "
      "mapped from then on; empty: none, and matrices are packed piece by piece as they are "
      "used." },
    { "engine.screening", CONFIG_BOOL, "", "true", 0, 0, NULL, NULL, AT(engine.screening),
      "Whether packed models find the best tokens by int8 first and then exactly; the answers are "
      "the same." },
    { "engine.isa", CONFIG_TEXT, "", "", 0, 0, NULL, "isa", AT(isa),
      "Instruction set of the kernels (portable; avx2 or avx512 on x86-64, neon on aarch64); empty "
      "takes the best the machine has, one that it lacks is refused." },
    { "engine.gemm", CONFIG_CHOICE, "", "own", 0, 0, gemms, NULL, AT(gemm),
      "Who multiplies matrices: own gives a row the same bits in every batch, openblas values "
      "within the tolerance." },

    { "cors.origins", CONFIG_TEXTS, "", "", 0, 0, NULL, NULL, AT(cors_origins),
      "Origins of web pages that may use the daemon from a browser, as https://app.example:8443; "
      "* is all of them, and needs keys." },

    { "metrics.enabled", CONFIG_BOOL, "", "true", 0, 0, NULL, NULL, AT(metrics_enabled),
      "Whether GET /metrics answers." },
    { "metrics.public", CONFIG_BOOL, "", "false", 0, 0, NULL, NULL, AT(metrics_public),
      "Whether GET /metrics answers without a key where there are keys." },
    { "log.level", CONFIG_CHOICE, "", "info", 0, 0, config_log_levels, NULL, AT(log_level),
      "The least that is logged." },
    { "log.access", CONFIG_BOOL, "", "true", 0, 0, NULL, NULL, AT(log_access),
      "A line for each request, at info (probes: at debug), with ids, sizes and times, never texts "
      "or tokens.  Without it errors of the daemon are logged all the same." },
    { "log.client_address", CONFIG_BOOL, "", "false", 0, 0, NULL, NULL, AT(log_client_address),
      "Whether that line has the address of the client, or of the proxy it came through; in some "
      "places that is personal data." },
};
/* clang-format on */

const size_t config_key_count = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX,
               "origins has a place each");
_Static_assert(_Generic((size_t)0, uint64_t : 1, default : 0), "counts are read as uint64_t");
_Static_assert(sizeof config_log_levels / sizeof *config_log_levels == LOG_NONE + 2, "as the enum");

const struct config_key *config_key_find(const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

size_t config_section_find(const char *section)
{
    const size_t length = strlen(section);
    size_t i = 0;
    while (i < config_key_count && (strncmp(config_keys[i].name, section, length) != 0 ||
                                    config_keys[i].name[length] != '.'))
        i++;
    return i;
}
