#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/value.h"

static void allocations_are_zeroed_and_products_that_overflow_are_refused(void **state)
{
    (void)state;
    unsigned char *bytes = mem_alloc(100, 3);
    assert_non_null(bytes);
    for (size_t i = 0; i < 300; i++)
        assert_int_equal(bytes[i], 0);
    assert_null(mem_alloc(SIZE_MAX / 2, 3));
    assert_null(mem_resize(bytes, SIZE_MAX / 2, 3));
    mem_free(bytes);
    void *empty = mem_alloc(0, 8);
    assert_non_null(empty);
    mem_free(empty);
}

/* The sanitizers have an allocator of their own. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LARGE_BLOCKS mallinfo2().hblks
#else
#define LARGE_BLOCKS 1
#endif

/* The C library would keep blocks up to the largest one that was ever freed. */
static void large_blocks_lie_by_themselves_whatever_was_freed_before(void **state)
{
    (void)state;
    mem_setup();
    mem_free(mem_alloc(1, 16 << 20));
    void *large = mem_alloc(1, 4 << 20);
    assert_non_null(large);
    assert_int_equal(LARGE_BLOCKS, 1);
    mem_free(large);
}

static void the_nth_allocation_fails_and_all_after_it(void **state)
{
    (void)state;
    mem_fail_after(2);
    char *text = mem_text("x"), *copy = mem_copy("abc", 3, 1);
    void *third = mem_alloc(1, 1), *fourth = mem_resize(text, 10, 1);
    mem_fail_after(-1);
    assert_string_equal(text, "x");
    assert_memory_equal(copy, "abc", 3);
    assert_null(third);
    assert_null(fourth);
    mem_free(text);
    mem_free(copy);
}

static void a_buffer_grows_to_its_limit_and_not_beyond(void **state)
{
    (void)state;
    struct buffer b;
    buffer_init(&b, 1000);
    for (int i = 0; i < 100; i++)
        buffer_printf(&b, "%010d", i);
    assert_int_equal(b.state, BUFFER_OK);
    assert_int_equal(b.length, 1000);
    assert_memory_equal(b.data + 990, "0000000099", 11);
    buffer_text(&b, "");
    assert_int_equal(b.state, BUFFER_OK);
    buffer_append(&b, "x", 1);
    assert_int_equal(b.state, BUFFER_OVER_LIMIT);
    buffer_text(&b, "");
    assert_int_equal(b.state, BUFFER_OVER_LIMIT);
    assert_int_equal(b.length, 1000);
    size_t length;
    assert_null(buffer_take(&b, &length));
    assert_int_equal(b.state, BUFFER_OK);
    assert_int_equal(b.length, 0);
}

static void a_buffer_without_memory_says_so_until_it_is_freed(void **state)
{
    (void)state;
    struct buffer b;
    buffer_init(&b, SIZE_MAX);
    mem_fail_after(0);
    buffer_text(&b, "a");
    mem_fail_after(-1);
    buffer_text(&b, "b");
    assert_int_equal(b.state, BUFFER_NO_MEMORY);
    assert_int_equal(b.length, 0);
    buffer_free(&b);
    buffer_text(&b, "c");
    size_t length = 0;
    char *taken = buffer_take(&b, &length);
    assert_string_equal(taken, "c");
    assert_int_equal(length, 1);
    assert_null(b.data);
    mem_free(taken);
}

static void arena_blocks_are_aligned_and_a_release_gives_them_back(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct arena arena;
    assert_int_equal(arena_open(&arena, arena_need(3, 1) + arena_need(10, 4), &err), 0);
    char *first = arena_take(&arena, 3, 1);
    const size_t mark = arena_mark(&arena);
    float *second = arena_take(&arena, 10, sizeof *second);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_int_equal((uintptr_t)second % 64, 0);
    assert_true((char *)second >= first + 3);
    second[9] = 1;
    arena_release(&arena, mark);
    assert_ptr_equal(arena_take(&arena, 10, sizeof *second), second);
    assert_int_equal(arena.used_bytes, arena.size_bytes);
    arena_close(&arena);
    arena_close(&arena);
}

static void an_arena_that_cannot_be_reserved_is_an_error(void **state)
{
    (void)state;
    struct error err = { 0 };
    struct arena arena;
    assert_int_equal(arena_open(&arena, SIZE_MAX / 2, &err), -1);
    assert_int_equal(err.code, ERR_NO_MEMORY);
    assert_null(arena.base);
}

static void the_first_error_wins(void **state)
{
    (void)state;
    struct error err = { 0 };
    assert_int_equal(error_at(&err, ERR_TOO_LONG, "input_ids[3]", "%d tokens", 9), -1);
    assert_int_equal(error_set(&err, ERR_INTERNAL, "later"), -1);
    assert_int_equal(err.code, ERR_TOO_LONG);
    assert_string_equal(err.param, "input_ids[3]");
    assert_string_equal(err.message, "9 tokens");
}

static void a_message_that_is_cut_ends_in_a_whole_character(void **state)
{
    (void)state;
    char text[1024];
    for (size_t before = 0; before < 4; before++) {
        struct error err = { 0 };
        memset(text, 'a', before);
        for (size_t i = before; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        assert_int_equal(error_set(&err, ERR_INTERNAL, "%s", text), -1);
        const size_t length = strlen(err.message);
        assert_true(length + 4 > sizeof err.message - 1);
        assert_int_equal((length - before) % 3, 0);
        assert_memory_equal(err.message, text, length);
    }
}

/* What `write_lines` puts on stderr. */
static void capture(char *text, size_t room, void (*write_lines)(void))
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    const int saved = dup(STDERR_FILENO);
    dup2(pipe_fds[1], STDERR_FILENO);
    write_lines();
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipe_fds[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(pipe_fds[0], text + length, room - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(pipe_fds[0]);
}

static void write_hostile_text(void)
{
    log_write(LOG_INFO, "%s", "a\"b\\c\nd\te\x7f\x01{}");
    struct log_line line;
    log_begin(&line, LOG_ERROR, "m");
    log_text(&line, "id", "\", \"level\": \"forged");
    log_integer(&line, "n", -7);
    log_number(&line, "x", 0.25);
    log_end(&line);
}

static void a_text_in_the_log_cannot_forge_a_line_or_a_field(void **state)
{
    (void)state;
    char text[4096];
    capture(text, sizeof text, write_hostile_text);
    assert_non_null(strstr(
        text, "\"level\": \"info\", "
              "\"message\": \"a\\\"b\\\\c\\u000ad\\u0009e\\u007f\\u0001{}\"}\n{\"time\": \""));
    assert_non_null(strstr(text, "\"level\": \"error\", \"message\": \"m\", "
                                 "\"id\": \"\\\", \\\"level\\\": \\\"forged\", "
                                 "\"n\": -7, \"x\": 0.25}\n"));
    const char *second = strchr(text, '\n') + 1;
    assert_string_equal(strchr(second, '\n'), "\n");
}

static void write_foreign_bytes(void)
{
    struct log_line line;
    log_begin(&line, LOG_INFO, "m");
    log_text(&line, "kept", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\xc2\xa0");
    log_text(&line, "replaced", "a\xff\xc3(\xed\xa0\x80\xc0\xaf\xf5z\xe2\x82");
    log_text(&line, "terminal", "\xc2\x9b\x1b\x7f");
    log_end(&line);
}

static void what_is_no_utf8_or_obeyed_by_terminals_is_replaced_in_the_log(void **state)
{
    (void)state;
    char text[4096];
    capture(text, sizeof text, write_foreign_bytes);
    assert_non_null(strstr(text, "\"kept\": \"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\xc2\xa0\""));
    assert_non_null(strstr(text, "\"replaced\": \"a\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffd\\ufffd"
                                 "\\ufffd\\ufffdz\\ufffd\\ufffd\""));
    assert_non_null(strstr(text, "\"terminal\": \"\\u009b\\u001b\\u007f\""));
}

static void write_long_characters(void)
{
    char text[3001] = "";
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xbc", 2);
    log_write(LOG_INFO, "%.1001s", text);
    struct log_line line;
    log_begin(&line, LOG_INFO, text);
    log_end(&line);
}

static void a_long_text_in_the_log_is_cut_at_a_character(void **state)
{
    (void)state;
    char text[8192];
    capture(text, sizeof text, write_long_characters);
    const char *end = strstr(text, "\xbc\\ufffd\"}\n");
    assert_non_null(end); /* what printf cut */
    assert_non_null(strstr(end + 10, "\xc3\xbc\"}\n"));
}

static void write_long_line(void)
{
    static char long_text[5000];
    memset(long_text, '"', sizeof long_text - 1);
    struct log_line line;
    log_begin(&line, LOG_INFO, long_text);
    log_text(&line, "second", long_text);
    log_text(&line, "last", "kept");
    log_end(&line);
}

static void a_line_that_is_too_long_is_cut_and_still_whole(void **state)
{
    (void)state;
    char text[8192];
    capture(text, sizeof text, write_long_line);
    const size_t length = strlen(text);
    assert_true(length <= sizeof((struct log_line *)0)->text);
    assert_string_equal(text + length - 3, "\"}\n");
    assert_int_equal(strcspn(text, "\n"), length - 1);
}

static void write_below_the_level(void)
{
    log_set_level(LOG_ERROR);
    log_write(LOG_WARNING, "no");
    log_write(LOG_ERROR, "yes");
    log_set_level(LOG_NONE);
    log_write(LOG_ERROR, "no");
    log_set_level(LOG_INFO);
}

static void lines_below_the_level_are_dropped(void **state)
{
    (void)state;
    char text[4096];
    capture(text, sizeof text, write_below_the_level);
    assert_null(strstr(text, "\"no\""));
    assert_non_null(strstr(text, "\"yes\""));
}

static void keep(void *context, const char *message)
{
    strcat(context, message);
}

static char diverted[64];

static void write_diverted(void)
{
    log_divert(keep, diverted);
    log_write(LOG_WARNING, "one ");
    log_write(LOG_DEBUG, "none ");
    log_write(LOG_ERROR, "\"two\"");
    log_divert(NULL, NULL);
    log_write(LOG_WARNING, "three");
}

static void diverted_messages_go_where_they_were_asked_for(void **state)
{
    (void)state;
    char text[4096];
    capture(text, sizeof text, write_diverted);
    assert_string_equal(diverted, "one \"two\"");
    assert_null(strstr(text, "one"));
    assert_non_null(strstr(text, "three"));
}

static void settings_and_what_their_values_own_are_freed(void **state)
{
    (void)state;
    struct settings settings = { .items = mem_alloc(2, sizeof *settings.items), .count = 2 };
    settings.items[0].name = mem_text("top_k");
    settings.items[0].value = (struct value){ .kind = VALUE_INT, .integer = 5 };
    settings.items[1].name = mem_text("names");
    struct value *list = &settings.items[1].value;
    *list = (struct value){ .kind = VALUE_LIST, .items = mem_alloc(2, sizeof *list), .count = 2 };
    list->items[0] = (struct value){ .kind = VALUE_TEXT, .text = mem_text("a") };
    list->items[1] = (struct value){ .kind = VALUE_LIST, .items = mem_alloc(1, sizeof *list) };

    value_clear(list);
    assert_int_equal(list->kind, VALUE_NULL);
    assert_int_equal(list->count, 0);
    settings_free(&settings);
    assert_int_equal(settings.count, 0);
}

static void seconds_are_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(clock_whole_seconds(0), 0);
    assert_int_equal(clock_whole_seconds(1), 1);
    assert_int_equal(clock_whole_seconds(NS_PER_S), 1);
    assert_int_equal(clock_whole_seconds(NS_PER_S + 1), 2);
    assert_int_equal(clock_whole_seconds(86400 * NS_PER_S), 86400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_zeroed_and_products_that_overflow_are_refused),
        cmocka_unit_test(large_blocks_lie_by_themselves_whatever_was_freed_before),
        cmocka_unit_test(the_nth_allocation_fails_and_all_after_it),
        cmocka_unit_test(a_buffer_grows_to_its_limit_and_not_beyond),
        cmocka_unit_test(a_buffer_without_memory_says_so_until_it_is_freed),
        cmocka_unit_test(arena_blocks_are_aligned_and_a_release_gives_them_back),
        cmocka_unit_test(an_arena_that_cannot_be_reserved_is_an_error),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(a_message_that_is_cut_ends_in_a_whole_character),
        cmocka_unit_test(a_text_in_the_log_cannot_forge_a_line_or_a_field),
        cmocka_unit_test(what_is_no_utf8_or_obeyed_by_terminals_is_replaced_in_the_log),
        cmocka_unit_test(a_long_text_in_the_log_is_cut_at_a_character),
        cmocka_unit_test(a_line_that_is_too_long_is_cut_and_still_whole),
        cmocka_unit_test(lines_below_the_level_are_dropped),
        cmocka_unit_test(diverted_messages_go_where_they_were_asked_for),
        cmocka_unit_test(settings_and_what_their_values_own_are_freed),
        cmocka_unit_test(seconds_are_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
