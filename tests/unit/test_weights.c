/* Weight files: hostile headers and indexes, what must load, what a folder without them is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "weight_folder.h"

static struct weights *open_weights(const struct folder *folder)
{
    struct weights *weights;
    struct error err = { 0 };
    if (weights_open(&weights, folder->path, &err) < 0)
        fail_msg("%s", err.message);
    return weights;
}

static void assert_refused(const struct folder *folder, const char *part)
{
    struct weights *weights;
    struct error err = { 0 };
    if (weights_open(&weights, folder->path, &err) == 0)
        fail_msg("loaded, and should not: %s", part);
    assert_null(weights);
    if (!strstr(err.message, part))
        fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": [" begin     \
    ", " end "]}"

static void a_header_that_lies_about_its_data_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message;
    } cases[] = {
        { "{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "F32", "[1]", "8", "12") "}", 12,
          "\"b\" overlaps another or leaves a hole" },
        { "{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[2]", "4", "12") "}", 12,
          "\"b\" overlaps" },
        { "{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[2]", "0", "8") "}", 8,
          "overlaps" },
        { "{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[0]", "4", "4") "}", 8,
          "overlaps" },
        { "{" TENSOR("a", "F32", "[1]", "0", "4") "}", 5, "data after the last tensor" },
        { "{}", 1, "data after the last tensor" },
        { "{" TENSOR("a", "F32", "[2]", "8", "0") "}", 8, "outside" },
        { "{" TENSOR("a", "F32", "[2]", "0", "8") "}", 7, "outside the 7 bytes" },
        { "{" TENSOR("a", "F32", "[1]", "9223372036854775807", "9223372036854775807") "}", 4,
          "outside" },
        { "{" TENSOR("a", "F32", "[1]", "0", "9223372036854775808") "}", 4, "integer" },
        { "{" TENSOR("a", "F32", "[1]", "0.0", "4.0") "}", 4, "outside" },
        { "{" TENSOR("a", "F32", "[3]", "0", "8") "}", 8, "shape of other size" },
        { "{" TENSOR("a", "F32", "[4611686018427387905]", "0", "4") "}", 4, "shape of other size" },
        { "{" TENSOR("a", "F32", "[8589934592, 8589934592]", "0", "0") "}", 0, "impossible shape" },
        { "{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "impossible shape" },
        { "{" TENSOR("a", "F32", "1", "0", "4") "}", 4, "impossible shape" },
        { "{" TENSOR("a", "", "[1]", "0", "4") "}", 4, "no known dtype" },
        { "{" TENSOR("a", "f32", "[1]", "0", "4") "}", 4, "no known dtype" },
        { "{\"a\": null}", 0, "no known dtype" },
        { "{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("a", "U8", "[1]", "1", "2") "}", 2,
          "duplicate" },
        { "{" TENSOR("a\\u0000b", "U8", "[1]", "0", "1") "}", 1, "\\u0000" },
        { "{" TENSOR("\xff", "U8", "[1]", "0", "1") "}", 1, "decode" },
        { "{} {}", 0, "end of file expected" },
        { "", 0, "is empty" },
    };
    const struct folder folder = make_tree();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_weights(&folder, "model.safetensors", cases[i].header, cases[i].data_bytes);
        assert_refused(&folder, cases[i].message);
    }
    remove_tree(&folder);
}

static void a_header_as_writers_make_it_loads(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes, tensors;
    } cases[] = {
        { "{}", 0, 0 },
        { "{" TENSOR("a", "F32", "[]", "0", "4") "}", 4, 1 },
        { "{" TENSOR("a", "F32", "[0, 3]", "0", "0") "}", 0, 1 },
        { "{" TENSOR("a", "F32", "[0, 3]", "4", "4") "," TENSOR("b", "F32", "[1]", "0", "4") "}", 4,
          2 },
        { "{\"__metadata__\": {\"format\": \"pt\"}," TENSOR("a", "BF16", "[1]", "0", "2") "}", 2,
          1 },
        { "  \n{" TENSOR("a", "F16", "[1]", "0", "2") "}   ", 2, 1 },
        { "{" TENSOR("a", "I64", "[1]", "0", "8") "," TENSOR("b", "F8_E4M3", "[1]", "8", "9") "}",
          9, 2 },
        { "{" TENSOR("b", "F32", "[1]", "4", "8") "," TENSOR("a", "F32", "[1]", "0", "4") "}", 8,
          2 },
    };
    const struct folder folder = make_tree();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_weights(&folder, "model.safetensors", cases[i].header, cases[i].data_bytes);
        struct weights *weights = open_weights(&folder);
        assert_int_equal(weights->tensors.tensor_count, cases[i].tensors);
        assert_int_equal(weights_has(weights, "a"), cases[i].tensors > 0);
        assert_false(weights_has(weights, "__metadata__"));
        weights_close(&weights);
    }
    remove_tree(&folder);
}

static void a_file_that_is_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    write_letters(&folder, "model.safetensors", "ab");
    struct stat st;
    assert_int_equal(stat(path_in(&folder, "model.safetensors"), &st), 0);
    for (off_t bytes = st.st_size - 1; bytes >= 0; bytes--) {
        assert_int_equal(truncate(path_in(&folder, "model.safetensors"), bytes), 0);
        assert_refused(&folder, "model.safetensors");
    }
    remove_tree(&folder);
}

static void a_tensor_of_another_type_is_only_refused_when_it_is_wanted(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    write_weights(&folder, "model.safetensors", "{" TENSOR("a", "I64", "[1, 1]", "0", "8") "}", 8);
    struct weights *weights = open_weights(&folder);
    struct matrix matrix;
    struct error err = { 0 };
    assert_int_equal(weights_matrix(weights, "a", 1, 1, &matrix, &err), -1);
    assert_non_null(strstr(err.message, "\"a\" is not F32, F16 or BF16"));
    weights_close(&weights);
    remove_tree(&folder);
}

/* A shared table is asked for twice. */
static void an_unaligned_matrix_is_copied_once(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    write_weights(
        &folder, "model.safetensors",
        "{" TENSOR("x", "U8", "[1]", "0", "1") "," TENSOR("a", "F32", "[1, 2]", "1", "9") "}", 9);
    struct weights *weights = open_weights(&folder);
    struct matrix first, second;
    struct error err = { 0 };
    assert_int_equal(weights_matrix(weights, "a", 1, 2, &first, &err), 0);
    assert_int_equal(weights_matrix(weights, "a", 1, 2, &second, &err), 0);
    assert_ptr_equal(first.data, second.data);
    assert_memory_equal(first.data, "\1\2\3\4\5\6\7\10", 8);
    assert_int_equal((uintptr_t)first.data % 4, 0);
    assert_int_equal(weights->copied_bytes, 8);
    weights_close(&weights);
    remove_tree(&folder);
}

static void a_folder_without_safetensors_is_told_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *file, *message, *advice;
    } cases[] = {
        { NULL, "has no weights", "model.safetensors or model.safetensors.index.json" },
        { "flax_model.msgpack", "/flax_model.msgpack: only safetensors", "instead" },
        { "tf_model.h5", "/tf_model.h5: only safetensors", "instead" },
        { "pytorch_model.bin.index.json", "/pytorch_model.bin.index.json: only safetensors",
          "run: tools/to_safetensors.py /tmp/seqd-test" },
        { "pytorch_model.bin", "/pytorch_model.bin: only safetensors",
          "run: tools/to_safetensors.py /tmp/seqd-test" },
    };
    const struct folder folder = make_tree();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].file)
            folder_text(&folder, cases[i].file, "x");
        assert_refused(&folder, cases[i].message);
        assert_refused(&folder, cases[i].advice);
    }
    folder_text(&folder, "model.safetensors",
                "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 123\n");
    assert_refused(&folder, "git lfs pull");
    remove_tree(&folder);
}

static void write_index(const struct folder *folder, const char *map)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": %s}", map);
    folder_text(folder, "model.safetensors.index.json", text);
}

static void the_tensors_of_all_shards_are_found(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    write_letters(&folder, "one", "ac");
    write_letters(&folder, "two", "db");
    write_index(&folder, "{\"a\": \"one\", \"b\": \"two\", \"c\": \"one\", \"d\": \"two\"}");
    struct weights *weights = open_weights(&folder);
    static const char *const names[] = { "a", "b", "c", "d" };
    static const char first_bytes[] = { 0, 8, 8, 0 };
    for (size_t i = 0; i < 4; i++) {
        struct matrix matrix;
        struct error err = { 0 };
        assert_int_equal(weights_matrix(weights, names[i], 1, 2, &matrix, &err), 0);
        assert_int_equal(*(const char *)matrix.data, first_bytes[i]);
    }
    struct stat one, two;
    assert_int_equal(stat(path_in(&folder, "one"), &one), 0);
    assert_int_equal(stat(path_in(&folder, "two"), &two), 0);
    assert_int_equal(weights->tensors.mapped_bytes, one.st_size + two.st_size);
    weights_close(&weights);
    remove_tree(&folder);
}

/* As the reference does, which opens each file that the index names and takes all it has. */
static void a_tensor_that_the_index_does_not_name_is_used(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    write_letters(&folder, "one", "ab");
    write_index(&folder, "{\"a\": \"one\"}");
    struct weights *weights = open_weights(&folder);
    assert_true(weights_has(weights, "b"));
    weights_close(&weights);
    remove_tree(&folder);
}

static void a_single_file_wins_over_an_index(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    write_letters(&folder, "model.safetensors", "a");
    folder_text(&folder, "model.safetensors.index.json", "no JSON");
    struct weights *weights = open_weights(&folder);
    assert_true(weights_has(weights, "a"));
    weights_close(&weights);
    unlink(path_in(&folder, "model.safetensors"));
    assert_refused(&folder, "not valid JSON");
    remove_tree(&folder);
}

static void an_index_that_lies_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *map, *message;
    } cases[] = {
        { "{\"a\": \"one\", \"b\": \"two\", \"x\": \"two\"}", "tensor \"x\" is not in two" },
        { "{\"a\": \"one\", \"b\": \"one\", \"c\": \"two\"}",
          "tensor \"b\" is not in one but in /tmp/seqd-test" },
        { "{\"a\": \"one\", \"b\": \"gone\"}", "/gone: no such file" },
        { "{\"a\": \"one\", \"b\": \"again\"}", "both have tensor \"a\"" },
        { "{\"a\": \"one\", \"b\": \"pipe\"}", "not a regular file" },
        { "{\"a\": \"../one\"}", "plain name" },
        { "{\"a\": \"/etc/passwd\"}", "\"/etc/passwd\"" },
        { "{\"a\": \"..\"}", "plain name" },
        { "{\"a\": \".\"}", "plain name" },
        { "{\"a\": \"\"}", "plain name" },
        { "{\"a\": \"one\\u0000\"}", "\\u0000" },
        { "{\"a\": 1}", "no text" },
        { "{\"a\": null}", "no text" },
        { "{}", "names 0 files" },
        { "[]", "no object" },
        { "null", "no object" },
        { "{\"a\": \"one\", \"a\": \"two\"}", "duplicate" },
    };
    const struct folder folder = make_tree();
    write_letters(&folder, "one", "a");
    write_letters(&folder, "two", "bc");
    write_letters(&folder, "again", "ab");
    assert_int_equal(mkfifo(path_in(&folder, "pipe"), 0600), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_index(&folder, cases[i].map);
        assert_refused(&folder, cases[i].message);
    }
    folder_text(&folder, "model.safetensors.index.json", "{}");
    assert_refused(&folder, "\"weight_map\" is no object");
    remove_tree(&folder);
}

static void every_failed_allocation_is_clean(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    write_letters(&folder, "one", "ac");
    write_letters(&folder, "two", "b");
    write_index(&folder, "{\"a\": \"one\", \"b\": \"two\"}");
    for (long failures = 0;; failures++) {
        struct weights *weights;
        struct error err = { 0 };
        mem_fail_after(failures);
        const int rc = weights_open(&weights, folder.path, &err);
        mem_fail_after(-1);
        if (rc == 0) {
            assert_true(failures > 20);
            weights_close(&weights);
            weights_close(&weights);
            break;
        }
        if (err.code != ERR_NO_MEMORY)
            fail_msg("allocation %ld: %s", failures, err.message);
        assert_null(weights);
    }
    remove_tree(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_that_lies_about_its_data_is_refused),
        cmocka_unit_test(a_header_as_writers_make_it_loads),
        cmocka_unit_test(a_file_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(a_tensor_of_another_type_is_only_refused_when_it_is_wanted),
        cmocka_unit_test(an_unaligned_matrix_is_copied_once),
        cmocka_unit_test(a_folder_without_safetensors_is_told_what_to_do),
        cmocka_unit_test(the_tensors_of_all_shards_are_found),
        cmocka_unit_test(a_tensor_that_the_index_does_not_name_is_used),
        cmocka_unit_test(a_single_file_wins_over_an_index),
        cmocka_unit_test(an_index_that_lies_is_refused),
        cmocka_unit_test(every_failed_allocation_is_clean),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
