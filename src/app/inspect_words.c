/* A model's variations in words. */
#include "inspect.h"

#include <stdio.h>
#include <string.h>

static void append(char *out, size_t size, const char *text)
{
    const size_t length = strlen(out);
    snprintf(out + length, size - length, "%s", text);
}

void inspect_norms(const struct model_config *config, char *out, size_t size)
{
    static const char *const kinds[] = { [NORM_LAYER] = "layer norm",
                                         [NORM_LAYER_UNBIASED] = "layer norm over N-1",
                                         [NORM_RMS] = "RMS norm" };
    static const char *const places[] = {
        [NORM_POST] = "behind each sublayer (post-norm)",
        [NORM_PRE] = "before each sublayer (pre-norm)",
        [NORM_PRE_QUERY] = "before each sublayer (pre-norm; not on self keys and values)"
    };
    snprintf(out, size, "%s %s", kinds[config->norm_kind], places[config->norm_position]);
    if (config->embedding_norm)
        append(out, size,
               config->embedding_norm_first ? ", on embeddings (the decoder's before positions)"
                                            : ", on embeddings");
    if (config->final_norm)
        append(out, size, ", behind each stack");
    snprintf(out + strlen(out), size - strlen(out), "; eps %g", (double)config->norm_eps);
}

static void relative(const struct model_config *config, char *out, size_t size)
{
    if (config->relative_buckets == 0)
        return;
    if (out[0])
        append(out, size, "; ");
    const size_t length = strlen(out);
    snprintf(out + length, size - length, "relative bias, %zu buckets to distance %zu%s",
             config->relative_buckets, config->relative_distance,
             config->relative_every_layer ? ", a table in each layer" : "");
}

void inspect_positions(const struct model_config *config, char *out, size_t size)
{
    static const char *const kinds[POSITION_KIND_COUNT] = {
        [POSITION_SINUSOIDAL] = "sinusoids, sin and cos in turn",
        [POSITION_LEARNED] = "learned",
        [POSITION_NONE] = "",
        [POSITION_HALVES] = "sinusoids, sines then cosines",
        [POSITION_FAIRSEQ] = "sinusoids of fairseq's wavelengths"
    };
    snprintf(out, size, "%s", kinds[config->position_kind]);
    if (config->position_kind == POSITION_LEARNED)
        snprintf(out, size, "learned, %zu rows", config->position_rows);
    if (config->position_offset > 0 && config->position_count == COUNT_PLACES)
        snprintf(out + strlen(out), size - strlen(out), " (the first is %zu)",
                 config->position_offset);
    if (config->position_count != COUNT_PLACES)
        append(out, size, ", padding not counted");
    relative(config, out, size);
    if (!out[0])
        append(out, size, "none");
    if (config->positions_max != SIZE_MAX)
        snprintf(out + strlen(out), size - strlen(out), "; at most %zu tokens",
                 config->positions_max);
    else
        append(out, size, "; no limit");
}

void inspect_scores(const struct model_config *config, const struct stack_shape *shape,
                    bool relative, char *out, size_t size)
{
    const char *const bias = relative ? " + bias" : "";
    switch (config->attention_score) {
    case SCORE_SCALED_DOT:
        snprintf(out, size, "softmax(q·k / √%zu%s)", shape->key_width, bias);
        break;
    case SCORE_DOT:
        snprintf(out, size, "softmax(q·k%s)", bias);
        break;
    case SCORE_COSINE:
        snprintf(out, size, "softmax(cos(q, k) / %g%s)", (double)config->attention_temperature,
                 bias);
        break;
    case SCORE_ADDITIVE:
        snprintf(out, size, "softmax(w·tanh(q + k)%s)", bias);
        break;
    }
}

void inspect_feed_forward(const struct model_config *config, char *out, size_t size)
{
    const bool bias = config->ffn_bias;
    const char *name = activation_name(config->activation);
    if (config->gated)
        snprintf(out, size, bias ? "(%s(x·W1 + b1) * (x·W3 + b3))·W2 + b2" : "(%s(x·W1) * x·W3)·W2",
                 name);
    else
        snprintf(out, size, bias ? "%s(x·W1 + b1)·W2 + b2" : "%s(x·W1)·W2", name);
}

struct inspect_name inspect_table_name(const struct model *model, const void *data)
{
    static const char end[] = ".weight";
    struct inspect_name name;
    const char *full = model_tensor_name(model, data);
    snprintf(name.text, sizeof name.text, "%s", full ? full : "");
    char *last = strrchr(name.text, '.');
    if (last && strcmp(last, end) == 0)
        *last = '\0';
    return name;
}
