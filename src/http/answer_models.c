#include "answer.h"
#include "http/describe.h"

void describe_value(struct writer *writer, const struct value *value)
{
    switch (value->kind) {
    case VALUE_NULL:
    case VALUE_OBJECT:
        writer_null(writer);
        return;
    case VALUE_BOOL:
        writer_bool(writer, value->boolean);
        return;
    case VALUE_INT:
        writer_integer(writer, value->integer);
        return;
    case VALUE_REAL:
        writer_float(writer, (float)value->real);
        return;
    case VALUE_TEXT:
        writer_text(writer, value->text);
        return;
    case VALUE_LIST:
        writer_begin(writer, '[');
        for (size_t i = 0; i < value->count; i++)
            describe_value(writer, &value->items[i]);
        writer_end(writer, ']');
        return;
    }
}

static void write_option(void *context, const char *name, const struct value *value)
{
    struct writer *writer = context;
    writer_key(writer, name);
    describe_value(writer, value);
}

struct size_field {
    const char *name;
    size_t value; /* SIZE_MAX: null */
};

static void write_sizes(struct writer *writer, const char *name, const struct size_field *fields,
                        size_t count)
{
    writer_key(writer, name);
    writer_begin(writer, '{');
    for (size_t i = 0; i < count; i++) {
        writer_key(writer, fields[i].name);
        if (fields[i].value == SIZE_MAX)
            writer_null(writer);
        else
            writer_integer(writer, (int64_t)fields[i].value);
    }
    writer_end(writer, '}');
}

void describe_sizes(struct writer *writer, const struct model *model)
{
    const struct model_config *config = &model->config;
    const struct size_field fields[] = {
        { "parameters", model->parameter_count },
        { "mapped_bytes", model->mapped_bytes },
        { "dim", config->width },
        { "encoder_layers", config->encoder.layers },
        { "decoder_layers", config->decoder.layers },
        { "heads", config->encoder.heads },
        { "decoder_heads", config->decoder.heads },
        { "source_vocabulary", config->source_vocabulary },
        { "target_vocabulary", config->target_vocabulary },
        { "positions", config->positions_max },
    };
    write_sizes(writer, "sizes", fields, sizeof fields / sizeof *fields);
}

void describe_encode(struct writer *writer, const struct model *model)
{
    const struct sentence *sentence = model->sentence;
    writer_key(writer, "encode");
    writer_begin(writer, '{');
    writer_key(writer, "pooling");
    if (sentence) {
        writer_begin(writer, '[');
        for (size_t i = 0; i < sentence->mode_count; i++)
            writer_text(writer, pooling_name(sentence->modes[i]));
        writer_end(writer, ']');
    } else {
        writer_text(writer, pooling_name(POOLING_NONE));
    }
    writer_key(writer, "normalize");
    writer_bool(writer, sentence && sentence->normalize);
    writer_key(writer, "dim");
    writer_integer(writer, (int64_t)pooling_dim(model, sentence ? POOLING_FOLDER : POOLING_NONE));
    writer_key(writer, "max_seq_length");
    if (sentence && sentence->tokens_max != SIZE_MAX)
        writer_integer(writer, (int64_t)sentence->tokens_max);
    else
        writer_null(writer);
    writer_end(writer, '}');
}

void describe_options(struct writer *writer, const struct model *model,
                      const struct options *options)
{
    writer_key(writer, "default_options");
    if (!config_generates(&model->config)) {
        writer_null(writer);
        return;
    }
    writer_begin(writer, '{');
    options_describe(options, write_option, writer);
    writer_end(writer, '}');
}

static void write_limits(struct writer *writer, const struct limits *limits)
{
    const struct size_field fields[] = {
        { "body_bytes", limits->body_bytes },
        { "bodies_bytes", limits->bodies_bytes },
        { "response_bytes", limits->response_bytes },
        { "answers_bytes", limits->answers_bytes },
        { "sequences", limits->sequences },
        { "source_tokens", limits->source_tokens },
        { "target_tokens", limits->target_tokens },
        { "beams", limits->beams },
        { "return_sequences", limits->return_sequences },
        { "top_logprobs", limits->top_logprobs },
        { "option_tokens", limits->option_tokens },
        { "default_max_new_tokens", limits->default_max_new_tokens },
        { "max_new_tokens", limits->max_new_tokens },
        { "queue_sequences", limits->queue_sequences },
        { "request_timeout_ms", (size_t)limits->request_timeout_ms },
    };
    write_sizes(writer, "limits", fields, sizeof fields / sizeof *fields);
}

static void write_model(struct writer *writer, const struct served_model *served,
                        const struct limits *limits)
{
    const struct model *model = served->model;
    writer_begin(writer, '{');
    writer_key(writer, "id");
    writer_text(writer, served->name);
    writer_key(writer, "aliases");
    writer_begin(writer, '[');
    for (char *const *alias = served->aliases; alias && *alias; alias++)
        writer_text(writer, *alias);
    writer_end(writer, ']');
    writer_key(writer, "object");
    writer_text(writer, "model");
    writer_key(writer, "created");
    writer_integer(writer, served->created_unix);
    writer_key(writer, "owned_by");
    writer_text(writer, "seqd");
    writer_key(writer, "family");
    writer_text(writer, model->config.family);
    writer_key(writer, "dtype");
    writer_text(writer, dtype_name(model->dtype));
    writer_key(writer, "tokenizer");
    writer_bool(writer, served->tokenizer != NULL);
    describe_sizes(writer, model);
    describe_encode(writer, model);
    write_limits(writer, limits);
    describe_options(writer, model, &served->defaults);
    writer_end(writer, '}');
}

void answer_model(struct buffer *out, const struct served_model *served,
                  const struct limits *limits)
{
    struct writer writer = { .out = out };
    write_model(&writer, served, limits);
}

void answer_models(struct buffer *out, const struct registry *registry, const struct limits *limits)
{
    struct writer writer = { .out = out };
    writer_begin(&writer, '{');
    writer_key(&writer, "object");
    writer_text(&writer, "list");
    writer_key(&writer, "data");
    writer_begin(&writer, '[');
    for (size_t i = 0; i < registry->count; i++)
        write_model(&writer, &registry->models[i], limits);
    writer_end(&writer, ']');
    writer_end(&writer, '}');
}
