/* A team's feed-forward sublayer has the bits of one thread's. */
#include "../../src/model/blocks.h"
#include "kernel_sets.h"

#include "base/arena.h"
#include "base/team.h"

enum { M = 70, D = 48, F = 200 };

static struct linear random_linear(size_t out, size_t in, uint32_t seed)
{
    float *w = test_malloc(out * in * sizeof *w);
    fill(w, out * in, seed);
    return (struct linear){ .w = { w, DTYPE_F32, out, in, LAYOUT_ROWS } };
}

static void a_team_gives_the_bits_of_one_thread(void **state)
{
    (void)state;
    static float weight[D], start[M * D], alone[M * D], shared[M * D];
    struct model model = { .config = { .width = D,
                                       .norm_kind = NORM_RMS,
                                       .norm_eps = 1e-6f,
                                       .norm_position = NORM_PRE,
                                       .activation = ACTIVATION_GELU_TANH } };
    struct layer layer = { .ffn_norm = { .weight = weight },
                           .ffn_in = random_linear(F, D, 1),
                           .ffn_gate = random_linear(F, D, 2),
                           .ffn_out = random_linear(D, F, 3) };
    struct arena arena;
    struct error err;
    for (size_t i = 0; i < D; i++)
        weight[i] = 1.0f;
    fill(start, M * D, 4);
    assert_int_equal(arena_open(&arena, 1 << 20, &err), 0);
    for (size_t t = 0; t < table_count; t++) {
        for (int gated = 0; gated < 2; gated++) {
            struct pass pass = { .model = &model, .kernels = &tables[t], .arena = &arena };
            model.config.gated = gated;
            memcpy(alone, start, sizeof start);
            feed_forward(&pass, &layer, F, alone, M);
            for (size_t members = 2; members <= 5; members++) {
                assert_int_equal(team_create(&pass.team, members, &err), 0);
                memcpy(shared, start, sizeof start);
                feed_forward(&pass, &layer, F, shared, M);
                assert_memory_equal(shared, alone, sizeof alone);
                team_destroy(&pass.team);
            }
        }
    }
    arena_close(&arena);
    test_free((void *)(uintptr_t)layer.ffn_in.w.data);
    test_free((void *)(uintptr_t)layer.ffn_gate.w.data);
    test_free((void *)(uintptr_t)layer.ffn_out.w.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_gives_the_bits_of_one_thread),
    };
    return cmocka_run_group_tests(tests, open_tables, NULL);
}
