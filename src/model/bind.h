/* bind.h — finding a model's tensors by its family's names.  Private to src/model. */
#ifndef MODEL_BIND_H
#define MODEL_BIND_H

#include "model/model.h"

/* Fills the model's stacks and output from model->weights by model->config.  Errors: ERR_BAD_MODEL
 * names the first tensor that is missing or has another shape than config.json asks, and counts the
 * others; ERR_NO_MEMORY. */
int model_bind(struct model *model, const struct kernels *kernels, struct error *err);

#endif
