/* The file of API keys: what is read, what is refused, which key is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/keys.h"

#define SIXTEEN "0123456789abcdef"

static char path[64];

static int make_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/test_keys.XXXXXX");
    const int fd = mkstemp(path); /* mode 0600 */
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_bytes(const void *bytes, size_t count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static struct keys *read_keys(const char *text)
{
    struct keys *keys;
    struct error err = { 0 };
    write_bytes(text, strlen(text));
    if (keys_open(&keys, path, &err) < 0)
        fail_msg("%s", err.message);
    return keys;
}

static const struct key *find(const struct keys *keys, const char *text)
{
    return keys_find(keys, text, strlen(text));
}

static void keys_labels_comments_and_blanks_are_read(void **state)
{
    (void)state;
    struct keys *keys = read_keys("# who may ask\n\n"
                                  "  " SIXTEEN "-plain \t\r\n"
                                  "team-a: " SIXTEEN "-a\n"
                                  "b.2:" SIXTEEN "+/=~#!\"\n"
                                  "\t# " SIXTEEN "-comment\n"
                                  "last:\t" SIXTEEN);
    assert_int_equal(keys_count(keys), 4);
    assert_string_equal(find(keys, SIXTEEN "-plain")->label, "");
    assert_string_equal(find(keys, SIXTEEN "-a")->label, "team-a");
    assert_string_equal(find(keys, SIXTEEN "+/=~#!\"")->label, "b.2");
    assert_string_equal(find(keys, SIXTEEN)->label, "last");
    assert_null(find(keys, SIXTEEN "-comment"));
    assert_null(find(keys, "team-a: " SIXTEEN "-a"));
    keys_close(&keys);
    assert_null(keys);
}

/* Every key alone, and each with one byte more, less or different at every place. */
static void only_the_whole_key_is_found(void **state)
{
    (void)state;
    char file[4096] = "", text[KEY_BYTES_MAX + 2], longest[KEY_BYTES_MAX + 1];
    for (size_t i = 0; i < KEY_BYTES_MAX; i++)
        longest[i] = (char)('!' + i % 25); /* before the colon */
    longest[KEY_BYTES_MAX] = '\0';
    const char *const all[] = { longest, SIXTEEN, SIXTEEN "0", "fedcba9876543210" };
    for (size_t i = 0; i < 4; i++) {
        strcat(file, "x:");
        strcat(strcat(file, all[i]), "\n");
    }
    struct keys *keys = read_keys(file);
    for (size_t i = 0; i < 4; i++) {
        const size_t length = strlen(all[i]);
        const struct key *key = find(keys, all[i]);
        assert_non_null(key);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(key, find(keys, all[j]));
        for (size_t place = 0; place < length; place++) {
            strcpy(text, all[i]);
            text[place] ^= 0x40;
            assert_null(find(keys, text));
        }
        const struct key *shorter = keys_find(keys, all[i], length - 1);
        assert_ptr_equal(shorter, i == 2 ? find(keys, SIXTEEN) : NULL);
        strcat(strcpy(text, all[i]), "x");
        assert_null(find(keys, text));
    }
    assert_null(find(keys, ""));
    assert_null(keys_find(keys, SIXTEEN "\0", 18));
    keys_close(&keys);
}

static void a_key_has_the_same_identity_in_every_reading(void **state)
{
    (void)state;
    struct keys *one = read_keys(SIXTEEN "-1\n" SIXTEEN "-2\n");
    struct keys *two = read_keys("a:" SIXTEEN "-2\nb:" SIXTEEN "-1\n");
    assert_true(find(one, SIXTEEN "-1")->identity == find(two, SIXTEEN "-1")->identity);
    assert_true(find(one, SIXTEEN "-2")->identity == find(two, SIXTEEN "-2")->identity);
    assert_true(find(one, SIXTEEN "-1")->identity != find(one, SIXTEEN "-2")->identity);
    keys_close(&one);
    keys_close(&two);
}

static void check_refused(const void *bytes, size_t count, const char *part)
{
    struct keys *keys;
    struct error err = { 0 };
    write_bytes(bytes, count);
    assert_int_equal(keys_open(&keys, path, &err), -1);
    assert_null(keys);
    assert_int_equal(err.code, ERR_CONFIG);
    if (!strstr(err.message, part) || !strstr(err.message, path))
        fail_msg("\"%s\" is not in \"%s\"", part, err.message);
    /* Nothing of what the file has may be seen. */
    assert_null(strstr(err.message, "0123"));
    assert_null(strstr(err.message, "secret"));
}

static void a_wrong_line_is_refused_by_its_number_and_not_shown(void **state)
{
    (void)state;
    char longest[KEY_BYTES_MAX + 2];
    memset(longest, 'k', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    static const char *const cases[][2] = {
        { "", "no key" },
        { "# " SIXTEEN "\n\n", "no key" },
        { "0123456789abcde\n", ":1: a key has 16 to 128" },
        { "\n#\nsecret:0123\n", ":3: a key has 16 to 128" },
        { "secret:\n", ":1: a key has 16 to 128" },
        { SIXTEEN " secret\n", ":1: a key has visible" },
        { SIXTEEN "\x7f\n", ":1: a key has visible" },
        { SIXTEEN "\xc3\xa9\n", ":1: a key has visible" },
        { "\xef\xbb\xbf" SIXTEEN "\n", ":1: a key has visible" },
        { "a:" SIXTEEN ":b\n", ":1: a key has visible" },
        { ":" SIXTEEN "\n", ":1: a label" },
        { "a secret:" SIXTEEN "\n", ":1: a label" },
        { SIXTEEN "\na:" SIXTEEN "\n", ":2: this key is there twice" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i][0], strlen(cases[i][0]), cases[i][1]);
    check_refused(longest, KEY_BYTES_MAX + 1, ":1: a key has 16 to 128");
    check_refused(SIXTEEN "\0" SIXTEEN, 33, "NUL");
}

static void a_file_that_everyone_may_read_or_write_is_refused(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        bool allowed;
    } cases[] = { { 0600, true },  { 0400, true },  { 0640, true },  { 0660, true },
                  { 0644, false }, { 0604, false }, { 0602, false }, { 0666, false } };
    write_bytes(SIXTEEN, 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct keys *keys;
        struct error err = { 0 };
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(keys_open(&keys, path, &err), cases[i].allowed ? 0 : -1);
        if (!cases[i].allowed)
            assert_non_null(strstr(err.message, "everyone"));
        keys_close(&keys);
    }
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    static const char *const paths[] = { "/nowhere/keys", "/tmp", "/dev/null" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct keys *keys;
        struct error err = { 0 };
        assert_int_equal(keys_open(&keys, paths[i], &err), -1);
        assert_int_equal(err.code, ERR_CONFIG);
        assert_non_null(strstr(err.message, paths[i]));
    }
}

static void more_than_1024_keys_are_refused(void **state)
{
    (void)state;
    static char text[KEYS_MAX * 24 + 48];
    for (int i = 0; i < KEYS_MAX; i++)
        sprintf(text + strlen(text), "0123456789abcd%06d\n", i);
    struct keys *keys = read_keys(text);
    assert_int_equal(keys_count(keys), KEYS_MAX);
    assert_non_null(find(keys, "0123456789abcd001023"));
    keys_close(&keys);
    strcat(text, SIXTEEN "\n");
    check_refused(text, strlen(text), ":1025: more than 1024 keys");
}

static void no_failed_allocation_leaves_anything(void **state)
{
    (void)state;
    struct keys *keys = NULL;
    write_bytes("a:" SIXTEEN "\n", 19);
    for (long failures = 0;; failures++) {
        struct error err = { 0 };
        mem_fail_after(failures);
        const int result = keys_open(&keys, path, &err);
        mem_fail_after(-1);
        if (result == 0)
            break;
        assert_int_equal(err.code, ERR_NO_MEMORY);
        assert_null(keys);
    }
    keys_close(&keys);
}

int main(void)
{
#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_file, remove_file)
    const struct CMUnitTest tests[] = {
        WITH_FILE(keys_labels_comments_and_blanks_are_read),
        WITH_FILE(only_the_whole_key_is_found),
        WITH_FILE(a_key_has_the_same_identity_in_every_reading),
        WITH_FILE(a_wrong_line_is_refused_by_its_number_and_not_shown),
        WITH_FILE(a_file_that_everyone_may_read_or_write_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        WITH_FILE(more_than_1024_keys_are_refused),
        WITH_FILE(no_failed_allocation_leaves_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
