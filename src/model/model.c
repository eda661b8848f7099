#include "model/model.h"

#include <string.h>

#include "base/mem.h"
#include "bind.h"
#include "model/sentence.h"
#include "pack_cache.h"
#include "weights.h"

/* What modules.json adds, if the folder has one. */
static int open_sentence(struct model *model, const struct kernels *kernels, struct error *err)
{
    if (sentence_open(&model->sentence, model->dir, model->config.width, kernels, err) < 0)
        return -1;
    if (model->sentence) {
        model->parameter_count += model->sentence->parameter_count;
        model->mapped_bytes += model->sentence->mapped_bytes;
        model->copied_bytes += model->sentence->copied_bytes;
    }
    return 0;
}

/* `findings`, if not NULL, hear of every tensor at fault and of every unused one. */
static int open_weights(struct model *model, const struct kernels *kernels,
                        const struct packed_copy *packed, struct findings *findings,
                        struct error *err)
{
    if (weights_open(&model->weights, model->dir, err) < 0 ||
        (packed && weight_files_add(&model->weights->tensors, packed->dir, packed->name, err) < 0))
        return -1;
    model->weights->findings = findings;
    const int rc = model_bind(model, kernels, err);
    if (rc == 0 || findings)
        weights_warn_unused(model->weights);
    model->dtype = weights_dtype(model->weights, &model->parameter_count);
    model->mapped_bytes = model->weights->tensors.mapped_bytes;
    model->copied_bytes = model->weights->copied_bytes;
    return rc;
}

static struct model *create(const char *dir, const char *name, struct error *err)
{
    struct model *model = mem_alloc(1, sizeof *model);
    if (model) {
        model->name = mem_text(name);
        model->dir = mem_text(dir);
    }
    if (!model || !model->name || !model->dir) {
        model_close(&model);
        error_set(err, ERR_NO_MEMORY, "%s", dir);
    }
    return model;
}

int model_open(struct model **out, const char *dir, const char *name, const struct kernels *kernels,
               struct error *err)
{
    return model_open_beside(out, dir, name, kernels, NULL, err);
}

int model_open_beside(struct model **out, const char *dir, const char *name,
                      const struct kernels *kernels, const struct packed_copy *packed,
                      struct error *err)
{
    struct model *model = create(dir, name, err);
    if (model && (config_read(&model->config, &model->defaults, dir, err) < 0 ||
                  open_weights(model, kernels, packed, NULL, err) < 0 ||
                  open_sentence(model, kernels, err) < 0))
        model_close(&model);
    *out = model;
    return model ? 0 : -1;
}

struct model *model_examine(const char *dir, const struct kernels *kernels,
                            struct findings *findings)
{
    struct error err = { 0 };
    struct model *model = create(dir, dir, &err);
    if (!model || config_read(&model->config, &model->defaults, dir, &err) < 0) {
        findings_add(findings, FINDING_PROBLEM, NULL, err.message);
        model_close(&model);
        return NULL;
    }
    const bool at_a_tensor = open_weights(model, kernels, NULL, findings, &err) < 0 && err.param[0];
    if (err.code != ERR_NONE && !at_a_tensor) /* tensors were found one by one */
        findings_add(findings, FINDING_PROBLEM, NULL, err.message);
    err = (struct error){ 0 };
    if (open_sentence(model, kernels, &err) < 0)
        findings_add(findings, FINDING_PROBLEM, NULL, err.message);
    return model;
}

void model_count(const struct model *model, size_t counts[DTYPE_COUNT])
{
    if (model->weights)
        weights_count(model->weights, counts);
    else
        memset(counts, 0, DTYPE_COUNT * sizeof *counts);
}

const char *model_tensor_name(const struct model *model, const void *data)
{
    return model->weights ? weights_name(model->weights, data) : NULL;
}

void model_close(struct model **model)
{
    struct model *m = *model;
    *model = NULL;
    if (!m)
        return;
    mem_free(m->encoder.layers);
    mem_free(m->decoder.layers);
    sentence_close(&m->sentence);
    weights_close(&m->weights);
    settings_free(&m->defaults);
    mem_free(m->name);
    mem_free(m->dir);
    mem_free(m);
}
