/* The same for programs: one JSON object. */
#include "inspect.h"

#include <math.h>
#include <string.h>

#include "http/describe.h"

static void write_size(struct writer *writer, const char *name, size_t value)
{
    writer_key(writer, name);
    if (value == SIZE_MAX)
        writer_null(writer);
    else
        writer_integer(writer, (int64_t)value);
}

static void write_text(struct writer *writer, const char *name, const char *text)
{
    writer_key(writer, name);
    writer_text(writer, text);
}

static void write_bool(struct writer *writer, const char *name, bool value)
{
    writer_key(writer, name);
    writer_bool(writer, value);
}

static void write_parameters(struct writer *writer, const struct model *model)
{
    size_t counts[DTYPE_COUNT];
    model_count(model, counts);
    writer_key(writer, "parameters");
    writer_begin(writer, '{');
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (counts[dtype] > 0)
            write_size(writer, dtype_name(dtype), counts[dtype]);
    writer_end(writer, '}');
}

static void write_stack(struct writer *writer, const char *name, const struct stack_shape *shape)
{
    writer_key(writer, name);
    writer_begin(writer, '{');
    write_size(writer, "layers", shape->layers);
    write_size(writer, "heads", shape->heads);
    write_size(writer, "key_width", shape->key_width);
    write_size(writer, "value_width", shape->value_width);
    write_size(writer, "inner_width", shape->inner_width);
    writer_end(writer, '}');
}

static void write_architecture(struct writer *writer, const struct model_config *config)
{
    char text[200];
    writer_key(writer, "architecture");
    writer_begin(writer, '{');
    inspect_norms(config, text, sizeof text);
    write_text(writer, "norms", text);
    inspect_positions(config, text, sizeof text);
    write_text(writer, "positions", text);
    inspect_scores(config, &config->encoder, config->relative_buckets > 0, text, sizeof text);
    write_text(writer, "attention", text);
    inspect_feed_forward(config, text, sizeof text);
    write_text(writer, "feed_forward", text);
    write_bool(writer, "attention_bias", config->attention_bias);
    write_bool(writer, "feed_forward_bias", config->ffn_bias);
    writer_end(writer, '}');
}

static void write_tables(struct writer *writer, const struct model *model)
{
    writer_key(writer, "tables");
    writer_begin(writer, '{');
    write_text(writer, "source", model_tensor_name(model, model->encoder.tokens.data));
    write_text(writer, "target", model_tensor_name(model, model->decoder.tokens.data));
    write_text(writer, "output", model_tensor_name(model, model->output.w.data));
    writer_end(writer, '}');
}

static void write_step(void *context, const struct walk_step *step)
{
    static const char *const parts[] = {
        [WALK_ENCODER] = "encoder", [WALK_DECODER] = "decoder", [WALK_MODULES] = "modules"
    };
    struct writer *writer = context;
    writer_begin(writer, '{');
    write_text(writer, "part", parts[step->part]);
    write_bool(writer, "in_each_layer", step->in_layer);
    write_text(writer, "name", step->name);
    writer_key(writer, "shape");
    writer_begin(writer, '[');
    for (size_t i = 0; i < step->rank; i++) {
        const char letter[2] = { step->shape[i].letter };
        if (letter[0])
            writer_text(writer, letter);
        else
            writer_integer(writer, (int64_t)step->shape[i].size);
    }
    writer_end(writer, ']');
    write_text(writer, "note", step->note);
    writer_end(writer, '}');
}

static void write_memory(struct writer *writer, const struct inspection *in)
{
    const struct lane_memory *memory = &in->memory;
    const size_t target_max = config_generates(&in->model->config) ? memory->target_max : 0;
    writer_key(writer, "memory");
    writer_begin(writer, '{');
    write_size(writer, "mapped_bytes", in->model->mapped_bytes);
    write_size(writer, "copied_bytes", in->model->copied_bytes);
    write_size(writer, "workers", in->crew.workers);
    write_size(writer, "threads", in->crew.threads);
    writer_key(writer, "worker");
    writer_begin(writer, '{');
    write_size(writer, "step_tokens", memory->step_tokens);
    write_size(writer, "scratch_bytes", memory->scratch_bytes);
    write_size(writer, "states_bytes",
               memory->hidden_bytes + memory->projected_bytes + 2 * memory->states_bytes);
    write_size(writer, "logits_bytes", memory->logits_bytes);
    write_size(writer, "kv_cache_bytes", memory->cache_floats * sizeof(float));
    write_size(writer, "bytes", lane_memory_bytes(memory));
    writer_end(writer, '}');
    writer_key(writer, "row");
    writer_begin(writer, '{');
    write_size(writer, "kv_cache_bytes_per_token", inspect_row_bytes(in, 1, 0));
    write_size(writer, "source_tokens_max", inspect_source_max(in));
    write_size(writer, "target_tokens_max", target_max);
    write_size(writer, "kv_cache_bytes_max",
               inspect_row_bytes(in, inspect_source_max(in), target_max));
    writer_end(writer, '}');
    write_size(writer, "bytes", inspect_memory_bytes(in));
    writer_end(writer, '}');
}

static void write_findings(struct writer *writer, const char *name, const struct findings *findings,
                           enum finding_kind kind)
{
    writer_key(writer, name);
    writer_begin(writer, '[');
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        if (finding->kind != kind)
            continue;
        writer_begin(writer, '{');
        write_text(writer, "tensor", finding->tensor);
        write_text(writer, "message", finding->text);
        writer_end(writer, '}');
    }
    writer_end(writer, ']');
}

static void write_model(struct writer *writer, const struct inspection *in)
{
    const struct model *model = in->model;
    write_text(writer, "family", model->config.family);
    write_bool(writer, "generates", config_generates(&model->config));
    write_bool(writer, "tokenizer", in->tokenizer != NULL);
    write_text(writer, "dtype", dtype_name(model->dtype));
    write_parameters(writer, model);
    describe_sizes(writer, model);
    write_stack(writer, "encoder", &model->config.encoder);
    write_stack(writer, "decoder", &model->config.decoder);
    write_architecture(writer, &model->config);
    write_tables(writer, model);
    describe_encode(writer, model);
    if (in->defaults_known)
        describe_options(writer, model, &in->defaults);
    writer_key(writer, "shapes");
    writer_begin(writer, '[');
    inspect_walk(model, write_step, writer);
    writer_end(writer, ']');
    write_memory(writer, in);
}

void inspect_print_json(const struct inspection *in, struct buffer *out)
{
    struct writer writer = { .out = out };
    writer_begin(&writer, '{');
    write_text(&writer, "folder", in->folder);
    write_bool(&writer, "servable", in->findings.problem_count == 0);
    if (in->model)
        write_model(&writer, in);
    write_findings(&writer, "problems", &in->findings, FINDING_PROBLEM);
    write_findings(&writer, "warnings", &in->findings, FINDING_WARNING);
    writer_end(&writer, '}');
    buffer_text(out, "\n");
}
