#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/json.h"

static json_t *parse(const char *text, struct error *err)
{
    *err = (struct error){ 0 };
    return json_parse(text, strlen(text), "the body", ERR_BAD_JSON, err);
}

static void well_formed_text_is_parsed(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",
        "[]",
        " {\"a\": [1, 2.5, true, null, \"x\"]}\n",
        "[-0]",
        "[9223372036854775807]",
        "{\"a\": {\"b\": 1}, \"b\": {\"b\": 2}}",
        "[\"\\ud83d\\ude06\"]",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct error err;
        json_t *json = parse(good[i], &err);
        assert_non_null(json);
        assert_int_equal(err.code, ERR_NONE);
        json_decref(json);
    }
}

static void whatever_is_not_strict_json_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place;
    } bad[] = {
        { "", "empty" },
        { "{\"a\": 1,\n \"a\": 2}", "line 2, column 4" },
        { "{\"x\": {\"a\": 1, \"a\": 2}}", "line 1" },
        { "[1] x", "line 1, column 5" },
        { "[NaN]", "line 1" },
        { "[Infinity]", "line 1" },
        { "[1e400]", "line 1" },
        { "[9223372036854775808]", "line 1" },
        { "[1,]", "line 1, column 4" },
        { "[01]", "line 1" },
        { "\xef\xbb\xbf[]", "line 1" },
        { "[\"\xff\"]", "line 1" },
        { "[\"\xc0\x80\"]", "line 1" },
        { "[\"\\ud83d\"]", "line 1" },
        { "[\"\\u0000\"]", "line 1" },
        { "[\"a\nb\"]", "line 1" },
        { "5", "line 1" },
        { "\"a\"", "line 1" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err;
        assert_null(parse(bad[i].text, &err));
        assert_int_equal(err.code, ERR_BAD_JSON);
        if (!strstr(err.message, bad[i].place) || !strstr(err.message, "the body") ||
            strstr(err.message, "JSON_"))
            fail_msg("%s: %s", bad[i].text, err.message);
    }
}

static void a_raw_nul_is_refused(void **state)
{
    (void)state;
    struct error err = { 0 };
    assert_null(json_parse("[1]\0[2]", 7, "the body", ERR_BAD_JSON, &err));
    assert_int_equal(err.code, ERR_BAD_JSON);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    static const struct {
        size_t depth;
        int allowed;
    } cases[] = { { 2047, 1 }, { 2049, 0 }, { 100000, 0 } };
    for (size_t i = 0; i < 3; i++) {
        const size_t depth = cases[i].depth;
        char *text = malloc(2 * depth);
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct error err = { 0 };
        json_t *json = json_parse(text, 2 * depth, "the body", ERR_BAD_JSON, &err);
        assert_int_equal(json != NULL, cases[i].allowed);
        json_decref(json);
        free(text);
    }
}

static void values_are_copied_with_their_types(void **state)
{
    (void)state;
    struct error err;
    json_t *json = parse("[null, false, 7, 7.0, \"7\", [[1], 2], {\"a\": 1}]", &err);
    struct value value;
    assert_int_equal(json_to_value(json, &value, &err), 0);
    json_decref(json);
    static const enum value_kind kinds[] = { VALUE_NULL, VALUE_BOOL, VALUE_INT,   VALUE_REAL,
                                             VALUE_TEXT, VALUE_LIST, VALUE_OBJECT };
    assert_int_equal(value.kind, VALUE_LIST);
    assert_int_equal(value.count, 7);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(value.items[i].kind, kinds[i]);
    assert_int_equal(value.items[2].integer, 7);
    assert_string_equal(value.items[4].text, "7");
    assert_int_equal(value.items[5].items[0].items[0].integer, 1);
    value_clear(&value);
}

static void lists_deeper_than_eight_are_no_values(void **state)
{
    (void)state;
    struct error err;
    struct value value;
    json_t *eight = parse("[[[[[[[[1]]]]]]]]", &err);
    assert_int_equal(json_to_value(eight, &value, &err), 0);
    value_clear(&value);
    json_decref(eight);
    json_t *nine = parse("[[[[[[[[[1]]]]]]]]]", &err);
    assert_int_equal(json_to_value(nine, &value, &err), -1);
    assert_int_equal(err.code, ERR_OUT_OF_RANGE);
    json_decref(nine);
}

/* Writes `text` to DIR/name and reads it back as JSON. */
static json_t *read_back(const char *text, size_t limit, struct error *err)
{
    char dir[] = "/tmp/test_json.XXXXXX";
    assert_non_null(mkdtemp(dir));
    char path[64];
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (text) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
        fclose(file);
    }
    *err = (struct error){ 0 };
    json_t *json = json_read_file(dir, "config.json", limit, err);
    unlink(path);
    rmdir(dir);
    return json;
}

static void a_file_is_read_whole_or_refused_by_name(void **state)
{
    (void)state;
    struct error err;
    json_t *json = read_back("{\"a\": 1}", 8, &err);
    assert_non_null(json);
    json_decref(json);

    assert_null(read_back("{\"a\": 1}", 7, &err));
    assert_int_equal(err.code, ERR_BAD_MODEL);
    assert_non_null(strstr(err.message, "config.json"));

    assert_null(read_back("{\"a\": 1", 100, &err));
    assert_int_equal(err.code, ERR_BAD_MODEL);
    assert_non_null(strstr(err.message, "config.json"));
}

static void a_missing_file_is_no_error_but_a_folder_is(void **state)
{
    (void)state;
    struct error err;
    assert_null(read_back(NULL, 100, &err));
    assert_int_equal(err.code, ERR_NONE);
    assert_null(json_read_file("/", "tmp", 100, &err));
    assert_int_equal(err.code, ERR_IO);
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const char *text = "{\"a\": [1, 2, \"three\", {\"b\": [[4]]}]}";
    long failures = 0;
    for (;; failures++) {
        struct error err = { 0 };
        struct value value = { .kind = VALUE_NULL };
        mem_fail_after(failures);
        json_t *json = json_parse(text, strlen(text), "the body", ERR_BAD_JSON, &err);
        const int rc = json ? json_to_value(json_object_get(json, "a"), &value, &err) : -1;
        mem_fail_after(-1);
        json_decref(json);
        value_clear(&value);
        if (rc == 0)
            break;
        assert_int_not_equal(err.code, ERR_NONE);
    }
    assert_true(failures > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_text_is_parsed),
        cmocka_unit_test(whatever_is_not_strict_json_is_refused_with_its_place),
        cmocka_unit_test(a_raw_nul_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(values_are_copied_with_their_types),
        cmocka_unit_test(lists_deeper_than_eight_are_no_values),
        cmocka_unit_test(a_file_is_read_whole_or_refused_by_name),
        cmocka_unit_test(a_missing_file_is_no_error_but_a_folder_is),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
