/* cmocka.h — the little of cmocka that tests of kernels use, for machines that it is not built for.
 * A failed assertion ends the program; lines are TAP. */
#ifndef EMULATED_CMOCKA_H
#define EMULATED_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define fail_msg(...)                                                                              \
    do {                                                                                           \
        printf("# %s:%d: ", __FILE__, __LINE__);                                                   \
        printf(__VA_ARGS__);                                                                       \
        printf("\nnot ok - %s\n", __func__);                                                       \
        exit(1);                                                                                   \
    } while (0)
#define assert_true(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s", #condition);                                                            \
    } while (0)
#define assert_false(condition)      assert_true(!(condition))
#define assert_null(pointer)         assert_true((pointer) == NULL)
#define assert_non_null(pointer)     assert_true((pointer) != NULL)
#define assert_string_equal(a, b)    assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)
#define assert_int_equal(a, b)       assert_true((unsigned long)(a) == (unsigned long)(b))
#define assert_float_equal(a, b, epsilon)                                                          \
    assert_true((a) - (b) <= (epsilon) && (b) - (a) <= (epsilon))
#define print_message(...) printf(__VA_ARGS__)

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state);
};
#define cmocka_unit_test(function)                                                                 \
    {                                                                                              \
#function, function, NULL                                                                  \
    }
#define cmocka_unit_test_setup(function, setup)                                                    \
    {                                                                                              \
#function, function, setup                                                                 \
    }

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    run_tests(tests, sizeof(tests) / sizeof *(tests), setup)

static inline int run_tests(const struct CMUnitTest *tests, size_t count,
                            int (*setup)(void **state))
{
    void *state = NULL;
    printf("1..%zu\n", count);
    if (setup && setup(&state) != 0)
        fail_msg("%s", "the setup failed");
    for (size_t i = 0; i < count; i++) {
        if (tests[i].setup && tests[i].setup(&state) != 0)
            fail_msg("%s", tests[i].name);
        tests[i].test(&state);
        printf("ok - %s\n", tests[i].name);
        fflush(stdout);
    }
    return 0;
}

#endif
