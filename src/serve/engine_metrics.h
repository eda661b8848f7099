/* engine_metrics.h — the series of one model.  Private to src/serve; updates from any thread. */
#ifndef SERVE_ENGINE_METRICS_H
#define SERVE_ENGINE_METRICS_H

#include "base/metrics.h"
#include "serve/engine.h"

struct engine_metrics {
    struct metrics *registry;
    char model_label[512]; /* model="…", escaped */

    struct counter *prompt_tokens, *generated_tokens, *nonfinite_outputs;
    struct counter *finished[FINISH_TIMEOUT + 1];
    struct histogram *queue_wait, *encode_duration, *step_duration, *first_token;
    struct histogram *inter_token, *source_tokens, *sequence_tokens;
    struct histogram *batch_sequences[2], *batch_tokens[2]; /* by enum engine_phase */
    struct gauge *queue_sequences, *active_sequences, *kv_cache_bytes, *expected_wait;
};

enum engine_phase { PHASE_ENCODE, PHASE_DECODE };

/* Makes the series of what a model does; new ones are 0. */
void engine_metrics_init(struct engine_metrics *metrics, struct metrics *registry,
                         const char *model);

/* Sets those of what the model is and may. */
void engine_metrics_publish(struct engine_metrics *metrics, const struct model *model,
                            const struct engine_config *config, const struct limits *limits);

void engine_metrics_rejected(struct engine_metrics *metrics, const char *reason);
void engine_metrics_cancelled(struct engine_metrics *metrics, enum error_code reason);

#endif
