/* Links in model folders: the hub's cache works, and nothing else of the machine is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/file.h"
#include "model/json.h"
#include "weight_folder.h"

#include <errno.h>

static const char snapshot[] = "models--a--b/snapshots/0123abcd";

/* What huggingface_hub leaves of a repository: blobs by hash, and links to them. */
static struct folder make_cache(void)
{
    const struct folder folder = make_tree();
    make_folder(&folder, "models--a--b");
    make_folder(&folder, "models--a--b/blobs");
    make_folder(&folder, "models--a--b/snapshots");
    make_folder(&folder, snapshot);
    write_letters(&folder, "models--a--b/blobs/77aa", "a");
    folder_text(&folder, "models--a--b/blobs/88bb", "{\"b\": 1}");
    make_link(&folder, "models--a--b/snapshots/0123abcd/model.safetensors", "../../blobs/77aa");
    make_link(&folder, "models--a--b/snapshots/0123abcd/config.json", "../../blobs/88bb");
    return folder;
}

/* Opens DIR/NAME below `folder`; "" or why not; NULL if the file is not there. */
static const char *outcome(const struct folder *folder, const char *dir, const char *name)
{
    static struct error err;
    size_t bytes;
    err = (struct error){ 0 };
    const int fd = model_file_open(path_in(folder, dir), name, &bytes, &err);
    if (fd >= 0) {
        close(fd);
        return "";
    }
    if (err.code != ERR_NONE)
        assert_int_equal(err.code, ERR_IO);
    return err.code == ERR_NONE ? NULL : err.message;
}

static void assert_opens(const struct folder *folder, const char *dir, const char *name)
{
    assert_string_equal(outcome(folder, dir, name), "");
}

static void assert_refused(const struct folder *folder, const char *dir, const char *name,
                           const char *part)
{
    const char *message = outcome(folder, dir, name);
    assert_non_null(message);
    if (!strstr(message, part))
        fail_msg("\"%s\" does not say \"%s\"", message, part);
}

static void a_snapshot_of_the_hub_cache_is_read(void **state)
{
    (void)state;
    const struct folder folder = make_cache();
    struct weights *weights;
    struct error err = { 0 };
    assert_int_equal(weights_open(&weights, path_in(&folder, snapshot), &err), 0);
    assert_true(weights_has(weights, "a"));
    weights_close(&weights);
    json_t *json = json_read_file(path_in(&folder, snapshot), "config.json", 100, &err);
    assert_int_equal(json_integer_value(json_object_get(json, "b")), 1);
    json_decref(json);
    /* through a link to the snapshot, and in folders below it */
    make_link(&folder, "current", snapshot);
    assert_opens(&folder, "current", "model.safetensors");
    make_folder(&folder, "models--a--b/snapshots/0123abcd/1_Pooling");
    make_link(&folder, "models--a--b/snapshots/0123abcd/1_Pooling/config.json",
              "../../../blobs/88bb");
    assert_opens(&folder, snapshot, "1_Pooling/config.json");
    assert_opens(&folder, "current/1_Pooling", "config.json");
    remove_tree(&folder);
}

static void a_shard_may_be_a_link_too(void **state)
{
    (void)state;
    const struct folder folder = make_cache();
    struct weights *weights;
    struct error err = { 0 };
    unlink(path_in(&folder, "models--a--b/snapshots/0123abcd/model.safetensors"));
    folder_text(&folder, "models--a--b/blobs/99cc", "{\"weight_map\": {\"a\": \"shard\"}}");
    make_link(&folder, "models--a--b/snapshots/0123abcd/model.safetensors.index.json",
              "../../blobs/99cc");
    make_link(&folder, "models--a--b/snapshots/0123abcd/shard", "../../blobs/77aa");
    assert_int_equal(weights_open(&weights, path_in(&folder, snapshot), &err), 0);
    assert_true(weights_has(weights, "a"));
    weights_close(&weights);
    make_link(&folder, "models--a--b/snapshots/0123abcd/shard", "/etc/passwd");
    assert_int_equal(weights_open(&weights, path_in(&folder, snapshot), &err), -1);
    assert_non_null(strstr(err.message, "/shard leads out of the model's folder"));
    remove_tree(&folder);
}

/* A ConfigMap's files are links to links. */
static void links_within_the_folder_are_followed(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    make_folder(&folder, "model");
    make_folder(&folder, "model/..2024");
    folder_text(&folder, "model/..2024/config.json", "{}");
    make_link(&folder, "model/..data", "..2024");
    make_link(&folder, "model/config.json", "..data/config.json");
    assert_opens(&folder, "model", "config.json");
    make_link(&folder, "model/absolute.json", path_in(&folder, "model/..2024/config.json"));
    assert_opens(&folder, "model", "absolute.json");
    remove_tree(&folder);
}

static void a_link_out_of_the_folder_is_refused(void **state)
{
    (void)state;
    const struct folder folder = make_cache();
    make_folder(&folder, "model");
    make_folder(&folder, "model-2");
    make_folder(&folder, "blobs");
    make_folder(&folder, "models--a--b/blobs-2");
    folder_text(&folder, "model-2/secret", "root:x:0:0");
    folder_text(&folder, "blobs/secret", "root:x:0:0");
    folder_text(&folder, "models--a--b/blobs-2/secret", "root:x:0:0");
    static const struct {
        const char *dir, *target;
    } cases[] = {
        { "model", "/etc/passwd" },
        { "model", "../model-2/secret" }, /* a name that begins alike */
        { "model", "../blobs/secret" },   /* no snapshot: no blobs */
        { "model", "/proc/self/root/etc/passwd" },
        { "model", "/dev/zero" },
        { "models--a--b/snapshots/0123abcd", "/etc/passwd" },
        { "models--a--b/snapshots/0123abcd", "../../../blobs/secret" },
        { "models--a--b/snapshots/0123abcd", "../../blobs-2/secret" },
        { "models--a--b/snapshots/0123abcd", "../../blobs/../../model-2/secret" },
        { "models--a--b/snapshots", "../blobs/88bb" }, /* not a revision */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s/config.json", cases[i].dir);
        make_link(&folder, name, cases[i].target);
        assert_refused(&folder, cases[i].dir, "config.json", "leads out of the model's folder");
    }
    assert_refused(&folder, "model", "../model-2/secret", "leads out");
    make_link(&folder, "model/linked", "../model-2"); /* a folder of it */
    assert_refused(&folder, "model", "linked/secret", "leads out");
    remove_tree(&folder);
}

static void what_a_refused_file_says_stays_there(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    struct error err = { 0 };
    make_folder(&folder, "model");
    folder_text(&folder, "secret", "hunter2");
    make_link(&folder, "model/config.json", "../secret");
    assert_null(json_read_file(path_in(&folder, "model"), "config.json", 100, &err));
    assert_int_equal(err.code, ERR_IO);
    assert_null(strstr(err.message, "hunter2"));
    remove_tree(&folder);
}

static void a_link_to_nothing_names_its_target(void **state)
{
    (void)state;
    const struct folder folder = make_cache();
    struct weights *weights;
    struct error err = { 0 };
    unlink(path_in(&folder, "models--a--b/blobs/77aa"));
    assert_refused(&folder, snapshot, "model.safetensors", "must be mounted or copied whole");
    assert_refused(&folder, snapshot, "model.safetensors", "0123abcd/model.safetensors is a link");
    assert_refused(&folder, snapshot, "model.safetensors", "(the target is ../../blobs/77aa)");
    /* and is no reason to look for an index */
    folder_text(&folder, "models--a--b/snapshots/0123abcd/model.safetensors.index.json", "{}");
    assert_int_equal(weights_open(&weights, path_in(&folder, snapshot), &err), -1);
    assert_non_null(strstr(err.message, "blobs/77aa"));
    make_link(&folder, "loop", "loop");
    assert_refused(&folder, ".", "loop", strerror(ELOOP));
    remove_tree(&folder);
}

static void only_what_is_not_there_is_no_error(void **state)
{
    (void)state;
    const struct folder folder = make_cache();
    assert_null(outcome(&folder, snapshot, "generation_config.json"));
    assert_null(outcome(&folder, "nowhere", "config.json"));
    assert_refused(&folder, "models--a--b/blobs/88bb", "config.json", strerror(ENOTDIR));
    assert_refused(&folder, "models--a--b", "blobs", "not a regular file");
    char name[5000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_refused(&folder, snapshot, name, "path is too long");
    name[300] = '\0';
    assert_refused(&folder, snapshot, name, strerror(ENAMETOOLONG));
    remove_tree(&folder);
}

static void small_values_take_no_more_memory_than_their_limit_allows(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    static char text[1 << 20] = "[{}";
    struct error err = { 0 };
    for (size_t i = 3; i + 4 < sizeof text; i += 3)
        memcpy(text + i, ",{}", 4);
    strcat(text, "]");
    folder_text(&folder, "config.json", text);
    assert_null(json_read_file(folder.path, "config.json", sizeof text, &err));
    assert_int_equal(err.code, ERR_BAD_MODEL);
    assert_non_null(strstr(err.message, "config.json: its JSON takes more than 17 MB of memory"));
    json_t *json = json_array(); /* what is not parsed is not limited */
    assert_non_null(json);
    json_decref(json);
    /* a larger limit, and requests, which have limits of their own */
    err = (struct error){ 0 };
    json = json_read_file(folder.path, "config.json", 8 * sizeof text, &err);
    assert_non_null(json);
    json_decref(json);
    json = json_parse(text, strlen(text), "the body", ERR_BAD_JSON, &err);
    assert_non_null(json);
    json_decref(json);
    remove_tree(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_of_the_hub_cache_is_read),
        cmocka_unit_test(a_shard_may_be_a_link_too),
        cmocka_unit_test(links_within_the_folder_are_followed),
        cmocka_unit_test(a_link_out_of_the_folder_is_refused),
        cmocka_unit_test(what_a_refused_file_says_stays_there),
        cmocka_unit_test(a_link_to_nothing_names_its_target),
        cmocka_unit_test(only_what_is_not_there_is_no_error),
        cmocka_unit_test(small_values_take_no_more_memory_than_their_limit_allows),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
