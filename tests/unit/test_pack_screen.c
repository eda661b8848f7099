/* The screen that a packed folder has for its output layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "packed_folder.h"

static void an_output_layer_that_is_no_integers_can_be_screened(void **state)
{
    (void)state;
    static const char *const names[] = { "vanilla_post", "t5_v11", "marian" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct checkpoint *c = checkpoint_read(names[i]);
        struct model *model = open_packed(c, &to_float32);
        const size_t V = model->config.target_vocabulary;
        assert_int_equal(model->screen.dtype, DTYPE_I8);
        assert_int_equal(model->screen.layout, LAYOUT_PANELS);
        assert_int_equal(model->screen.rows, V);
        assert_int_equal(model->output_rows.layout, LAYOUT_ROWS);
        for (size_t n = 0; n < V; n++) {
            const float error = model->screen_bounds[n], length = model->screen_bounds[V + n];
            assert_true(error >= 0.0f && error <= 0.05f * length + 1e-6f);
        }
        model_close(&model);
        model = open_packed(c, &to_int8);
        assert_null(model->screen.data);
        model_close(&model);
        checkpoint_free(c);
    }
}

static void assert_screened_like_all(const struct model *model, size_t needed)
{
    const size_t V = model->config.target_vocabulary, D = model->config.width;
    struct arena arena;
    struct error err;
    float *x = calloc(D, sizeof *x), *all = calloc(2 * V, sizeof *all), *screened = all + V;
    assert_int_equal(arena_open(&arena, pass_scratch_bytes(&model->config, 1, 1, 1, 1), &err), 0);
    const struct pass pass = { model, &checkpoint_kernels, &arena, NULL, true };
    for (unsigned run = 0; run < 50; run++) {
        size_t above = 0;
        for (size_t i = 0; i < D; i++)
            x[i] = sinf((float)(run * 131 + i * i));
        decoder_logits(&pass, x, 1, NULL, all);
        decoder_logits(&pass, x, 1, &needed, screened);
        for (size_t v = 0; v < V; v++) {
            assert_true(screened[v] == all[v] || screened[v] == -INFINITY);
            above += screened[v] == all[v];
        }
        assert_true(above >= needed);
        for (size_t v = 0; v < V; v++) { /* what is left out has `needed` better ones */
            size_t better = 0;
            for (size_t w = 0; w < V && screened[v] != all[v]; w++)
                better += all[w] > all[v];
            assert_true(screened[v] == all[v] || better >= needed);
        }
    }
    arena_close(&arena);
    free(all);
    free(x);
}

/* Of every type that the output layer may have been stored as, and become. */
static void screened_logits_are_those_of_the_packed_layer(void **state)
{
    (void)state;
    const struct pack_options *const to[] = { &to_float32, &to_bfloat16 };
    for (enum dtype dtype = DTYPE_F32; dtype < DTYPE_I8; dtype++) {
        for (size_t i = 0; i < 2; i++) {
            struct checkpoint *c = checkpoint_read("vanilla_post");
            for (size_t j = 0; j < c->count; j++)
                checkpoint_round(&c->tensors[j], dtype);
            struct model *model = open_packed(c, to[i]);
            assert_non_null(model->screen.data);
            assert_screened_like_all(model, 1);
            assert_screened_like_all(model, 2);
            model_close(&model);
            checkpoint_free(c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_output_layer_that_is_no_integers_can_be_screened),
        cmocka_unit_test(screened_logits_are_those_of_the_packed_layer),
    };
    return cmocka_run_group_tests(tests, checkpoint_setup, NULL);
}
