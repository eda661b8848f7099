#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/base/cgroup.h"
#include "base/cpu.h"

static void the_path_is_that_of_the_wanted_hierarchy(void **state)
{
    (void)state;
    static const char self[] = "9:name=systemd:/\n"
                               "4:cpu,cpuacct:/docker/abc:def\n"
                               "3:cpuset:/other\n"
                               "0::/user.slice/a b\n";
    char path[64];
    assert_true(cgroup_path(self, NULL, path, sizeof path));
    assert_string_equal(path, "/user.slice/a b");
    assert_true(cgroup_path(self, "cpu", path, sizeof path));
    assert_string_equal(path, "/docker/abc:def");
    assert_true(cgroup_path(self, "cpuacct", path, sizeof path));
    assert_false(cgroup_path(self, "cp", path, sizeof path));
    assert_false(cgroup_path(self, "memory", path, sizeof path));
    assert_false(cgroup_path(self, "cpu", path, 15));
    assert_true(cgroup_path(self, "cpu", path, 16));
    assert_false(cgroup_path("", NULL, path, sizeof path));
    assert_false(cgroup_path("nonsense\n1:\n::", "cpu", path, sizeof path));
    assert_true(cgroup_path("0::/last", NULL, path, sizeof path));
}

static void quotas_become_cores_and_what_is_no_quota_limits_nothing(void **state)
{
    (void)state;
    assert_float_equal(cgroup_cores_v2("150000 100000\n"), 1.5, 1e-12);
    assert_float_equal(cgroup_cores_v2("5000 50000\n"), 0.1, 1e-12);
    static const char *const unlimited[] = {
        "max 100000\n", "", "x", "1000", "-1 100000", "100 0"
    };
    for (size_t i = 0; i < sizeof unlimited / sizeof *unlimited; i++)
        assert_true(isinf(cgroup_cores_v2(unlimited[i])));
    assert_float_equal(cgroup_cores_v1("200000\n", "100000\n"), 2, 1e-12);
    assert_true(isinf(cgroup_cores_v1("-1\n", "100000\n")));
    assert_true(isinf(cgroup_cores_v1("200000\n", "0\n")));
}

static void throttled_time_has_the_unit_of_its_version(void **state)
{
    (void)state;
    assert_float_equal(
        cgroup_stat_throttled("usage_usec 5\nnr_throttled 2\nthrottled_usec 2500000\n"), 2.5, 1e-9);
    assert_float_equal(cgroup_stat_throttled("nr_periods 9\nthrottled_time 2500000000\n"), 2.5,
                       1e-9);
    assert_true(cgroup_stat_throttled("usage_usec 5\n") < 0);
    assert_true(cgroup_stat_throttled("") < 0);
}

/* Writes ROOT/FOLDER/NAME, making the folders on the way. */
static void put(const char *root, const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s/", root, folder);
    for (char *p = path + strlen(root); (p = strchr(p + 1, '/'));) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    strncat(path, name, sizeof path - strlen(path) - 1);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_root(void **state)
{
    static char root[64];
    strcpy(root, "/tmp/test_cpu.XXXXXX");
    *state = mkdtemp(root);
    return *state ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", (const char *)*state);
    return system(command);
}

static void a_parents_quota_counts(void **state)
{
    const char *root = *state;
    assert_true(isinf(cgroup_cores(root, "0::/a/b\n")));
    put(root, "a/b", "cpu.max", "max 100000\n");
    assert_true(isinf(cgroup_cores(root, "0::/a/b\n")));
    put(root, "a", "cpu.max", "150000 100000\n");
    assert_float_equal(cgroup_cores(root, "0::/a/b\n"), 1.5, 1e-12);
    put(root, "a/b", "cpu.max", "50000 100000\n");
    assert_float_equal(cgroup_cores(root, "0::/a/b\n"), 0.5, 1e-12);
    assert_true(isinf(cgroup_cores(root, "0::/other\n")));
}

static void a_path_outside_the_mount_falls_back_to_its_root(void **state)
{
    const char *root = *state;
    put(root, "cpu", "cpu.cfs_quota_us", "200000\n");
    put(root, "cpu", "cpu.cfs_period_us", "100000\n");
    put(root, "cpu", "cpu.stat", "nr_throttled 1\nthrottled_time 3000000000\n");
    assert_float_equal(cgroup_cores(root, "4:cpu,cpuacct:/docker/abc\n"), 2, 1e-12);
    assert_float_equal(cgroup_throttled(root, "4:cpu,cpuacct:/docker/abc\n"), 3, 1e-9);
    assert_true(isinf(cgroup_cores(root, "4:memory:/docker/abc\n")));
    assert_true(cgroup_throttled(root, "4:memory:/docker/abc\n") < 0);
}

static void the_nearest_group_that_counts_says_the_throttled_time(void **state)
{
    const char *root = *state;
    put(root, "a/b", "cpu.stat", "usage_usec 1\n");
    put(root, "a", "cpu.stat", "throttled_usec 1000000\n");
    put(root, "", "cpu.stat", "throttled_usec 9000000\n");
    assert_float_equal(cgroup_throttled(root, "0::/a/b\n"), 1, 1e-9);
}

static void the_budget_is_at_most_what_affinity_allows(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const double cores = cpu_budget_cores();
    assert_true(cores >= 0.1 && cores <= CPU_COUNT(&before));

    int first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_true(cpu_budget_cores() <= 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_is_that_of_the_wanted_hierarchy),
        cmocka_unit_test(quotas_become_cores_and_what_is_no_quota_limits_nothing),
        cmocka_unit_test(throttled_time_has_the_unit_of_its_version),
        cmocka_unit_test_setup_teardown(a_parents_quota_counts, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_path_outside_the_mount_falls_back_to_its_root, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(the_nearest_group_that_counts_says_the_throttled_time,
                                        make_root, remove_root),
        cmocka_unit_test(the_budget_is_at_most_what_affinity_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
