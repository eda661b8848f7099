/* No number in a config.json makes the daemon reserve by it: one that is absurd is refused by its
 * name, or means nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <jansson.h>
#include <string.h>

#include "config_folder.h"

static int read_json(json_t *json, struct model_config *config, struct error *err)
{
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    const int rc = read_text(text, config, err);
    free(text);
    return rc;
}

static bool same_stacks(const struct stack_shape *a, const struct stack_shape *b)
{
    return a->layers == b->layers && a->heads == b->heads && a->key_width == b->key_width &&
           a->value_width == b->value_width && a->inner_width == b->inner_width;
}

static bool same_sizes(const struct model_config *a, const struct model_config *b)
{
    return a->width == b->width && same_stacks(&a->encoder, &b->encoder) &&
           same_stacks(&a->decoder, &b->decoder) && a->source_vocabulary == b->source_vocabulary &&
           a->target_vocabulary == b->target_vocabulary && a->positions_max == b->positions_max &&
           a->relative_distance == b->relative_distance;
}

/* How many fields of the file were refused with `value`; the others changed no size. */
static size_t count_refused(const char *path, json_t *value)
{
    struct model_config before, after;
    struct error err;
    size_t refused = 0;
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    if (read_json(json, &before, &err) < 0)
        fail_msg("%s: %s", path, err.message);
    const char *name;
    json_t *item;
    json_object_foreach (json, name, item) {
        if (!json_is_integer(item))
            continue;
        json_t *bomb = json_copy(json);
        json_object_set(bomb, name, value);
        if (read_json(bomb, &after, &err) == 0)
            assert_true(same_sizes(&before, &after));
        else if (strstr(err.message, name) && strstr(err.message, "config.json"))
            refused++;
        else
            fail_msg("%s: %s: %s", path, name, err.message);
        json_decref(bomb);
    }
    json_decref(json);
    json_decref(value);
    return refused;
}

static void absurd_numbers_are_refused_by_their_field(void **state)
{
    (void)state;
    glob_t kits;
    assert_int_equal(glob("tests/kit/*/config.json", 0, NULL, &kits), 0);
    assert_true(kits.gl_pathc > 30);
    for (size_t i = 0; i < kits.gl_pathc; i++) {
        assert_true(count_refused(kits.gl_pathv[i], json_integer(INT64_C(1) << 31)) >= 5);
        assert_true(count_refused(kits.gl_pathv[i], json_integer(INT64_MAX)) >= 5);
        assert_true(count_refused(kits.gl_pathv[i], json_integer(-5)) >= 5);
        assert_true(count_refused(kits.gl_pathv[i], json_real(1e300)) >= 5);
    }
    globfree(&kits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(absurd_numbers_are_refused_by_their_field, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
