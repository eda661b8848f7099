#include "engine_metrics.h"

#include <stdio.h>

static const double count_bounds[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };
#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct histogram *seconds(const struct engine_metrics *m, const char *name, const char *help)
{
    return metrics_histogram(m->registry, name, help, m->model_label, metrics_seconds_bounds,
                             METRICS_SECONDS_BOUNDS);
}

static struct histogram *counts(const struct engine_metrics *m, const char *name, const char *help,
                                const char *phase)
{
    char labels[600];
    snprintf(labels, sizeof labels, "%s%s%s%s", m->model_label, phase ? ",phase=\"" : "",
             phase ? phase : "", phase ? "\"" : "");
    return metrics_histogram(m->registry, name, help, labels, count_bounds, COUNT(count_bounds));
}

static struct counter *with_reason(const struct engine_metrics *m, const char *name,
                                   const char *help, const char *reason)
{
    char labels[600];
    snprintf(labels, sizeof labels, "%s,reason=\"%s\"", m->model_label, reason);
    return metrics_counter(m->registry, name, help, labels);
}

static struct counter *rejected(const struct engine_metrics *m, const char *reason)
{
    return with_reason(m, "seqd_requests_rejected_total",
                       "Requests refused before they were queued.", reason);
}

static struct counter *cancelled(const struct engine_metrics *m, enum error_code reason)
{
    const char *name = reason == ERR_DEADLINE      ? "deadline"
                       : reason == ERR_CLIENT_GONE ? "client_gone"
                                                   : "shutdown";
    return with_reason(m, "seqd_requests_cancelled_total", "Accepted requests that were given up.",
                       name);
}

static void set_constant(const struct engine_metrics *m, const char *name, const char *help,
                         size_t value)
{
    gauge_set(metrics_gauge(m->registry, name, help, m->model_label), (double)value);
}

static void init_histograms(struct engine_metrics *m)
{
    m->queue_wait = seconds(m, "seqd_queue_wait_seconds", "Time a row waited for a lane.");
    m->encode_duration = seconds(m, "seqd_encode_duration_seconds", "Time to encode a batch.");
    m->step_duration = seconds(m, "seqd_decode_step_duration_seconds", "Time of a decoder step.");
    m->inter_token = seconds(m, "seqd_inter_token_latency_seconds",
                             "Time between two tokens of a row, averaged over the row.");
    m->first_token = seconds(m, "seqd_time_to_first_token_seconds",
                             "From the last byte of a request to the first token of a row.");
    m->source_tokens = counts(m, "seqd_sequence_source_tokens", "Source tokens of a row.", NULL);
    m->sequence_tokens =
        counts(m, "seqd_sequence_generated_tokens", "Generated tokens of a sequence.", NULL);
    static const char *const phases[] = { "encode", "decode" };
    for (int i = 0; i < 2; i++) {
        m->batch_sequences[i] =
            counts(m, "seqd_batch_sequences", "Sequences in one pass.", phases[i]);
        m->batch_tokens[i] = counts(m, "seqd_batch_tokens", "Tokens in one pass.", phases[i]);
    }
}

static void init_label(struct engine_metrics *m, const char *model)
{
    struct buffer label;
    buffer_init(&label, sizeof m->model_label - 1);
    metrics_label(&label, "model", model);
    snprintf(m->model_label, sizeof m->model_label, "%s",
             label.state == BUFFER_OK && label.data ? label.data : "model=\"\"");
    buffer_free(&label);
}

/* What alerts and autoscalers look at is there before it happens. */
static void init_reasons(struct engine_metrics *m)
{
    static const char *const refusals[] = { "queue_full", "over_limit", "no_memory",
                                            "shutting_down" };
    static const enum error_code reasons[] = { ERR_DEADLINE, ERR_CLIENT_GONE, ERR_SHUTTING_DOWN };
    for (size_t i = 0; i < COUNT(refusals); i++)
        rejected(m, refusals[i]);
    for (size_t i = 0; i < COUNT(reasons); i++)
        cancelled(m, reasons[i]);
    for (enum finish_reason r = FINISH_EOS; r <= FINISH_TIMEOUT; r++)
        m->finished[r] = with_reason(m, "seqd_sequences_finished_total", "Generated sequences.",
                                     finish_reason_name(r));
}

void engine_metrics_init(struct engine_metrics *m, struct metrics *registry, const char *model)
{
    *m = (struct engine_metrics){ .registry = registry };
    init_label(m, model);
    m->prompt_tokens = metrics_counter(registry, "seqd_prompt_tokens_total",
                                       "Source tokens encoded.", m->model_label);
    m->generated_tokens = metrics_counter(registry, "seqd_generated_tokens_total",
                                          "Tokens of answered sequences.", m->model_label);
    m->nonfinite_outputs = metrics_counter(registry, "seqd_nonfinite_outputs_total",
                                           "Rows whose output was not finite.", m->model_label);
    metrics_counter(registry, "seqd_padding_tokens_total",
                    "Work spent on padding: rows are packed, so it stays 0.", m->model_label);
    init_reasons(m);
    init_histograms(m);
    m->queue_sequences =
        metrics_gauge(registry, "seqd_queue_sequences", "Rows that wait.", m->model_label);
    m->expected_wait =
        metrics_gauge(registry, "seqd_expected_wait_seconds",
                      "What a request that comes now would wait for, judged by the "
                      "pace of the last crowd; 0: nobody waits, or no pace is known.",
                      m->model_label);
    m->active_sequences =
        metrics_gauge(registry, "seqd_active_sequences",
                      "Hypotheses of admitted rows; a row to encode is one.", m->model_label);
    m->kv_cache_bytes = metrics_gauge(registry, "seqd_kv_cache_bytes",
                                      "Key/value cache reserved by rows.", m->model_label);
}

void engine_metrics_publish(struct engine_metrics *m, const struct model *model,
                            const struct engine_config *config, const struct limits *limits)
{
    set_constant(m, "seqd_queue_limit_sequences", "Rows that may wait.", limits->queue_sequences);
    set_constant(m, "seqd_active_sequences_limit", "Hypotheses that may live at once.",
                 config->batch_sequences * config->workers);
    set_constant(m, "seqd_kv_cache_limit_bytes", "Key/value cache.", config->kv_cache_bytes);
    set_constant(m, "seqd_model_mapped_bytes", "Bytes of mapped weight files.",
                 model->mapped_bytes);
    char labels[700];
    snprintf(labels, sizeof labels, "%s,family=\"%s\",dtype=\"%s\"", m->model_label,
             model->config.family, dtype_name(model->dtype));
    metrics_hide(m->registry, "seqd_model_info", "model", model->name);
    gauge_set(metrics_gauge(m->registry, "seqd_model_info", "What is loaded.", labels), 1.0);
}

void engine_metrics_rejected(struct engine_metrics *m, const char *reason)
{
    counter_add(rejected(m, reason), 1.0);
}

void engine_metrics_cancelled(struct engine_metrics *m, enum error_code reason)
{
    counter_add(cancelled(m, reason), 1.0);
}
