/* How work is divided among the members of a team. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/team.h"

static void check_shares(size_t count, size_t step, size_t members)
{
    size_t next = 0, most = 0, least = SIZE_MAX;
    for (size_t member = 0; member < members; member++) {
        size_t first, end;
        team_share(count, step, member, members, &first, &end);
        assert_int_equal(first, next);
        assert_true(first <= end && end <= count);
        assert_true(first % step == 0 || first == count);
        assert_true(end % step == 0 || end == count);
        const size_t steps = (end - first + step - 1) / step;
        most = steps > most ? steps : most;
        least = steps < least ? steps : least;
        assert_true(member == 0 || steps == least);
        next = end;
    }
    assert_int_equal(next, count);
    assert_true(most - least <= 1);
}

static void shares_are_even_whole_steps_that_leave_nothing_out(void **state)
{
    (void)state;
    for (size_t count = 0; count < 100; count++)
        for (size_t step = 1; step < 20; step++)
            for (size_t members = 1; members <= 9; members++)
                check_shares(count, step, members);
    check_shares(58101, 48, 2);
    check_shares(SIZE_MAX, 1, 3);
    check_shares(SIZE_MAX, 4096, 7);

    size_t first, end;
    team_share(100, 16, 0, 2, &first, &end);
    assert_int_equal(first, 0);
    assert_int_equal(end, 64);
    team_share(100, 16, 1, 2, &first, &end);
    assert_int_equal(first, 64);
    assert_int_equal(end, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_even_whole_steps_that_leave_nothing_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
