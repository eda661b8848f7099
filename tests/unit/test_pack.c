/* Packed files: what is in them, that they answer as the folder they were made of, and what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>

#include "base/mem.h"
#include "checkpoint.h"
#include "packed_folder.h"

/* Calls `each` for every matrix that is multiplied by. */
static void for_every_linear(const struct model *model,
                             void (*each)(const struct linear *linear, const char *role))
{
    const struct stack *const stacks[] = { &model->encoder, &model->decoder };
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < stacks[s]->layer_count; i++) {
            const struct layer *layer = &stacks[s]->layers[i];
            const struct attention_weights *const attention[] = { &layer->self, &layer->cross };
            for (size_t a = 0; a < 2; a++) {
                each(&attention[a]->q, "attention");
                each(&attention[a]->k, "attention");
                each(&attention[a]->v, "attention");
                each(&attention[a]->out, "attention");
            }
            each(&layer->ffn_in, "ffn");
            each(&layer->ffn_gate, "ffn");
            each(&layer->ffn_out, "ffn_out");
        }
    each(&model->output, "output");
}

static void assert_in_panels(const struct linear *linear, const char *role)
{
    (void)role;
    if (linear->w.data)
        assert_int_equal(linear->w.layout, LAYOUT_PANELS);
}

static void assert_int8(const struct linear *linear, const char *role)
{
    assert_in_panels(linear, role);
    if (linear->w.data)
        assert_int_equal(linear->w.dtype, DTYPE_I8);
}

static void assert_int8_but_ffn_out(const struct linear *linear, const char *role)
{
    assert_in_panels(linear, role);
    if (linear->w.data)
        assert_int_equal(linear->w.dtype, strcmp(role, "ffn_out") == 0 ? DTYPE_F32 : DTYPE_I8);
}

static float largest(const struct run *run)
{
    const struct run zero = { .states = run->states, .logits = run->logits };
    return run_difference(run, &zero);
}

static void check_bits(const char *name, const struct pack_options *options)
{
    static struct run plain, packed;
    struct error err;
    struct checkpoint *c = checkpoint_read(name);
    struct model *model = checkpoint_open(c, &err);
    assert_non_null(model);
    const size_t parameters = model->parameter_count;
    run_model(model, &plain);
    model_close(&model);
    model = open_packed(c, options);
    for_every_linear(model, assert_in_panels);
    assert_true(options->as_stored || model->dtype == DTYPE_F32);
    run_model(model, &packed);
    if (model->parameter_count != parameters)
        fail_msg("%s: %zu of %zu parameters", name, model->parameter_count, parameters);
    if (memcmp(&plain, &packed, sizeof plain) != 0)
        fail_msg("%s: %g", name, (double)run_difference(&plain, &packed));
    model_close(&model);
    checkpoint_free(c);
}

static void check_float32(const char *name)
{
    check_bits(name, &to_float32);
}

static void check_as_stored(const char *name)
{
    check_bits(name, &(struct pack_options){ .as_stored = true, .whole = true });
}

static void packs_in_float32_and_as_stored_give_the_bits_of_their_folder(void **state)
{
    (void)state;
    warnings = 0;
    for_every_case(check_float32, 20);
    for_every_case(check_as_stored, 20);
    assert_int_equal(warnings, 0);
}

/* Of the largest number of the answer, the states and the logits. */
static float error_of(const char *name, const struct pack_options *options)
{
    static struct run plain, packed;
    struct checkpoint *c = checkpoint_read(name);
    checkpoint_run(c, &plain);
    struct model *model = open_packed(c, options);
    for_every_linear(model, assert_in_panels);
    run_model(model, &packed);
    model_close(&model);
    checkpoint_free(c);
    return run_difference(&plain, &packed) / largest(&plain);
}

/* Where attention is made to be sharp, rounding moves it. */
static void check_close(const char *name)
{
    if (strcmp(name, "t5_sharp") == 0 || strcmp(name, "t5_far") == 0)
        return;
    const float bfloat16 = error_of(name, &to_bfloat16), int8 = error_of(name, &to_int8);
    if (!(bfloat16 < 0.02f && int8 < 0.1f))
        fail_msg("%s: bfloat16 %g, int8 %g", name, (double)bfloat16, (double)int8);
}

static void bfloat16_and_int8_packs_are_close(void **state)
{
    (void)state;
    for_every_case(check_close, 20);
}

static void int8_takes_every_matrix_and_leaves_tables_in_bfloat16(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("vanilla_post");
    struct model *model = open_packed(c, &to_int8);
    for_every_linear(model, assert_int8);
    assert_int_equal(model->encoder.tokens.dtype, DTYPE_BF16);
    assert_int_equal(model->encoder.tokens.layout, LAYOUT_ROWS);
    assert_int_equal(model->dtype, DTYPE_I8);
    model_close(&model);
    checkpoint_free(c);
}

static void t5_keeps_the_second_matrix_of_its_feed_forward_in_float32_under_int8(void **state)
{
    (void)state;
    static const char *const names[] = { "t5", "t5_v11", "umt5" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct checkpoint *c = checkpoint_read(names[i]);
        struct model *model = open_packed(c, &to_int8);
        for_every_linear(model, assert_int8_but_ffn_out);
        model_close(&model);
        checkpoint_free(c);
    }
}

/* A feed-forward so wide that one large number of a row can hide the others from int8. */
static void widen_feed_forward(struct checkpoint *c, size_t inner)
{
    static const char *const layers[] = { "encoder.layers.0", "encoder.layers.1",
                                          "decoder.layers.0", "decoder.layers.1",
                                          "decoder.layers.2" };
    const size_t width = (size_t)json_integer_value(json_object_get(c->config, "d_model"));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char name[CHECKPOINT_NAME];
        snprintf(name, sizeof name, "%s.fc1.weight", layers[i]);
        checkpoint_add(c, name, inner, width);
        snprintf(name, sizeof name, "%s.fc1.bias", layers[i]);
        checkpoint_add(c, name, inner, 0);
        snprintf(name, sizeof name, "%s.fc2.weight", layers[i]);
        float *values = checkpoint_add(c, name, width, inner);
        for (size_t k = 0; k < width * inner; k++)
            values[k] = (float)(k % 7) * 0.01f - 0.03f;
    }
    json_object_set_new(c->config, "d_ff", json_integer((json_int_t)inner));
}

static void a_matrix_that_int8_would_change_much_stays_float32(void **state)
{
    (void)state;
    enum { INNER = 1024 };
    struct checkpoint *c = checkpoint_read("vanilla_post");
    widen_feed_forward(c, INNER);
    checkpoint_find(c, "encoder.layers.1.fc2.weight")->values[3 * INNER + 5] = 100.0f;
    struct model *model = open_packed(c, &to_int8);
    assert_int_equal(model->encoder.layers[0].ffn_out.w.dtype, DTYPE_I8);
    assert_int_equal(model->encoder.layers[1].ffn_in.w.dtype, DTYPE_I8);
    assert_int_equal(model->encoder.layers[1].ffn_out.w.dtype, DTYPE_F32);
    model_close(&model);
    checkpoint_free(c);
}

static void what_int8_cannot_hold_is_refused_by_its_tensor(void **state)
{
    (void)state;
    static const float values[] = { NAN, INFINITY, -INFINITY };
    static const char tensor[] = "decoder.layers.0.fc1.weight";
    for (size_t i = 0; i < 3; i++) {
        struct error err;
        struct checkpoint *c = checkpoint_read("vanilla_post");
        assert_non_null(checkpoint_find(c, tensor));
        checkpoint_find(c, tensor)->values[5] = values[i];
        const struct folder folder = plain_folder(c);
        assert_int_equal(pack_into(&folder, "a.packed", &to_int8, &err), -1);
        assert_int_equal(err.code, ERR_BAD_MODEL);
        assert_string_equal(err.param, tensor);
        assert_non_null(strstr(err.message, tensor));
        assert_int_equal(pack_into(&folder, "a.packed", &to_bfloat16, &err), 0);
        remove_tree(&folder);
        checkpoint_free(c);
    }
}

static void a_packed_folder_is_not_packed_again(void **state)
{
    (void)state;
    struct error err;
    struct checkpoint *c = checkpoint_read("vanilla_post");
    const struct folder folder = packed_folder(c, &to_bfloat16);
    assert_int_equal(pack_into(&folder, "again.packed", &to_int8, &err), -1);
    assert_int_equal(err.code, ERR_BAD_MODEL);
    assert_non_null(strstr(err.message, "packed already"));
    remove_tree(&folder);
    checkpoint_free(c);
}

/* The bytes of the packed file, with `room` to grow; for free(). */
static char *read_packed(const struct folder *folder, size_t room, size_t *count)
{
    FILE *file = fopen(path_in(folder, PACK_FILE_NAME), "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*count + room);
    assert_true(bytes && fread(bytes, 1, *count, file) == *count);
    fclose(file);
    return bytes;
}

static void assert_refused(const struct folder *folder, const char *part)
{
    struct error err;
    struct model *model = open_folder(folder, &err);
    assert_null(model);
    assert_int_equal(err.code, ERR_BAD_MODEL);
    if (!strstr(err.message, part) || !strstr(err.message, PACK_FILE_NAME))
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void a_pack_of_another_version_is_refused_with_advice(void **state)
{
    (void)state;
    size_t count;
    struct checkpoint *c = checkpoint_read("vanilla_post");
    const struct folder folder = packed_folder(c, &to_float32);
    char *bytes = read_packed(&folder, 0, &count);
    static const char version[] = "\"seqd_packed\":\"" PACK_VERSION "\"";
    char *at = memmem(bytes, count, version, sizeof version - 1);
    assert_non_null(at);
    at[sizeof version - 3] = 'x';
    folder_write(&folder, PACK_FILE_NAME, bytes, count);
    assert_refused(&folder, "seqd quantize");
    memcpy(at + 1, "other_thing", 11);
    folder_write(&folder, PACK_FILE_NAME, bytes, count);
    assert_refused(&folder, "seqd quantize");
    free(bytes);
    remove_tree(&folder);
    checkpoint_free(c);
}

static void a_cut_pack_is_refused_wherever_it_is_cut(void **state)
{
    (void)state;
    size_t count;
    struct error err;
    struct checkpoint *c = checkpoint_read("vanilla_post");
    const struct folder folder = packed_folder(c, &to_int8);
    char *bytes = read_packed(&folder, 0, &count);
    for (size_t kept = 0; kept < count; kept += count / 40 + 1) {
        folder_write(&folder, PACK_FILE_NAME, bytes, kept);
        assert_refused(&folder, "");
    }
    folder_write(&folder, PACK_FILE_NAME, bytes, count - 1);
    assert_refused(&folder, "");
    folder_write(&folder, PACK_FILE_NAME, bytes, count);
    struct model *model = open_folder(&folder, &err);
    assert_non_null(model);
    model_close(&model);
    free(bytes);
    remove_tree(&folder);
    checkpoint_free(c);
}

/* Four spaces more in the header move all that follows. */
static void panels_that_lie_unaligned_are_refused(void **state)
{
    (void)state;
    size_t count;
    struct checkpoint *c = checkpoint_read("vanilla_post");
    const struct folder folder = packed_folder(c, &to_float32);
    char *bytes = read_packed(&folder, 4, &count);
    uint64_t length;
    memcpy(&length, bytes, sizeof length); /* little-endian, as the machines this runs on */
    memmove(bytes + 8 + length + 4, bytes + 8 + length, count - 8 - (size_t)length);
    memset(bytes + 8 + length, ' ', 4);
    length += 4;
    memcpy(bytes, &length, sizeof length);
    folder_write(&folder, PACK_FILE_NAME, bytes, count + 4);
    assert_refused(&folder, "pack the folder anew");
    free(bytes);
    remove_tree(&folder);
    checkpoint_free(c);
}

/* A configuration with another inner width. */
static void panels_of_another_size_are_refused(void **state)
{
    (void)state;
    struct checkpoint *c = checkpoint_read("vanilla_post");
    const struct folder folder = packed_folder(c, &to_int8);
    json_t *width = json_object_get(c->config, "d_ff");
    assert_true(json_is_integer(width));
    json_integer_set(width, json_integer_value(width) + 16);
    checkpoint_write_json(&folder, "config.json", c->config);
    assert_refused(&folder, "pack the folder anew");
    remove_tree(&folder);
    checkpoint_free(c);
}

static void a_failed_write_is_told_with_its_reason(void **state)
{
    (void)state;
    struct error err;
    struct checkpoint *c = checkpoint_read("vanilla_post");
    struct model *model = checkpoint_open(c, &err);
    const int full = open("/dev/full", O_WRONLY);
    assert_true(model && full >= 0);
    assert_int_equal(pack_write(model, &to_float32, full, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.message, "No space left"));
    close(full);
    model_close(&model);
    checkpoint_free(c);
}

static void every_failed_allocation_is_told(void **state)
{
    (void)state;
    static const struct pack_options *const all[] = { &to_float32, &to_int8 };
    struct checkpoint *c = checkpoint_read("vanilla_post");
    const struct folder folder = plain_folder(c);
    struct error err;
    struct model *model = open_folder(&folder, &err);
    for (size_t i = 0; i < 2; i++) {
        int rc = -1;
        size_t wanted, count;
        assert_int_equal(pack_into(&folder, PACK_FILE_NAME, all[i], &err), 0);
        char *good = read_packed(&folder, 0, &wanted);
        for (long n = 0; rc < 0; n++) {
            const int fd = open(path_in(&folder, PACK_FILE_NAME), O_WRONLY | O_TRUNC);
            err = (struct error){ 0 };
            mem_fail_after(n);
            rc = pack_write(model, all[i], fd, &err);
            mem_fail_after(-1);
            close(fd);
            assert_int_equal(err.code, rc < 0 ? ERR_NO_MEMORY : ERR_NONE);
        }
        char *bytes = read_packed(&folder, 0, &count);
        assert_int_equal(count, wanted);
        assert_memory_equal(bytes, good, count);
        free(bytes);
        free(good);
        unlink(path_in(&folder, PACK_FILE_NAME));
    }
    model_close(&model);
    remove_tree(&folder);
    checkpoint_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_in_float32_and_as_stored_give_the_bits_of_their_folder),
        cmocka_unit_test(bfloat16_and_int8_packs_are_close),
        cmocka_unit_test(int8_takes_every_matrix_and_leaves_tables_in_bfloat16),
        cmocka_unit_test(t5_keeps_the_second_matrix_of_its_feed_forward_in_float32_under_int8),
        cmocka_unit_test(a_matrix_that_int8_would_change_much_stays_float32),
        cmocka_unit_test(what_int8_cannot_hold_is_refused_by_its_tensor),
        cmocka_unit_test(a_packed_folder_is_not_packed_again),
        cmocka_unit_test(a_pack_of_another_version_is_refused_with_advice),
        cmocka_unit_test(a_cut_pack_is_refused_wherever_it_is_cut),
        cmocka_unit_test(panels_that_lie_unaligned_are_refused),
        cmocka_unit_test(panels_of_another_size_are_refused),
        cmocka_unit_test(a_failed_write_is_told_with_its_reason),
        cmocka_unit_test(every_failed_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, checkpoint_setup, NULL);
}
