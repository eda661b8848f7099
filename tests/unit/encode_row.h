/* encode_row.h — the encoder's states of one row, for tests. */
#ifndef TESTS_ENCODE_ROW_H
#define TESTS_ENCODE_ROW_H

#include <assert.h>
#include <stdlib.h>

#include "model/forward.h"

/* x (row->count, D). */
static inline void encode_row(const struct pass *pass, const struct source_row *row, float *x)
{
    const struct model_config *config = &pass->model->config;
    float *projected = calloc(encoding_floats(config, row->count), sizeof *projected);
    struct encoding encoding = { .rows = row, .row_count = 1, .M = row->count, .x = x };
    assert(projected);
    encoding_place(&encoding, config, projected);
    encoder_embed(pass, &encoding);
    for (size_t i = 0; i < config->encoder.layers; i++)
        encoder_layer(pass, i, &encoding);
    encoder_finish(pass, x, row->count);
    free(projected);
}

#endif
