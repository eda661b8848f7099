#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "../../src/http/error_table.h"
#include "../../src/http/float_text.h"
#include "http/writer.h"

static void check_float(float value, const char *expected)
{
    char text[FLOAT_TEXT_MAX];
    const size_t length = float_text(text, value);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(text));
}

static void floats_have_their_shortest_text(void **state)
{
    (void)state;
    check_float(0, "0");
    check_float(-0.0f, "0");
    check_float(1, "1");
    check_float(-2.5f, "-2.5");
    check_float(0.1f, "0.1");
    check_float(0.3f, "0.3");
    check_float(1.0f / 3, "0.33333334");
    check_float(100, "100");
    check_float(16777216, "16777216");
    check_float(123456.7f, "123456.7");
    check_float(999999.9f, "999999.9");
    check_float(0.00001f, "0.00001");
    check_float(0.05f, "0.05");
    check_float(1e-6f, "1e-06");
    check_float(1e30f, "1e+30");
    check_float(3.4028235e38f, "3.4028235e+38");
}

/* Bit patterns from everywhere, and many of everyday size. */
static void every_float_reads_back_as_itself(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (size_t i = 0; i < 400000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint32_t bits = (uint32_t)(random >> 32);
        if (i % 2)
            bits = (bits & 0x80ffffff) | (0x38u + (bits >> 24 & 0xf)) << 24;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[FLOAT_TEXT_MAX];
        const size_t length = float_text(text, value);
        if (strtof(text, NULL) != value || (float)strtod(text, NULL) != value || length > 16)
            fail_msg("%a became %s", (double)value, text);
    }
}

static void text_is_escaped_and_always_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text, *json;
    } cases[] = {
        { "", "\"\"" },
        { "a\"b\\c/", "\"a\\\"b\\\\c/\"" },
        { "\n\t\x01\x1f", "\"\\u000a\\u0009\\u0001\\u001f\"" },
        { "\x7f\xc3\xa9\xe2\x98\x83\xf0\x9f\x98\x86",
          "\"\x7f\xc3\xa9\xe2\x98\x83\xf0\x9f\x98\x86\"" },
        { "x\xff", "\"x\xef\xbf\xbd\"" },
        { "\xc3", "\"\xef\xbf\xbd\"" },
        { "\xe2\x98", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { NULL, "null" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer out;
        buffer_init(&out, 1000);
        struct writer writer = { .out = &out };
        writer_text(&writer, cases[i].text);
        assert_string_equal(out.data, cases[i].json);
        buffer_free(&out);
    }
}

static void values_nest_with_commas_between_them(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, 1000);
    struct writer writer = { .out = &out };
    static const float values[] = { 1, 2, 3, 4 };
    writer_begin(&writer, '{');
    writer_key(&writer, "a");
    writer_begin(&writer, '[');
    writer_end(&writer, ']');
    writer_key(&writer, "b");
    writer_tensor(&writer, values, (size_t[]){ 2, 1, 2 }, 3);
    writer_key(&writer, "c");
    writer_integer(&writer, INT64_MIN);
    writer_key(&writer, "d");
    writer_ms(&writer, 1234567);
    writer_key(&writer, "e");
    writer_bool(&writer, false);
    writer_end(&writer, '}');
    assert_string_equal(out.data, "{\"a\":[],\"b\":[[[1,2]],[[3,4]]],\"c\":-9223372036854775808,"
                                  "\"d\":1.234,\"e\":false}");
    assert_false(writer.nonfinite);
    buffer_free(&out);
}

static void base64_has_every_padding(void **state)
{
    (void)state;
    static const float values[] = { 1, -2, 0.5f };
    static const char *const texts[] = { "\"\"", "\"AACAPw==\"", "\"AACAPwAAAMA=\"",
                                         "\"AACAPwAAAMAAAAA/\"" };
    for (size_t count = 0; count < 4; count++) {
        struct buffer out;
        buffer_init(&out, 1000);
        struct writer writer = { .out = &out };
        writer_base64(&writer, values, count);
        assert_string_equal(out.data, texts[count]);
        assert_int_equal(out.length, writer_base64_bytes(count) + 2);
        buffer_free(&out);
    }
}

static void a_full_buffer_is_noticed(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, 10);
    struct writer writer = { .out = &out };
    writer_text(&writer, "longer than ten");
    assert_int_equal(out.state, BUFFER_OVER_LIMIT);
    buffer_free(&out);
}

static void every_error_has_a_status_and_a_code(void **state)
{
    (void)state;
    for (int code = ERR_NO_MEMORY; code < ERROR_CODE_COUNT; code++) {
        const struct error_row *row = error_table_row((enum error_code)code);
        assert_in_range(row->status, 400, 504);
        assert_true(strlen(row->type) > 0 && strlen(row->code) > 0);
        /* Now or never: an answer does not say both. */
        assert_false(row->retry_later && row->never_retry);
    }
    assert_int_equal(error_table_row(ERR_BUSY)->status, 429);
    assert_int_equal(error_table_row(ERR_OVER_LIMIT)->status, 413);
    assert_true(error_table_row(ERR_DEADLINE)->never_retry);
}

static void an_error_is_one_json_object(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, 1000);
    const struct error at = { ERR_TOKEN_OUT_OF_RANGE, "input_ids[3][7]", "it is \"70000\"" };
    error_table_write(&out, &at);
    assert_string_equal(out.data, "{\"error\":{\"type\":\"invalid_request_error\","
                                  "\"code\":\"token_out_of_range\",\"param\":\"input_ids[3][7]\","
                                  "\"message\":\"it is \\\"70000\\\"\"}}");
    buffer_free(&out);
    const struct error nowhere = { ERR_BUSY, "", "full" };
    error_table_write(&out, &nowhere);
    assert_non_null(strstr(out.data, "\"param\":null"));
    buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_have_their_shortest_text),
        cmocka_unit_test(every_float_reads_back_as_itself),
        cmocka_unit_test(text_is_escaped_and_always_utf8),
        cmocka_unit_test(values_nest_with_commas_between_them),
        cmocka_unit_test(base64_has_every_padding),
        cmocka_unit_test(a_full_buffer_is_noticed),
        cmocka_unit_test(every_error_has_a_status_and_a_code),
        cmocka_unit_test(an_error_is_one_json_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
