/* engine.h — continuous batching for one model.
 *
 * An engine is a bounded queue of rows and one lane for each worker: the rows that this worker has
 * admitted, its scratch and its key/value cache.  A worker steps the lanes of all engines in turn;
 * one step is
 *   admit    waiting rows while hypothesis slots, cache and token budget allow
 *   encode   some pieces of the admitted rows' encoder passes, for about `encode_ms`
 *   decode   one pass over the last token of every live hypothesis (and pieces of prefixes and of
 *            targets to score), whatever their options
 *   search   rules and choice for each row; finished rows leave at once
 *
 * Threads
 *   HTTP threads  engine_submit().
 *   Workers       engine_step(), each with its own lane.
 *   main          everything else, while no worker runs. */
#ifndef SERVE_ENGINE_H
#define SERVE_ENGINE_H

#include "base/metrics.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "serve/limits.h"
#include "serve/request.h"

struct engine_config {
    size_t workers;         /* lanes */
    size_t batch_sequences; /* hypotheses alive in one lane */
    size_t batch_tokens;    /* source tokens of one encoder pass; a longer row is refused */
    size_t step_tokens;     /* tokens of one decoder step beyond the live hypotheses */
    uint64_t encode_ms;     /* between two decoder steps; 0: one piece */
    size_t threads;         /* of a worker's team */
    size_t kv_cache_bytes;  /* of the model, divided among the lanes */
    bool screening;         /* use the model's screen (model/pack.h), if it has one */
    size_t overtakes_max;   /* how often the oldest row may be passed over */
};

struct engine;
struct team;
struct wakeup;
struct watcher;

/* Limits that contradict each other: ERR_CONFIG. */
int engine_check_config(const struct engine_config *config, const struct limits *limits,
                        struct error *err);

/* Borrows model, kernels, limits, wakeup and watcher until engine_close().
 * Errors: ERR_NO_MEMORY, ERR_CONFIG (a limit that cannot hold one row). */
int engine_open(struct engine **out, const struct model *model, const struct kernels *kernels,
                const struct engine_config *config, const struct limits *limits,
                struct metrics *metrics, struct wakeup *wakeup, struct watcher *watcher,
                struct error *err);
void engine_close(struct engine **engine);

/* Hands the request over.  0: `done` will be called exactly once.  −1: it stays the caller's.
 * Errors: ERR_BUSY (no room for all its rows now), ERR_OVER_LIMIT (could never fit),
 * ERR_SHUTTING_DOWN, ERR_NO_MEMORY. */
int engine_submit(struct engine *engine, struct request *request, struct error *err);

/* From now on engine_submit() refuses.  Accepted requests go on. */
void engine_stop_accepting(struct engine *engine);

/* Worker `worker` does one step with its team (NULL: alone).  False: there was nothing to do. */
bool engine_step(struct engine *engine, size_t worker, struct team *team);

/* From now on its model is what is served under that name: metrics tell its limits and sizes, no
 * longer those of a former one.  Until then they only count what it does. */
void engine_publish(struct engine *engine);

/* Requests submitted and not done; any thread. */
size_t engine_request_count(const struct engine *engine);

/* Counts an answer refused before submission; `reason` from a closed set. */
void engine_count_rejected(struct engine *engine, const char *reason);

#endif
