/* lane_memory.h — what one lane of an engine reserves, known before any engine is opened.  Each
 * figure has this one place: lanes are opened by it. */
#ifndef SERVE_LANE_MEMORY_H
#define SERVE_LANE_MEMORY_H

#include "serve/engine.h"

/* Tokens whose cross keys and values are computed at once. */
enum { CROSS_TOKENS = 128 };

/* Token places that are left when a pass has as many as it may: short rows find room beside the
 * longest one. */
enum { BESIDE_TOKENS = 256 };

/* Bytes are of address space, touched as needed. */
struct lane_memory {
    size_t target_max;   /* tokens of the longest hypothesis that the limits let in */
    size_t token_places; /* of source tokens that are in a lane at once */
    size_t step_tokens; /* of a decoder step: live hypotheses, and pieces of prefixes and targets */
    size_t scratch_bytes;   /* of one pass or pooling */
    size_t hidden_bytes;    /* the encoder's states, (token_places, D) */
    size_t projected_bytes; /* its queries, keys and values of one layer */
    size_t states_bytes;    /* the decoder's of a step, (step_tokens, D); two of these */
    size_t logits_bytes;    /* (step_tokens, V) */
    size_t cache_floats;    /* of keys and values; 0: the model only encodes */
};

/* `config` with `workers` known. */
void lane_memory_plan(struct lane_memory *memory, const struct model *model,
                      const struct engine_config *config, const struct limits *limits);

/* What lives from layer to layer: hidden, projected, states twice and logits. */
size_t lane_memory_batch_bytes(const struct lane_memory *memory);

/* All that one lane reserves. */
size_t lane_memory_bytes(const struct lane_memory *memory);

#endif
