/* What opening weights costs: a hostile header takes less than a second and 50 MB, and so do
 * 10,000 tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "weight_folder.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 }; /* time and memory are not the daemon's then */
#else
enum { SANITIZED = 0 };
#endif

enum { TENSORS = 10000, TEXT_BYTES = 8 << 20 };

static char *text;

/* Runs `attempt` in a process of its own, whose costs it returns. */
static struct rusage costs_of(void (*attempt)(const struct folder *), const struct folder *folder)
{
    struct rusage usage;
    int status;
    malloc_trim(0); /* what we keep free, the child would not have to take */
    const pid_t child = fork();
    if (child == 0) {
        attempt(folder);
        _exit(0);
    }
    assert_true(wait4(child, &status, 0, &usage) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return usage;
}

static void do_nothing(const struct folder *folder)
{
    (void)folder;
}

static void be_refused(const struct folder *folder)
{
    struct weights *weights;
    struct error err = { 0 };
    if (weights_open(&weights, folder->path, &err) == 0)
        _exit(1);
}

static void be_refused_for_the_sum(const struct folder *folder)
{
    struct weights *weights;
    struct error err = { 0 };
    if (weights_open(&weights, folder->path, &err) == 0 || !strstr(err.message, "bytes of headers"))
        _exit(1);
}

static void find_all(const struct folder *folder)
{
    struct weights *weights;
    struct error err = { 0 };
    if (weights_open(&weights, folder->path, &err) < 0)
        _exit(1);
    for (int i = 0; i < TENSORS; i++) {
        char name[64];
        snprintf(name, sizeof name, "decoder.layers.%d.encoder_attn.q_proj.weight", i);
        if (!weights_has(weights, name))
            _exit(2);
    }
    log_set_level(LOG_NONE);
    weights_warn_unused(weights);
    weights_close(&weights);
}

static void assert_cheap(void (*attempt)(const struct folder *), const struct folder *folder)
{
    const struct rusage nothing = costs_of(do_nothing, folder), usage = costs_of(attempt, folder);
    const double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    const long kilobytes = usage.ru_maxrss - nothing.ru_maxrss;
    if (!SANITIZED && (seconds > 1.0 || kilobytes > 50 << 10))
        fail_msg("%.2f s, %ld KB", seconds, kilobytes);
}

/* `unit` repeated, between `before` and `after`, in about `bytes`. */
static void fill_text(const char *before, const char *unit, const char *after, size_t bytes)
{
    const size_t length = strlen(unit);
    size_t end = strlen(before);
    memcpy(text, before, end);
    for (; end + length + strlen(after) < bytes; end += length)
        memcpy(text + end, unit, length);
    memcpy(text + end, after, strlen(after) + 1);
}

static void a_hostile_header_is_cheap(void **state)
{
    (void)state;
    static const struct {
        const char *before, *unit, *after;
        size_t bytes;
    } cases[] = {
        { "[{}", ",{}", "]", TEXT_BYTES },
        { "{\"a\":[[]", ",[]", "]}", TEXT_BYTES },
        { "{\"a\":[1", ",1", "]}", TEXT_BYTES },
        { "{\"", "aaaaaaaa", "\":1}", TEXT_BYTES },
        { "", "[", "", TEXT_BYTES },
        { "", "{\"\":", "", TEXT_BYTES },
        { "", "        ", "[]", TEXT_BYTES },
        { "{}", "        ", "", TEXT_BYTES + 1024 },
    };
    const struct folder folder = make_tree();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fill_text(cases[i].before, cases[i].unit, cases[i].after, cases[i].bytes);
        write_weights(&folder, "model.safetensors", text, 0);
        assert_cheap(be_refused, &folder);
    }
    remove_tree(&folder);
}

/* As many tensors as the header holds. */
static void many_tensors(size_t count, const char *shape)
{
    size_t length = 1;
    strcpy(text, "{");
    for (size_t i = 0; i < count; i++)
        length += (size_t)sprintf(text + length,
                                  "%s\"decoder.layers.%zu.encoder_attn.q_proj.weight\":"
                                  "{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,0]}",
                                  i ? "," : "", i, shape);
    strcpy(text + length, "}");
}

static void ten_thousand_tensors_are_found_at_once(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    many_tensors(TENSORS, "[0,1024]");
    write_weights(&folder, "model.safetensors", text, 0);
    assert_cheap(find_all, &folder);
    remove_tree(&folder);
}

static void more_tensors_than_any_model_has_are_refused(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    many_tensors(60000, "[0]");
    write_weights(&folder, "model.safetensors", text, 0);
    assert_cheap(be_refused, &folder);
    remove_tree(&folder);
}

/* Each shard may pass, all of them together may not. */
static void hostile_shards_are_cheap(void **state)
{
    (void)state;
    const struct folder folder = make_tree();
    size_t length = (size_t)sprintf(text, "{\"weight_map\": {");
    char name[16];
    for (int i = 0; i < 1000; i++)
        length += (size_t)sprintf(text + length, "%s\"%d\": \"%d\"", i ? ", " : "", i, i);
    strcpy(text + length, "}}");
    folder_text(&folder, "model.safetensors.index.json", text);
    fill_text("{", "        ", "}", TEXT_BYTES);
    write_weights(&folder, "0", text, 0);
    for (int i = 1; i < 1000; i++) {
        snprintf(name, sizeof name, "%d", i);
        make_link(&folder, name, "0");
    }
    assert_cheap(be_refused_for_the_sum, &folder);
    remove_tree(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hostile_header_is_cheap),
        cmocka_unit_test(ten_thousand_tensors_are_found_at_once),
        cmocka_unit_test(more_tensors_than_any_model_has_are_refused),
        cmocka_unit_test(hostile_shards_are_cheap),
    };
    log_set_level(LOG_ERROR);
    text = malloc(2 * TEXT_BYTES);
    if (!text)
        return 1;
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(text);
    return rc;
}
