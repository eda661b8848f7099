/* engine_internal.h — what the files of the engine share.  Private to src/serve. */
#ifndef SERVE_ENGINE_INTERNAL_H
#define SERVE_ENGINE_INTERNAL_H

#include "engine_metrics.h"
#include "kv_pool.h"
#include "model/forward.h"
#include "queue.h"
#include "serve/lane_memory.h"

enum task_phase {
    TASK_ENCODE,   /* in the lane's encoder pass */
    TASK_GENERATE, /* the prefix, then the last token of every live hypothesis, is fed each step */
    TASK_SCORE,    /* the targets are fed, piece by piece */
    TASK_REVIEW    /* the finished sequences are fed again, for their attention weights */
};

/* One admitted row in a lane. */
struct task {
    struct row *row;
    enum task_phase phase;
    struct key_values key_values;
    size_t fed;      /* positions whose keys and values are in the cache */
    size_t reviewed; /* REVIEW: the sequence that is fed */
    int32_t *review; /* REVIEW: (slots), its decoder inputs; lives behind the cache */
};

/* Hypotheses that make a step's products as fast as they can be, twice over.  More at once would
 * only make each of them slower, so rows wait instead, and those that were first end first. */
enum { BATCH_ENOUGH = 64 };

/* What one task feeds in one decoder step: its segments and states lie together, pieces in order.
 */
struct piece {
    struct task *task;
    size_t positions; /* that the task is further then */
    size_t states;    /* new tokens: of every hypothesis one, or one a position */
    size_t wanted;    /* how many of the last of them need logits */
    float *logits;    /* (wanted, V) */
    bool failed;      /* with `error` */
    struct error error;
};

/* Rows that are encoded together: first those that will be decoded, then those that are not. */
struct encode_pass {
    size_t row_count, decoded_count; /* no rows: the place is free */
    size_t offset;                   /* of its first token, and of its first row */
    size_t decoded_tokens;           /* of the first decoded_count rows */
    struct encoding encoding;
    size_t layer,
        next; /* the piece to come: layers of the encoder, then of the decoder's cross keys
                         * and values; its first token */
    enum encoder_phase phase;
    size_t products[ENCODER_TRANSFORM + 1]; /* multiplications that a piece of a phase may have */
    uint64_t ns;
};
enum { ENCODE_PRODUCTS = 1 << 26, ENCODE_PRODUCTS_MIN = 1 << 20 }; /* at first, and at least */
/* A long one and some short ones that need not wait for it. */
enum { ENCODE_PASSES = 4 };

/* A lane is touched by its worker alone, and by main while no worker runs. */
struct lane {
    struct engine *engine;
    struct team *team;    /* of its worker; NULL: it works alone */
    struct arena scratch; /* of a pass */
    struct arena batch;   /* activations that live from layer to layer */
    struct kv_pool pool;
    size_t width_used; /* hypotheses reserved by tasks */

    /* Encoder passes under way; their tokens lie in pieces of the arrays below, and so do their
     * rows, each of which has a token. */
    struct encode_pass passes[ENCODE_PASSES];
    uint64_t largest_ns;    /* that the last piece of the largest pass took */
    uint64_t smaller_ns;    /* that smaller ones have had since */
    uint64_t decode_ns;     /* of the last decoder step */
    int64_t encode_debt_ns; /* that the encoder took beyond its time */
    struct task **encoding; /* (token_places), like the next two */
    struct source_row *sources;
    const struct key_values **caches;
    float *hidden, *projected; /* (token_places, …), in `batch` */

    struct task **decoding;
    size_t decoding_count;
    struct piece *pieces;
    size_t piece_count;
    struct segment *segments;
    size_t segment_count;
    float *states, *wanted, *logits; /* (tokens, D), (tokens, D), (tokens, V), in `batch` */
    size_t *needed;                  /* (tokens): of the best logits; 0: all */
    size_t wanted_count;

    struct task *tasks; /* all there can be; free ones are listed */
    struct task **free_tasks;
    size_t free_count, task_max;
    size_t crowd;      /* tasks at the beginning of the step */
    int32_t *identity; /* 0, 1, 2 …: the path of a lone hypothesis */
};

struct engine {
    const struct model *model;
    const struct kernels *kernels;
    struct engine_config config;
    const struct limits *limits;
    struct wakeup *wakeup;
    struct watcher *watcher;
    struct queue queue;
    struct engine_metrics metrics;
    atomic_size_t request_count;
    atomic_size_t row_count; /* waiting or in a lane */
    /* How fast rows end while there are others: a moving average, ns. */
    _Atomic uint64_t last_end_ns, row_interval_ns;
    struct lane *lanes;        /* (config.workers) */
    struct lane_memory memory; /* of each lane */
};

int lane_open(struct lane *lane, struct engine *engine, struct error *err);
void lane_close(struct lane *lane);

/* Admission: takes what fits from the queue into an encoder pass. */
void lane_admit(struct lane *lane);
/* Ends rows of requests that are off, in the queue and in the lane.  True if there were any. */
bool lane_drop_off(struct lane *lane);
/* Some pieces of the encoder passes; at the end of one its rows go on to be decoded, or are
 * answered. False: there are none. */
bool lane_encode(struct lane *lane);
/* One decoder step over everything that is being decoded. */
void lane_decode(struct lane *lane);

/* The row leaves the lane, its slots and cache free at once: with its answer, or given up. */
void lane_end_task(struct lane *lane, struct task *task);
void lane_give_up_task(struct lane *lane, struct task *task);
/* Fails the request of the task; the row ends at the next lane_drop_off(). */
void lane_fail(struct lane *lane, struct task *task, const struct error *error);

/* A row has ended, wherever it was; the last one completes its request. */
void engine_end_row(struct engine *engine, struct row *row);
/* A row that was taken is given up, `rows` at once in its lane. */
void engine_observe_late(struct engine *engine, const struct row *row, size_t rows);
/* What a row that is given up means for its request: an error, or, if it may, a partial answer. */
void engine_give_up_row(struct engine *engine, struct row *row);

#endif
