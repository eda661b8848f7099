/* Jobs of `seqd bench --pipe`: what a line may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/mem.h"
#include "http/bench_job.h"

enum { VOCABULARY = 10 };

static int read_line(struct bench_job *job, const char *line, struct error *err)
{
    *err = (struct error){ 0 };
    return bench_job_read(job, line, strlen(line), VOCABULARY, err);
}

static void a_job_is_read_with_all_its_fields(void **state)
{
    (void)state;
    struct bench_job job;
    struct error err;
    assert_int_equal(read_line(&job,
                               "{\"kind\": \"generate\", \"rows\": [[1, 2], [9]], \"new\": 5,"
                               " \"beams\": 4, \"repeat\": 7, \"want_tokens\": true}\n",
                               &err),
                     0);
    assert_true(job.generates && job.want_tokens);
    assert_int_equal(job.row_count, 2);
    assert_int_equal(job.rows[0].count, 2);
    assert_int_equal(job.rows[0].tokens[1], 2);
    assert_int_equal(job.rows[1].tokens[0], 9);
    assert_int_equal(job.new_tokens, 5);
    assert_int_equal(job.beams, 4);
    assert_int_equal(job.repeat, 7);
    bench_job_clear(&job);
}

static void what_a_job_leaves_out_has_a_value(void **state)
{
    (void)state;
    struct bench_job job;
    struct error err;
    assert_int_equal(read_line(&job, "{\"kind\": \"encode\", \"rows\": [[0]]}", &err), 0);
    assert_false(job.generates || job.want_tokens);
    assert_int_equal(job.new_tokens, 64);
    assert_int_equal(job.beams, 1);
    assert_int_equal(job.repeat, 1);
    bench_job_clear(&job);
}

static void a_wrong_job_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum error_code code;
    } cases[] = {
        { "", ERR_BAD_JSON },
        { "{", ERR_BAD_JSON },
        { "[]", ERR_WRONG_TYPE },
        { "{\"rows\": [[1]]}", ERR_MISSING_FIELD },
        { "{\"kind\": \"score\", \"rows\": [[1]]}", ERR_OUT_OF_RANGE },
        { "{\"kind\": \"encode\"}", ERR_MISSING_FIELD },
        { "{\"kind\": \"encode\", \"rows\": []}", ERR_MISSING_FIELD },
        { "{\"kind\": \"encode\", \"rows\": [[1], []]}", ERR_EMPTY_ROW },
        { "{\"kind\": \"encode\", \"rows\": [[10]]}", ERR_TOKEN_OUT_OF_RANGE },
        { "{\"kind\": \"encode\", \"rows\": [[-1]]}", ERR_TOKEN_OUT_OF_RANGE },
        { "{\"kind\": \"encode\", \"rows\": [[1]], \"repeat\": 0}", ERR_OUT_OF_RANGE },
        { "{\"kind\": \"encode\", \"rows\": [[1]], \"beams\": true}", ERR_WRONG_TYPE },
        { "{\"kind\": \"encode\", \"rows\": [[1]], \"model\": \"a\"}", ERR_UNKNOWN_FIELD },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench_job job;
        struct error err;
        const int rc = read_line(&job, cases[i].line, &err);
        bench_job_clear(&job);
        if (rc == 0 || err.code != cases[i].code)
            fail_msg("%s: %d %s", cases[i].line, err.code, err.message);
    }
}

static void every_failed_allocation_is_told(void **state)
{
    (void)state;
    int rc = -1;
    for (long n = 0; rc < 0; n++) {
        struct bench_job job;
        struct error err;
        mem_fail_after(n);
        rc = read_line(&job, "{\"kind\": \"encode\", \"rows\": [[1, 2], [3], [4, 5, 6]]}", &err);
        mem_fail_after(-1);
        bench_job_clear(&job);
        assert_int_equal(err.code, rc < 0 ? ERR_NO_MEMORY : ERR_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_read_with_all_its_fields),
        cmocka_unit_test(what_a_job_leaves_out_has_a_value),
        cmocka_unit_test(a_wrong_job_is_refused),
        cmocka_unit_test(every_failed_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
