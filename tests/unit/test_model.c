/* Opening a model folder: an untrusted file, every failed allocation, and narrow weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/forward.h"
#include "encode_row.h"
#include "model_folder.h"
#include "serve/registry.h"

#include <sys/stat.h>

static struct kernels kernels;

static int open_folder(const struct folder *folder, struct model **model, struct error *err)
{
    *err = (struct error){ 0 };
    return model_open(model, folder->path, "tiny", &kernels, err);
}

/* The folder is refused and the message holds `part`. */
static void assert_refused(const struct folder *folder, const char *part)
{
    struct model *model;
    struct error err;
    assert_int_equal(open_folder(folder, &model, &err), -1);
    assert_null(model);
    if (!strstr(err.message, part))
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void a_hostile_header_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message;
    } cases[] = {
        { "[1]", 0, "no JSON object" },
        { "{", 0, "line 1" },
        { "{\"a\": 1}", 0, "no known dtype" },
        { "{\"a\": {\"dtype\": \"\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "dtype" },
        { "{\"a\": {\"dtype\": \"F99\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "dtype" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}", 4, "shape" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1.0], \"data_offsets\": [0, 4]}}", 4, "shape" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}", 4, "shape" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [8589934592, 8589934592], "
          "\"data_offsets\": [0, 0]}}",
          0, "shape" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 8]}}", 4, "outside" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 0]}}", 4, "outside" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [-4, 0]}}", 4,
          "outside" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0]}}", 4, "outside" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}", 8, "hole" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, "
          "\"b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
          8, "overlaps" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 8, "after" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, "
          "\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
          4, "duplicate" },
    };
    static const char data[16];
    const struct folder folder = folder_create();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder_safetensors(&folder, cases[i].header, data, cases[i].data_bytes);
        assert_refused(&folder, cases[i].message);
    }
    folder_remove(&folder);
}

static void a_header_length_beyond_the_file_is_refused(void **state)
{
    (void)state;
    static const uint64_t lengths[] = { 3, 1000, UINT64_C(1) << 63, UINT64_MAX };
    const struct folder folder = folder_create();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char file[10] = { 0 };
        memcpy(file, &lengths[i], 8); /* the tests run where this is little-endian */
        folder_write(&folder, "model.safetensors", file, sizeof file);
        assert_refused(&folder, "header of");
    }
    folder_write(&folder, "model.safetensors", "short", 5);
    assert_refused(&folder, "no safetensors file");
    folder_remove(&folder);
}

static void a_missing_or_ill_shaped_tensor_is_named(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    for (size_t i = 0; i < sizeof folder_tensors / sizeof *folder_tensors; i++) {
        const char *name = folder_tensors[i].name;
        folder_weights(&folder, (struct folder_options){ .skip = name });
        assert_refused(&folder, name);
        if (folder_tensors[i].columns == 0)
            continue;
        folder_weights(&folder, (struct folder_options){ .wide = name });
        assert_refused(&folder, name);
    }
    folder_remove(&folder);
}

static void a_wrong_config_names_its_field(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
    } cases[] = {
        { "{}", "\"model_type\" is missing" },
        { "{\"model_type\": \"gpt9\"}", "gpt9" },
        { "{\"model_type\": \"transformer\"}", "\"d_model\" is missing" },
        { "{\"model_type\": \"transformer\", \"d_model\": 4.5}", "\"d_model\" is 4.5" },
        { "{\"model_type\": \"transformer\", \"d_model\": 0}", "\"d_model\" is 0" },
        { "{\"model_type\": \"transformer\", \"norm_position\": \"middle\"}", "pre_query" },
        { "{\"model_type\": \"transformer\", \"tie_output\": 1}", "true or false" },
        { "{\"model_type\": \"transformer\", \"d_model\": 4, \"encoder_layers\": 1, "
          "\"decoder_layers\": 1, \"attention_heads\": 3, \"d_ff\": 8, \"vocab_size\": 6}",
          "attention_heads" },
        { "{\"model_type\": \"transformer\", \"d_model\": 4, \"encoder_layers\": 1, "
          "\"decoder_layers\": 1, \"attention_heads\": 2, \"d_ff\": 8, \"vocab_size\": 6, "
          "\"decoder_start_token_id\": 6}",
          "decoder_start_token_id" },
        { "{\"model_type\": \"transformer\", \"model_type\": \"transformer\"}", "duplicate" },
        { "not json", "line 1" },
    };
    const struct folder folder = folder_create();
    folder_weights(&folder, (struct folder_options){ 0 });
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder_text(&folder, "config.json", cases[i].config);
        assert_refused(&folder, cases[i].message);
    }
    folder_remove(&folder);
}

static void a_folder_without_safetensors_says_what_is_there(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    assert_refused(&folder, "no such file");
    folder_text(&folder, "pytorch_model.bin", "x");
    assert_refused(&folder, "only safetensors are read");
    folder_remove(&folder);
    assert_refused(&folder, "no such folder");
}

static void every_failed_allocation_is_clean(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    struct model *model = NULL;
    struct error err;
    long failures = 0;
    folder_text(&folder, "generation_config.json", "{\"max_length\": 9, \"eos_token_id\": [3]}");
    folder_weights(&folder, (struct folder_options){ .narrow = true, .shift = 1 });
    for (;; failures++) {
        mem_fail_after(failures);
        const int rc = open_folder(&folder, &model, &err);
        mem_fail_after(-1);
        if (rc == 0)
            break;
        if (err.code != ERR_NO_MEMORY)
            fail_msg("allocation %ld: %s", failures, err.message);
        assert_null(model);
    }
    assert_true(failures > 100);
    model_close(&model);
    model_close(&model);
    folder_remove(&folder);
}

/* The encoder's output of three tokens. */
static void encode(const struct model *model, float x[12])
{
    static const int32_t tokens[] = { 1, 5, 3 }, places[] = { 0, 1, 2 };
    struct arena arena;
    struct error err = { 0 };
    assert_int_equal(arena_open(&arena, pass_scratch_bytes(&model->config, 3, 3, 3, 1), &err), 0);
    const struct pass pass = { model, &kernels, &arena, NULL, false };
    const struct source_row row = { tokens, places, places, 3, 3, NULL };
    encode_row(&pass, &row, x);
    arena_close(&arena);
}

static void narrow_and_unaligned_weights_give_what_their_floats_give(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    const struct folder_options stored[] = {
        { 0 }, { .narrow = true }, { .shift = 1 }, { .narrow = true, .shift = 3 }
    };
    float expected[12], x[12];
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        struct model *model;
        struct error err;
        folder_weights(&folder, stored[i]);
        assert_int_equal(open_folder(&folder, &model, &err), 0);
        encode(model, i == 0 ? expected : x);
        if (i > 0)
            assert_memory_equal(x, expected, sizeof x);
        model_close(&model);
    }
    folder_remove(&folder);
}

static const struct value *find_default(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->defaults.count; i++)
        if (strcmp(model->defaults.items[i].name, name) == 0)
            return &model->defaults.items[i].value;
    return NULL;
}

static void generation_config_hides_the_options_of_config(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    struct model *model;
    struct error err;
    char config[512];
    snprintf(config, sizeof config, "%.*s, \"max_length\": 7}", (int)strlen(folder_config) - 1,
             folder_config);
    folder_text(&folder, "config.json", config);
    folder_weights(&folder, (struct folder_options){ 0 });
    assert_int_equal(open_folder(&folder, &model, &err), 0);
    assert_int_equal(find_default(model, "max_length")->integer, 7);
    model_close(&model);
    folder_text(&folder, "generation_config.json", "{\"num_beams\": 2}");
    assert_int_equal(open_folder(&folder, &model, &err), 0);
    assert_null(find_default(model, "max_length"));
    assert_int_equal(find_default(model, "num_beams")->integer, 2);
    model_close(&model);
    folder_remove(&folder);
}

static void an_older_file_forces_bos_by_another_name(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    struct model *model;
    struct error err;
    char config[512];
    snprintf(config, sizeof config,
             "%.*s, \"bos_token_id\": 5, \"force_bos_token_to_be_generated\": true}",
             (int)strlen(folder_config) - 1, folder_config);
    folder_text(&folder, "config.json", config);
    folder_weights(&folder, (struct folder_options){ 0 });
    assert_int_equal(open_folder(&folder, &model, &err), 0);
    assert_non_null(find_default(model, "forced_bos_token_id"));
    assert_int_equal(find_default(model, "forced_bos_token_id")->integer, 5);
    model_close(&model);
    folder_text(&folder, "generation_config.json", "{\"num_beams\": 2}");
    assert_int_equal(open_folder(&folder, &model, &err), 0);
    assert_null(find_default(model, "forced_bos_token_id"));
    model_close(&model);
    folder_remove(&folder);
}

static void what_is_no_file_or_no_object_is_refused_at_once(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    char path[128];
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(&folder, "not a regular file");
    unlink(path);
    folder_weights(&folder, (struct folder_options){ 0 });
    folder_text(&folder, "generation_config.json", "[1]");
    assert_refused(&folder, "no JSON object");
    snprintf(path, sizeof path, "%s/generation_config.json", folder.path);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(&folder, "not a regular file");
    folder_remove(&folder);
}

/* A position table beyond all measure is not computed for a file that fails anyway. */
static void tensors_are_checked_before_positions_are_computed(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    folder_text(&folder, "config.json",
                "{\"model_type\": \"transformer\", \"d_model\": 65536, \"encoder_layers\": 1,"
                " \"decoder_layers\": 1, \"attention_heads\": 1, \"d_k\": 1, \"d_ff\": 1,"
                " \"vocab_size\": 1, \"decoder_start_token_id\": 0, \"eos_token_id\": 0,"
                " \"max_position_embeddings\": 1048576}");
    folder_weights(&folder, (struct folder_options){ 0 });
    assert_refused(&folder, "encoder.embed_tokens.weight");
    folder_remove(&folder);
}

static const struct limits limits = {
    .beams = 4, .return_sequences = 4, .default_max_new_tokens = 8, .max_new_tokens = 16
};

static void special_ids_come_from_config_unless_the_defaults_say_others(void **state)
{
    (void)state;
    const struct folder folder = folder_create();
    struct model *model;
    struct options options;
    struct error err;
    folder_weights(&folder, (struct folder_options){ 0 });
    folder_text(&folder, "generation_config.json", "{\"max_length\": 9}");
    assert_int_equal(open_folder(&folder, &model, &err), 0);
    assert_int_equal(registry_defaults(&options, model, &limits, &err), 0);
    assert_int_equal(options.start_id, 2);
    assert_int_equal(options.eos_count, 1);
    assert_int_equal(options.eos_ids[0], 3);
    assert_int_equal(options.max_length, 9);
    model_close(&model);
    folder_text(&folder, "generation_config.json",
                "{\"eos_token_id\": [4, 5], \"decoder_start_token_id\": 1}");
    assert_int_equal(open_folder(&folder, &model, &err), 0);
    assert_int_equal(registry_defaults(&options, model, &limits, &err), 0);
    assert_int_equal(options.start_id, 1);
    assert_int_equal(options.eos_count, 2);
    model_close(&model);
    folder_remove(&folder);
}

static void defaults_that_no_request_could_use_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *defaults, *message;
    } cases[] = {
        { "{\"eos_token_id\": 99}", "eos_token_id" },
        { "{\"num_beams\": 4, \"do_sample\": true}", "do_sample" },
        { "{\"penalty_alpha\": 0.6}", "penalty_alpha" },
        { "{\"num_beam_groups\": 2}", "num_beam_groups" },
        { "{\"num_beams\": \"x\"}", "num_beams" },
        { "{\"temperature\": 0.0, \"do_sample\": true}", "temperature" },
        { "{\"temperature\": 0.0, \"do_sample\": false}", NULL }, /* it is not looked at */
        { "{\"temperature\": 0}", NULL },
        { "{\"num_beams\": 99}", NULL }, /* beyond a limit: requests may ask for less */
    };
    const struct folder folder = folder_create();
    folder_weights(&folder, (struct folder_options){ 0 });
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model;
        struct options options;
        struct error err;
        folder_text(&folder, "generation_config.json", cases[i].defaults);
        assert_int_equal(open_folder(&folder, &model, &err), 0);
        assert_int_equal(registry_defaults(&options, model, &limits, &err),
                         cases[i].message ? -1 : 0);
        if (cases[i].message) {
            assert_non_null(strstr(err.message, folder.path));
            assert_non_null(strstr(err.message, cases[i].message));
        }
        model_close(&model);
    }
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hostile_header_is_refused),
        cmocka_unit_test(a_header_length_beyond_the_file_is_refused),
        cmocka_unit_test(a_missing_or_ill_shaped_tensor_is_named),
        cmocka_unit_test(a_wrong_config_names_its_field),
        cmocka_unit_test(a_folder_without_safetensors_says_what_is_there),
        cmocka_unit_test(every_failed_allocation_is_clean),
        cmocka_unit_test(narrow_and_unaligned_weights_give_what_their_floats_give),
        cmocka_unit_test(generation_config_hides_the_options_of_config),
        cmocka_unit_test(an_older_file_forces_bos_by_another_name),
        cmocka_unit_test(what_is_no_file_or_no_object_is_refused_at_once),
        cmocka_unit_test(tensors_are_checked_before_positions_are_computed),
        cmocka_unit_test(special_ids_come_from_config_unless_the_defaults_say_others),
        cmocka_unit_test(defaults_that_no_request_could_use_are_refused),
    };
    struct error err = { 0 };
    log_set_level(LOG_ERROR);
    if (kernels_init(&kernels, "", "own", &err) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
