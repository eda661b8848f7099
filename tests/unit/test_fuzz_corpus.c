/* What the fuzzers (tests/fuzz) start from and have found goes through the same readers here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>

#include "../fuzz/text_targets.h"

/* The bytes of the file lie in a block of their size, so that sanitizers see what is beyond. */
static void give(int (*target)(const uint8_t *, size_t), const char *path)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    const size_t count = (size_t)st.st_size;
    uint8_t *bytes = malloc(count ? count : 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, count, file), count);
    fclose(file);
    assert_int_equal(target(bytes, count), 0);
    free(bytes);
}

static void give_all(int (*target)(const uint8_t *, size_t), const char *folder)
{
    char path[512];
    size_t given = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        give(target, path);
        given++;
    }
    closedir(dir);
    assert_true(given > 10);
}

static void weight_files_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_safetensors, "tests/fuzz/corpus/safetensors");
}

static void indexes_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_shard_index, "tests/fuzz/corpus/shard_index");
}

static void configurations_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_config, "tests/fuzz/corpus/config");
}

static void models_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_model, "tests/fuzz/corpus/model");
}

static void packed_files_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_packed, "tests/fuzz/corpus/packed");
}

static void requests_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_request, "tests/fuzz/corpus/request");
}

static void settings_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_settings, "tests/fuzz/corpus/settings");
}

static void keys_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_keys, "tests/fuzz/corpus/keys");
}

static void vocabularies_of_the_corpus_do_no_harm(void **state)
{
    (void)state;
    give_all(fuzz_vocabulary, "tests/fuzz/corpus/vocabulary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_files_of_the_corpus_do_no_harm),
        cmocka_unit_test(indexes_of_the_corpus_do_no_harm),
        cmocka_unit_test(configurations_of_the_corpus_do_no_harm),
        cmocka_unit_test(models_of_the_corpus_do_no_harm),
        cmocka_unit_test(packed_files_of_the_corpus_do_no_harm),
        cmocka_unit_test(requests_of_the_corpus_do_no_harm),
        cmocka_unit_test(settings_of_the_corpus_do_no_harm),
        cmocka_unit_test(keys_of_the_corpus_do_no_harm),
        cmocka_unit_test(vocabularies_of_the_corpus_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
