/* What a lane reserves, against figures counted by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/forward.h"
#include "serve/lane_memory.h"

static const struct limits limits = { .source_tokens = 100,
                                      .target_tokens = 30,
                                      .max_new_tokens = 60 };
static const struct engine_config engine = { .threads = 2,
                                             .workers = 3,
                                             .batch_sequences = 16,
                                             .batch_tokens = 128,
                                             .step_tokens = 48,
                                             .kv_cache_bytes = 3 << 20 };
enum { PLACES = 128 + 256 };
static const struct model model = {
    .config = { .width = 32,
                .encoder = { 2, 4, 8, 8, 64 },
                .decoder = { 2, 4, 8, 8, 64 },
                .source_vocabulary = 10,
                .target_vocabulary = 20,
                .positions_max = SIZE_MAX },
};

static void a_lane_reserves_what_its_limits_ask_for(void **state)
{
    (void)state;
    struct lane_memory memory;
    lane_memory_plan(&memory, &model, &engine, &limits);
    assert_int_equal(memory.target_max, 1 + 30 + 60);
    assert_int_equal(memory.step_tokens, 16 + 48);
    assert_int_equal(memory.hidden_bytes, PLACES * 32 * 4);
    assert_int_equal(memory.states_bytes, 64 * 32 * 4);
    assert_int_equal(memory.logits_bytes, 64 * 20 * 4);
    assert_int_equal(memory.cache_floats, (1 << 20) / 4);
    assert_int_equal(memory.projected_bytes, encoding_floats(&model.config, PLACES) * 4);
    assert_int_equal(memory.scratch_bytes,
                     pass_scratch_bytes(&model.config, CROSS_TOKENS, 100, 91, 2));
    assert_int_equal(lane_memory_batch_bytes(&memory),
                     PLACES * 32 * 4 + memory.projected_bytes + 2 * 64 * 32 * 4 + 64 * 20 * 4);
    assert_int_equal(lane_memory_bytes(&memory),
                     memory.scratch_bytes + lane_memory_batch_bytes(&memory) + (1 << 20));
}

static void no_hypothesis_is_longer_than_the_models_positions(void **state)
{
    (void)state;
    struct lane_memory memory;
    struct model shorter = model;
    shorter.config.positions_max = 50;
    lane_memory_plan(&memory, &shorter, &engine, &limits);
    assert_int_equal(memory.target_max, 50);
}

static void an_encoder_reserves_neither_cache_nor_steps(void **state)
{
    (void)state;
    struct lane_memory memory;
    struct model encoder = model;
    encoder.config.decoder = (struct stack_shape){ 0 };
    encoder.config.target_vocabulary = 0;
    lane_memory_plan(&memory, &encoder, &engine, &limits);
    assert_int_equal(memory.cache_floats, 0);
    assert_int_equal(memory.states_bytes, 0);
    assert_int_equal(memory.logits_bytes, 0);
    assert_int_equal(lane_memory_bytes(&memory),
                     memory.scratch_bytes + PLACES * 32 * 4 + memory.projected_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_reserves_what_its_limits_ask_for),
        cmocka_unit_test(no_hypothesis_is_longer_than_the_models_positions),
        cmocka_unit_test(an_encoder_reserves_neither_cache_nor_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
