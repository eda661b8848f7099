#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/signals.h"
#include "base/mapped_file.h"

static char path[] = "/tmp/seqd-mapped-XXXXXX";
static struct mapped_file file;

static int map(void **state)
{
    (void)state;
    struct error err = { 0 };
    const size_t bytes = 4 * (size_t)sysconf(_SC_PAGESIZE);
    strcpy(path + strlen(path) - 6, "XXXXXX");
    const int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return -1;
    return mapped_file_open(&file, fd, bytes, path, &err);
}

static int unmap(void **state)
{
    (void)state;
    mapped_file_close(&file);
    return unlink(path);
}

static void look_at_the_end(void)
{
    signals_block();
    const volatile char *bytes = file.data;
    (void)bytes[file.bytes - 1];
}

/* The exit code of a process that does so, and in `said` what it wrote to stderr. */
static int ends(void (*act)(void), char said[static 1024])
{
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        act();
        _exit(0);
    }
    close(out[1]);
    const ssize_t got = read(out[0], said, 1023);
    said[got > 0 ? got : 0] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_whole_file_is_nothing_to_speak_of(void **state)
{
    (void)state;
    char said[1024];
    assert_int_equal(ends(mapped_files_check, said), 0);
    assert_int_equal(ends(look_at_the_end, said), 0);
    assert_string_equal(said, "");
}

static void check_message(const char *said)
{
    assert_int_equal(strncmp(said, "{\"level\": \"error\", \"message\": \"", 31), 0);
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, "became shorter"));
    assert_string_equal(said + strlen(said) - 3, "\"}\n");
}

static void a_page_beyond_the_end_ends_the_process_with_the_name(void **state)
{
    (void)state;
    char said[1024];
    assert_int_equal(truncate(path, sysconf(_SC_PAGESIZE)), 0);
    assert_int_equal(ends(look_at_the_end, said), 1);
    check_message(said);
}

static void a_page_cut_short_is_found_by_looking(void **state)
{
    (void)state;
    char said[1024];
    assert_int_equal(truncate(path, (off_t)file.bytes - 1), 0);
    assert_int_equal(ends(mapped_files_check, said), 1);
    check_message(said);
}

static void a_closed_file_may_become_what_it_likes(void **state)
{
    (void)state;
    char said[1024];
    mapped_file_close(&file);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(ends(mapped_files_check, said), 0);
}

/* No address space has room for it. */
static void what_cannot_be_mapped_is_an_error_with_the_name_and_is_closed(void **state)
{
    (void)state;
    struct mapped_file large;
    struct error err = { 0 };
    const int fd = dup(file.fd);
    assert_true(fd >= 0);
    assert_int_equal(mapped_file_open(&large, fd, (size_t)1 << 62, path, &err), -1);
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_null(large.data);
    mapped_file_close(&large);
}

/* Then they are served all the same, and those that found a place are watched. */
static void more_files_than_are_watched_can_be_mapped(void **state)
{
    (void)state;
    enum { MANY = 300 };
    static struct mapped_file many[MANY];
    struct error err = { 0 };
    char said[1024];
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(mapped_file_open(&many[i], dup(file.fd), file.bytes, path, &err), 0);
    assert_int_equal(((const char *)many[MANY - 1].data)[0], 0);
    assert_int_equal(ends(mapped_files_check, said), 0);
    assert_int_equal(truncate(path, 1), 0);
    assert_int_equal(ends(mapped_files_check, said), 1);
    check_message(said);
    for (size_t i = 0; i < MANY; i++)
        mapped_file_close(&many[i]);
}

#define MAPPED(test) cmocka_unit_test_setup_teardown(test, map, unmap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MAPPED(a_whole_file_is_nothing_to_speak_of),
        MAPPED(a_page_beyond_the_end_ends_the_process_with_the_name),
        MAPPED(a_page_cut_short_is_found_by_looking),
        MAPPED(a_closed_file_may_become_what_it_likes),
        MAPPED(what_cannot_be_mapped_is_an_error_with_the_name_and_is_closed),
        MAPPED(more_files_than_are_watched_can_be_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
