/* Packed copies in a folder of their own: made once, by content, never in the way of serving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "checkpoint.h"
#include "model/pack.h"

static size_t warnings;
static char last_warning[512];

static void take_warning(void *context, const char *message)
{
    (void)context;
    snprintf(last_warning, sizeof last_warning, "%s", message);
    warnings++;
}

static int setup(void **state)
{
    checkpoint_setup(state);
    log_set_level(LOG_WARNING);
    log_divert(take_warning, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    log_divert(NULL, NULL);
    return 0;
}

/* The model of tests/kit/NAME with the cache in FOLDER/cache. */
static struct model *open_cached(const char *name, const struct folder *folder)
{
    char dir[128];
    struct model *model;
    struct error err = { 0 };
    snprintf(dir, sizeof dir, "tests/kit/%s", name);
    warnings = 0;
    if (model_open(&model, dir, name, &checkpoint_kernels, &err) < 0)
        fail_msg("%s", err.message);
    model_use_cache(&model, path_in(folder, "cache"), &checkpoint_kernels);
    assert_non_null(model);
    return model;
}

static bool is_packed(const struct model *model)
{
    return model->encoder.layers[0].ffn_in.w.layout == LAYOUT_PANELS &&
           model->output.w.layout == LAYOUT_PANELS && model->screen.data;
}

/* As the folder itself answers. */
static void assert_answers(const char *name, const struct model *model)
{
    static struct run right, run;
    char dir[128];
    struct model *plain;
    struct error err = { 0 };
    snprintf(dir, sizeof dir, "tests/kit/%s", name);
    assert_int_equal(model_open(&plain, dir, name, &checkpoint_kernels, &err), 0);
    run_model(plain, &right);
    run_model(model, &run);
    assert_memory_equal(&run, &right, sizeof run);
    assert_int_equal(model->parameter_count, plain->parameter_count);
    assert_int_equal(model->dtype, plain->dtype);
    model_close(&plain);
}

/* Opens, compares and closes; whether it was packed. */
static bool use(const char *name, const struct folder *folder)
{
    struct model *model = open_cached(name, folder);
    const bool packed = is_packed(model);
    assert_answers(name, model);
    model_close(&model);
    return packed;
}

/* How many files the cache has; *last: one of them. */
static size_t count_files(const struct folder *folder, char last[256])
{
    size_t count = 0;
    DIR *entries = opendir(path_in(folder, "cache"));
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(last, 256, "cache/%.200s", entry->d_name);
            count++;
        }
    closedir(entries);
    return count;
}

static struct stat status_of(const struct folder *folder, const char *name)
{
    struct stat st;
    assert_int_equal(stat(path_in(folder, name), &st), 0);
    return st;
}

static void the_first_use_makes_a_copy_and_later_ones_map_it(void **state)
{
    (void)state;
    static const char *const names[] = { "vanilla_post", "t5", "marian_f16", "marian_sharded" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct folder folder = make_tree();
        char copy[256];
        assert_true(use(names[i], &folder));
        assert_int_equal(count_files(&folder, copy), 1);
        const struct stat first = status_of(&folder, copy);
        assert_true(use(names[i], &folder));
        assert_int_equal(count_files(&folder, copy), 1);
        const struct stat second = status_of(&folder, copy);
        assert_int_equal(first.st_ino, second.st_ino);
        assert_int_equal(first.st_mtim.tv_nsec, second.st_mtim.tv_nsec);
        assert_int_equal(warnings, 0);
        remove_tree(&folder);
    }
}

static void each_content_has_a_copy_of_its_own(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    char copy[256];
    for (int round = 0; round < 3; round++) {
        assert_true(use("vanilla_post", &folder));
        assert_true(use("vanilla_pre", &folder));
    }
    assert_int_equal(count_files(&folder, copy), 2);
    remove_tree(&folder);
}

static bool is_there(const struct folder *folder, const char *name)
{
    return access(path_in(folder, name), F_OK) == 0;
}

static void what_a_dead_process_left_goes_and_nothing_else(void **state)
{
    (void)state;
#define DIGEST "0123456789abcdef0123456789abcdef"
    static const char dead[] = "cache/." DIGEST "-1.packed.77.0.new",
                      old[] = "cache/." DIGEST "-0.packed.78.3.new",
                      living[] = "cache/." DIGEST "-1.packed.79.0.new";
    static const char *const others[] = { "cache/.bashrc.new", "cache/." DIGEST ".new",
                                          "cache/x.packed.new", "cache/." DIGEST "-1.packed.7" };
    const struct folder folder = make_tree();
    make_folder(&folder, "cache");
    folder_text(&folder, dead, "half");
    folder_text(&folder, old, "");
    folder_text(&folder, living, "half");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        folder_text(&folder, others[i], "mine");
    const int fd = open(path_in(&folder, living), O_WRONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_true(use("vanilla_post", &folder));
    assert_false(is_there(&folder, dead));
    assert_false(is_there(&folder, old));
    assert_true(is_there(&folder, living));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(is_there(&folder, others[i]));
    close(fd);
    assert_true(use("vanilla_post", &folder));
    assert_false(is_there(&folder, living));
    remove_tree(&folder);
}

static void a_damaged_copy_is_told_and_written_anew(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    char copy[256];
    assert_true(use("vanilla_post", &folder));
    assert_int_equal(count_files(&folder, copy), 1);
    const off_t bytes = status_of(&folder, copy).st_size;
    const off_t cuts[] = { 0, 100, bytes - 64 };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(truncate(path_in(&folder, copy), cuts[i]), 0);
        assert_true(use("vanilla_post", &folder));
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(last_warning, copy));
        assert_int_equal(status_of(&folder, copy).st_size, bytes);
        assert_true(use("vanilla_post", &folder));
        assert_int_equal(warnings, 0);
    }
    assert_int_equal(count_files(&folder, copy), 1);
    remove_tree(&folder);
}

/* No folder can be where a file is, for root neither. */
static void a_cache_that_cannot_be_written_is_a_warning(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    folder_text(&folder, "cache", "a file");
    assert_false(use("vanilla_post", &folder));
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "vanilla_post"));
    assert_non_null(strstr(last_warning, "cache"));
    const struct folder below = { "/dev/null" };
    assert_false(use("vanilla_post", &below));
    assert_int_equal(warnings, 1);
    remove_tree(&folder);
}

static void a_full_disk_is_a_warning_and_leaves_nothing(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    struct rlimit old, small;
    char copy[256];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 20000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct model *model = open_cached("vanilla_post", &folder);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(is_packed(model));
    assert_answers("vanilla_post", model);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "File too large"));
    assert_non_null(strstr(last_warning, "cache"));
    assert_int_equal(count_files(&folder, copy), 0);
    model_close(&model);
    remove_tree(&folder);
}

static void a_packed_folder_needs_no_copy(void **state)
{
    (void)state;
    struct error err;
    const struct pack_options options = { .dtype = DTYPE_BF16, .whole = true };
    const struct folder folder = make_tree(), place = make_tree();
    struct checkpoint *c = checkpoint_read("vanilla_post");
    checkpoint_write(c, &folder);
    struct model *model = checkpoint_open(c, &err);
    const int fd = open(path_in(&folder, PACK_FILE_NAME), O_WRONLY | O_CREAT, 0600);
    assert_int_equal(pack_write(model, &options, fd, &err), 0);
    close(fd);
    model_close(&model);
    warnings = 0;
    assert_int_equal(model_open(&model, folder.path, "packed", &checkpoint_kernels, &err), 0);
    model_use_cache(&model, path_in(&place, "cache"), &checkpoint_kernels);
    assert_int_equal(model->output.w.dtype, DTYPE_BF16);
    assert_false(is_there(&place, "cache"));
    assert_int_equal(warnings, 0);
    model_close(&model);
    checkpoint_free(c);
    remove_tree(&folder);
    remove_tree(&place);
}

static void without_memory_the_model_stays_as_it_is(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    char copy[256];
    bool packed = false;
    for (long n = 0; !packed; n++) {
        struct model *model;
        struct error err = { 0 };
        assert_int_equal(
            model_open(&model, "tests/kit/vanilla_post", "m", &checkpoint_kernels, &err), 0);
        warnings = 0;
        mem_fail_after(n);
        model_use_cache(&model, path_in(&folder, "cache"), &checkpoint_kernels);
        mem_fail_after(-1);
        packed = is_packed(model);
        assert_true(packed || warnings > 0);
        if (n % 40 == 0)
            assert_answers("vanilla_post", model);
        model_close(&model);
        /* A copy may be complete although there was no memory to open it. */
        for (size_t left = is_there(&folder, "cache") ? count_files(&folder, copy) : 0; left > 0;
             left--) {
            assert_int_equal(left, 1);
            assert_int_not_equal(copy[strlen("cache/")], '.');
            unlink(path_in(&folder, copy));
        }
    }
    remove_tree(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_use_makes_a_copy_and_later_ones_map_it),
        cmocka_unit_test(each_content_has_a_copy_of_its_own),
        cmocka_unit_test(what_a_dead_process_left_goes_and_nothing_else),
        cmocka_unit_test(a_damaged_copy_is_told_and_written_anew),
        cmocka_unit_test(a_cache_that_cannot_be_written_is_a_warning),
        cmocka_unit_test(a_full_disk_is_a_warning_and_leaves_nothing),
        cmocka_unit_test(a_packed_folder_needs_no_copy),
        cmocka_unit_test(without_memory_the_model_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
