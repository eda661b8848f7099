#include "decode_parts.h"
#include "fields.h"
#include "http/writer.h"

const char *const decode_encode_fields[] = { "pooling", "normalize", "encoding_format",
                                             "output_attentions", NULL };

static const char *const poolings[] = {
    [POOLING_NONE] = "none", [POOLING_MEAN] = "mean", [POOLING_MAX] = "max",
    [POOLING_CLS] = "cls",   [POOLING_LAST] = "last", NULL,
};

static double answer_bytes(const struct job *job)
{
    const struct model_config *config = &job->served->model->config;
    const struct request *request = job->request;
    const size_t dim = pooling_dim(job->served->model, request->pooling);
    double bytes = 0;
    for (size_t i = 0; i < request->row_count; i++) {
        const size_t places = request->rows[i].sent_count;
        const size_t floats = request->pooling == POOLING_NONE ? places * dim : dim;
        bytes +=
            job->base64 ? (double)writer_base64_bytes(floats) : (double)floats * DECODE_FLOAT_BYTES;
        if (request->output_attentions)
            bytes += (double)(config->encoder.layers * config->encoder.heads) * (double)places *
                     (double)places * DECODE_FLOAT_BYTES;
    }
    return bytes;
}

int decode_encode(struct job *job, const json_t *body, const struct limits *limits,
                  struct error *err)
{
    static const char *const formats[] = { "float", "base64", NULL };
    struct request *request = job->request;
    const struct sentence *sentence = job->served->model->sentence;
    int pooling = sentence ? POOLING_FOLDER : POOLING_NONE, format = 0;
    if (fields_choice(body, "pooling", poolings, &pooling, err) < 0)
        return -1;
    request->pooling = (enum pooling)pooling;
    request->normalize = sentence && sentence->normalize && pooling != POOLING_NONE;
    if (fields_bool(body, "normalize", &request->normalize, err) < 0 ||
        fields_choice(body, "encoding_format", formats, &format, err) < 0 ||
        fields_bool(body, "output_attentions", &request->output_attentions, err) < 0)
        return -1;
    if (request->normalize && pooling == POOLING_NONE)
        return error_at(err, ERR_UNSUPPORTED, "normalize",
                        "normalize scales pooled vectors; pooling is \"none\"");
    job->base64 = format == 1;
    return decode_check_size(job, answer_bytes(job), limits, err);
}
