#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/tokenizer.h"

#define SPECIALS "\"<pad>\", \"<unk>\", \"<s>\", \"</s>\""

static const struct model_config config = { .source_vocabulary = 12,
                                            .target_vocabulary = 9,
                                            .pad_id = 0,
                                            .bos_id = 2,
                                            .eos_id = 3,
                                            .start_id = 2 };

static const char letters[] = "{\"type\": \"characters\", \"lowercase\": true,"
                              " \"source\": [" SPECIALS ", \"'\", \"a\", \"b\", \"é\"],"
                              " \"target\": [" SPECIALS ", \"AA0\", \"B\", \"AA\"],"
                              " \"source_begin\": [\"<s>\"], \"source_end\": [\"</s>\"],"
                              " \"join\": \" \"}";

/* Opens a folder whose vocab.json is `json`; none when that is NULL. */
static int open_json(struct tokenizer **out, const char *json, struct error *err)
{
    char dir[] = "/tmp/test_tokenizer.XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/vocab.json", dir);
    if (json) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(json, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    *err = (struct error){ 0 };
    const int rc = tokenizer_open(out, dir, &config, err);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    return rc;
}

static struct tokenizer *opened(const char *json)
{
    struct tokenizer *tokenizer;
    struct error err;
    if (open_json(&tokenizer, json, &err) < 0)
        fail_msg("%s", err.message);
    assert_non_null(tokenizer);
    return tokenizer;
}

/* Ids end with −1. */
static void assert_ids(const int32_t *ids, size_t count, const int32_t *wanted)
{
    size_t i = 0;
    for (; wanted[i] >= 0; i++) {
        assert_true(i < count);
        assert_int_equal(ids[i], wanted[i]);
    }
    assert_int_equal(count, i);
}

static void assert_encodes(const struct tokenizer *tokenizer, const char *text,
                           const int32_t *wanted)
{
    int32_t *ids;
    size_t count, trailing;
    struct error err = { 0 };
    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), &ids, &count, &trailing, &err),
                     0);
    assert_ids(ids, count, wanted);
    mem_free(ids);
}

static void assert_encodes_target(const struct tokenizer *tokenizer, const char *text,
                                  const int32_t *wanted)
{
    int32_t *ids;
    size_t count;
    struct error err = { 0 };
    assert_int_equal(tokenizer_encode_target(tokenizer, text, strlen(text), &ids, &count, &err), 0);
    assert_ids(ids, count, wanted);
    mem_free(ids);
}

static void assert_decodes(const struct tokenizer *tokenizer, const int32_t *ids, bool skip_special,
                           const char *wanted)
{
    size_t count = 0;
    while (ids[count] != INT32_MIN)
        count++;
    char *text = tokenizer_decode(tokenizer, ids, count, skip_special);
    assert_non_null(text);
    assert_string_equal(text, wanted);
    mem_free(text);
}

#define IDS(...) ((const int32_t[]){ __VA_ARGS__, -1 })
#define OUT(...) ((const int32_t[]){ __VA_ARGS__, INT32_MIN })

static void characters_are_unicode_scalar_values_in_lower_case(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = opened(letters);
    assert_encodes(tokenizer, "Ab'", IDS(2, 5, 6, 4, 3));
    assert_encodes(tokenizer, "\xc3\x89", IDS(2, 7, 3)); /* É */
    /* Another letter, a blank, U+023A (whose small letter is longer), one beyond 16 bits. */
    assert_encodes(tokenizer, "z", IDS(2, 1, 3));
    assert_encodes(tokenizer, "a b", IDS(2, 5, 1, 6, 3));
    assert_encodes(tokenizer, "\xc8\xba", IDS(2, 1, 3));
    assert_encodes(tokenizer, "\xf0\x9f\x98\x80", IDS(2, 1, 3));
    tokenizer_close(&tokenizer);
    assert_null(tokenizer);
}

static void a_special_token_in_a_text_of_characters_is_just_characters(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = opened(letters);
    assert_encodes(tokenizer, "</s>", IDS(2, 1, 1, 1, 1, 3));
    tokenizer_close(&tokenizer);
}

static void an_empty_text_gives_just_begin_and_end(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = opened(letters);
    int32_t *ids;
    size_t count, trailing;
    struct error err = { 0 };
    assert_int_equal(tokenizer_encode(tokenizer, "", 0, &ids, &count, &trailing, &err), 0);
    assert_ids(ids, count, IDS(2, 3));
    assert_int_equal(trailing, 1);
    mem_free(ids);
    assert_int_equal(tokenizer_encode_target(tokenizer, "", 0, &ids, &count, &err), 0);
    assert_int_equal(count, 0);
    mem_free(ids);
    tokenizer_close(&tokenizer);
}

static void only_the_given_bytes_of_a_text_are_read(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = opened(letters);
    int32_t *ids;
    size_t count, trailing;
    struct error err = { 0 };
    const char bytes[] = { 'a', '\0', 'b', 'a' };
    assert_int_equal(tokenizer_encode(tokenizer, bytes, 3, &ids, &count, &trailing, &err), 0);
    assert_ids(ids, count, IDS(2, 5, 1, 6, 3));
    mem_free(ids);
    tokenizer_close(&tokenizer);
}

static void text_that_is_not_utf8_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a\xff",         "a\xc3",             /* no lead byte; cut short */
        "a\xc0\x80",     "a\xe0\x80\x80",     /* overlong */
        "a\xed\xa0\x80", "a\xf4\x90\x80\x80", /* a surrogate; beyond U+10FFFF */
        "a\x80",
    };
    struct tokenizer *lower = opened(letters);
    struct tokenizer *pattern =
        opened("{\"type\": \"pattern\", \"pattern\": \".\", \"source\": [" SPECIALS "]}");
    struct tokenizer *const tokenizers[] = { lower, pattern };
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            int32_t *ids;
            size_t count, trailing;
            struct error err = { 0 };
            assert_int_equal(tokenizer_encode(tokenizers[t], bad[i], strlen(bad[i]), &ids, &count,
                                              &trailing, &err),
                             -1);
            assert_int_equal(err.code, ERR_OUT_OF_RANGE);
            assert_non_null(strstr(err.message, "byte 1"));
            assert_null(ids);
            err = (struct error){ 0 };
            assert_int_equal(
                tokenizer_encode_target(tokenizers[t], bad[i], strlen(bad[i]), &ids, &count, &err),
                -1);
            assert_int_equal(err.code, ERR_OUT_OF_RANGE);
        }
    tokenizer_close(&lower);
    tokenizer_close(&pattern);
}

static void targets_are_split_at_the_join_and_keep_their_case(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = opened(letters);
    assert_encodes_target(tokenizer, "AA0 B AA", IDS(4, 5, 6));
    assert_encodes_target(tokenizer, " AA  B ", IDS(6, 5));
    assert_encodes_target(tokenizer, "aa0 B", IDS(1, 5));
    assert_encodes_target(tokenizer, "AA0B", IDS(1));
    tokenizer_close(&tokenizer);
}

static void targets_without_a_join_are_split_as_the_type_says(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = opened("{\"type\": \"characters\", \"lowercase\": true,"
                                         " \"source\": [" SPECIALS ", \"a\", \"b\"]}");
    /* One list for both: target texts are put in lower case too. */
    assert_encodes_target(tokenizer, "aB", IDS(4, 5));
    assert_decodes(tokenizer, OUT(4, 5, 4), true, "aba");
    tokenizer_close(&tokenizer);
}

static void words_are_split_at_any_white_space_and_joined_with_blanks(void **state)
{
    (void)state;
    struct tokenizer *tokenizer =
        opened("{\"type\": \"words\", \"source\": [" SPECIALS ", \"ab\", \"c\"]}");
    assert_encodes(tokenizer, "ab c", IDS(4, 5));
    /* Tab, newline, U+0085, U+00A0, U+3000. */
    assert_encodes(tokenizer, "\tc\n\nab\xc2\x85\x63\xc2\xa0\x63\xe3\x80\x80", IDS(5, 4, 5, 5));
    /* Python's str.split() splits at U+001C to U+001F too. */
    assert_encodes(tokenizer, "ab\x1c\x63\x1d\x63\x1e\x63\x1f\x63", IDS(4, 5, 5, 5, 5));
    assert_encodes(tokenizer, "abc AB", IDS(1, 1));
    /* U+200B is no white space. */
    assert_encodes(tokenizer, "c\xe2\x80\x8b\x63", IDS(1));
    assert_encodes(tokenizer, "   ", (const int32_t[]){ -1 });
    assert_decodes(tokenizer, OUT(4, 5), true, "ab c");
    tokenizer_close(&tokenizer);
}

static void a_pattern_gives_its_matches(void **state)
{
    (void)state;
    struct tokenizer *tokenizer =
        opened("{\"type\": \"pattern\", \"pattern\": \"(\\\\[[^\\\\]]+\\\\]|%\\\\d\\\\d|Br|Cl|.)\","
               " \"source\": [" SPECIALS
               ", \"Br\", \"C\", \"B\", \"r\", \"[nH+]\", \"%10\", \"l\", \"Cl\"],"
               " \"target\": [" SPECIALS ", \"C\", \"Br\"]}");
    assert_encodes(tokenizer, "CBrCl[nH+]%10rB", IDS(5, 4, 11, 8, 9, 7, 6));
    assert_encodes(tokenizer, "C[n", IDS(5, 1, 1));
    assert_encodes_target(tokenizer, "BrC", IDS(5, 4));
    tokenizer_close(&tokenizer);
}

static void what_no_match_covers_is_left_out(void **state)
{
    (void)state;
    struct tokenizer *tokenizer =
        opened("{\"type\": \"pattern\", \"pattern\": \"\\\\w*\","
               " \"source\": [" SPECIALS ", \"a\", \"b\", \"\xc3\xa9\"]}");
    assert_encodes(tokenizer, "a--b \xe2\x82\xac \xc3\xa9", IDS(4, 5, 6));
    tokenizer_close(&tokenizer);
}

static void a_match_that_runs_backwards_is_an_error(void **state)
{
    (void)state;
    struct tokenizer *tokenizer;
    struct error err;
    /* Newer libraries refuse the pattern, older ones match. */
    if (open_json(&tokenizer,
                  "{\"type\": \"pattern\", \"pattern\": \"(?=ab\\\\K)a|b\","
                  " \"source\": [" SPECIALS "]}",
                  &err) < 0) {
        assert_int_equal(err.code, ERR_BAD_MODEL);
        return;
    }
    int32_t *ids;
    size_t count, trailing;
    assert_int_equal(tokenizer_encode(tokenizer, "ab", 2, &ids, &count, &trailing, &err), -1);
    assert_int_equal(err.code, ERR_OUT_OF_RANGE);
    tokenizer_close(&tokenizer);
}

static void a_pattern_that_explodes_is_an_error_and_soon(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "(a+)+b|.",       /* one attempt takes exponential time */
        "(?=.*+b)a|.",    /* no steps to count, but every attempt reads to the end */
        "(a|b)*(?1)*c|.", /* memory */
    };
    static char text[100000];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"type\": \"pattern\", \"pattern\": \"%s\", \"source\": [" SPECIALS ", \"a\"]}",
                 patterns[i]);
        struct tokenizer *tokenizer = opened(json);
        int32_t *ids;
        size_t count, trailing;
        struct error err = { 0 };
        const uint64_t begin = clock_ns();
        assert_int_equal(
            tokenizer_encode(tokenizer, text, sizeof text, &ids, &count, &trailing, &err), -1);
        assert_int_equal(err.code, ERR_OUT_OF_RANGE);
        assert_null(ids);
        assert_true(clock_ns() - begin < 10 * NS_PER_S);
        tokenizer_close(&tokenizer);
    }
}

static void decoding_leaves_out_special_tokens_and_foreign_ids(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = opened(letters);
    const int32_t *ids = OUT(2, 4, 1, 0, 99, -5, 7, 5, 3);
    assert_decodes(tokenizer, ids, true, "AA0 <unk> B");
    assert_decodes(tokenizer, ids, false, "<s> AA0 <unk> <pad> B </s>");
    assert_decodes(tokenizer, OUT(3), true, "");
    assert_decodes(tokenizer, OUT(INT32_MIN), true, "");
    tokenizer_close(&tokenizer);
}

static void a_folder_without_a_tokenizer_of_ours_has_none(void **state)
{
    (void)state;
    static const char *const others[] = { NULL, "{}", "[\"type\"]", "{\"a\": 0, \"type\": 1}" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct tokenizer *tokenizer;
        struct error err;
        assert_int_equal(open_json(&tokenizer, others[i], &err), 0);
        assert_null(tokenizer);
        assert_int_equal(err.code, ERR_NONE);
    }
}

static void a_bad_vocabulary_is_refused_with_file_and_field(void **state)
{
    (void)state;
    static const struct {
        const char *json, *field;
    } bad[] = {
        { "{\"type\": \"bpe\", \"source\": [" SPECIALS "]}", "type" },
        { "{\"type\": \"words\"}", "source" },
        { "{\"type\": \"words\", \"source\": {}}", "source" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS ", 5]}", "source[4]" },
        { "{\"type\": \"words\", \"source\": []}", "<unk>" },
        { "{\"type\": \"words\", \"source\": [\"a\"]}", "<unk>" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"target\": [\"a\"]}", "target" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"target\": null}", "target" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS ", \"a\", \"a\"]}", "source[5]" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS
          ", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\"], \"target\": [" SPECIALS
          "]}",
          "source has 13" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS
          ", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\"]}",
          "source has 10" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"target\": [" SPECIALS
          ", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\"]}",
          "target has 10" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"lowercase\": 1}", "lowercase" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"join\": null}", "join" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"source_end\": \"</s>\"}",
          "source_end" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"source_end\": [3]}",
          "source_end[0]" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"source_begin\": [\"x\"]}",
          "source_begin[0]" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"lower_case\": true}", "lower_case" },
        { "{\"type\": \"words\", \"source\": [" SPECIALS "], \"pattern\": \".\"}", "pattern" },
        { "{\"type\": \"pattern\", \"source\": [" SPECIALS "]}", "pattern" },
        { "{\"type\": \"pattern\", \"pattern\": \"(\", \"source\": [" SPECIALS "]}", "pattern" },
        { "{\"type\": \"pattern\", \"pattern\": \"\\\\C\", \"source\": [" SPECIALS "]}",
          "pattern" },
        { "{\"type\": \"words\", \"type\": \"words\"}", "duplicate" },
        { "{\"type\": ", "line 1" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tokenizer *tokenizer;
        struct error err;
        assert_int_equal(open_json(&tokenizer, bad[i].json, &err), -1);
        assert_null(tokenizer);
        assert_int_equal(err.code, ERR_BAD_MODEL);
        if (!strstr(err.message, "vocab.json") || !strstr(err.message, bad[i].field))
            fail_msg("%s: no %s in \"%s\"", bad[i].json, bad[i].field, err.message);
    }
}

static void every_failed_allocation_while_opening_is_clean(void **state)
{
    (void)state;
    static const char *const jsons[] = {
        letters,
        "{\"type\": \"pattern\", \"pattern\": \"(a|bc)+|[^x]\", \"source\": [" SPECIALS "]}",
    };
    for (size_t i = 0; i < 2; i++) {
        long failures = 0;
        for (;; failures++) {
            struct tokenizer *tokenizer;
            struct error err;
            mem_fail_after(failures);
            const int rc = open_json(&tokenizer, jsons[i], &err);
            mem_fail_after(-1);
            if (rc == 0) {
                assert_non_null(tokenizer);
                tokenizer_close(&tokenizer);
                break;
            }
            assert_null(tokenizer);
            /* The JSON library takes its own lack of memory for a wrong text. */
            if (!strstr(err.message, "is not valid JSON"))
                assert_int_equal(err.code, ERR_NO_MEMORY);
        }
        assert_true(failures > 10);
    }
}

static void every_failed_allocation_while_encoding_and_decoding_is_clean(void **state)
{
    (void)state;
    struct tokenizer *lower = opened(letters);
    struct tokenizer *pattern =
        opened("{\"type\": \"pattern\", \"pattern\": \"(a|b)+c|.\", \"source\": [" SPECIALS "]}");
    struct tokenizer *const tokenizers[] = { lower, pattern };
    static char text[800]; /* the second pattern takes time in its square */
    memset(text, 'a', sizeof text);
    for (size_t t = 0; t < 2; t++) {
        long failures = 0;
        for (;; failures++) {
            int32_t *ids;
            size_t count, trailing;
            struct error err = { 0 };
            mem_fail_after(failures);
            const int rc =
                tokenizer_encode(tokenizers[t], text, sizeof text, &ids, &count, &trailing, &err);
            mem_fail_after(-1);
            if (rc == 0) {
                mem_free(ids);
                break;
            }
            assert_null(ids);
            assert_int_equal(err.code, ERR_NO_MEMORY);
        }
        assert_true(failures > 2);
    }
    mem_fail_after(0);
    assert_null(tokenizer_decode(lower, OUT(4, 5), 2, true));
    mem_fail_after(-1);
    tokenizer_close(&lower);
    tokenizer_close(&pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_are_unicode_scalar_values_in_lower_case),
        cmocka_unit_test(a_special_token_in_a_text_of_characters_is_just_characters),
        cmocka_unit_test(an_empty_text_gives_just_begin_and_end),
        cmocka_unit_test(only_the_given_bytes_of_a_text_are_read),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_with_its_place),
        cmocka_unit_test(targets_are_split_at_the_join_and_keep_their_case),
        cmocka_unit_test(targets_without_a_join_are_split_as_the_type_says),
        cmocka_unit_test(words_are_split_at_any_white_space_and_joined_with_blanks),
        cmocka_unit_test(a_pattern_gives_its_matches),
        cmocka_unit_test(what_no_match_covers_is_left_out),
        cmocka_unit_test(a_match_that_runs_backwards_is_an_error),
        cmocka_unit_test(a_pattern_that_explodes_is_an_error_and_soon),
        cmocka_unit_test(decoding_leaves_out_special_tokens_and_foreign_ids),
        cmocka_unit_test(a_folder_without_a_tokenizer_of_ours_has_none),
        cmocka_unit_test(a_bad_vocabulary_is_refused_with_file_and_field),
        cmocka_unit_test(every_failed_allocation_while_opening_is_clean),
        cmocka_unit_test(every_failed_allocation_while_encoding_and_decoding_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
