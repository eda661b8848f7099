#include "serve/lane_memory.h"

#include "base/arena.h"
#include "model/forward.h"
#include "model/sentence.h"

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

void lane_memory_plan(struct lane_memory *memory, const struct model *model,
                      const struct engine_config *config, const struct limits *limits)
{
    const struct model_config *c = &model->config;
    const bool generates = config_generates(c);
    const size_t places = config->batch_tokens + BESIDE_TOKENS;
    const size_t steps = generates ? config->batch_sequences + config->step_tokens : 0;
    *memory = (struct lane_memory){
        /* start, prefix and new tokens; targets to score */
        .target_max = lesser(1 + limits->target_tokens + limits->max_new_tokens, c->positions_max),
        .token_places = places,
        .step_tokens = steps,
        .hidden_bytes = arena_need(places * c->width, sizeof(float)),
        .projected_bytes = arena_need(encoding_floats(c, places), sizeof(float)),
        .states_bytes = arena_need(steps * c->width, sizeof(float)),
        .logits_bytes = arena_need(steps * c->target_vocabulary, sizeof(float)),
        .cache_floats = generates ? config->kv_cache_bytes / config->workers / sizeof(float) : 0,
    };
    memory->scratch_bytes =
        greater(pass_scratch_bytes(c, greater(steps, CROSS_TOKENS), limits->source_tokens,
                                   memory->target_max, config->threads),
                pooling_scratch_bytes(model));
}

size_t lane_memory_batch_bytes(const struct lane_memory *memory)
{
    return memory->hidden_bytes + memory->projected_bytes + 2 * memory->states_bytes +
           memory->logits_bytes;
}

size_t lane_memory_bytes(const struct lane_memory *memory)
{
    return memory->scratch_bytes + lane_memory_batch_bytes(memory) +
           memory->cache_floats * sizeof(float);
}
