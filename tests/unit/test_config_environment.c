/* The environment: what is said of variables that are no keys, or empty. */
#include "config_reading.h"

struct warnings {
    int count;
    char last[200];
};

static void take_warning(void *context, const char *message)
{
    struct warnings *warnings = context;
    warnings->count++;
    snprintf(warnings->last, sizeof warnings->last, "%s", message);
}

static void a_variable_that_is_mistyped_or_empty_is_warned_of(void **state)
{
    (void)state;
    static const struct {
        char *variable;
        const char *warning; /* NULL: none */
    } cases[] = {
        { "SEQD_MODELS=x", "SEQD_MODELS is no key" },
        { "SEQD_SERVER_FOO=1", "SEQD_SERVER_FOO is no key" },
        { "SEQD_LISTENS=", "SEQD_LISTENS is no key" },
        { "SEQD_SERVER_KEYS_FILE=", "SEQD_SERVER_KEYS_FILE is empty" },
        { "SEQD_MODEL=", "SEQD_MODEL is empty" },
        { "SEQD_CONFIG=", "SEQD_CONFIG is empty" },
        { "SEQD_LISTEN=", "SEQD_LISTEN is empty" },
        { "SEQD_ISA=portable", NULL },
        { "SEQD_PORT=tcp://10.0.0.1:80", NULL },
        { "SEQD_SERVICE_HOST=10.0.0.1", NULL },
        { "SEQD_SERVICE_PORT_HTTP=80", NULL },
        { "SEQD_BLUE_PORT_8080_TCP_ADDR=10.0.0.1", NULL },
        { "SEQD=x", NULL },
        { "MY_SEQD_MODELS=x", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct warnings warnings = { 0 };
        struct configuration config;
        struct error err;
        enum command command;
        log_divert(take_warning, &warnings);
        const int result = read_all(&config, WORDS(NULL), WORDS(cases[i].variable), &command, &err);
        log_divert(NULL, NULL);
        assert_int_equal(result, 0);
        if (warnings.count != (cases[i].warning != NULL) ||
            (cases[i].warning && !strstr(warnings.last, cases[i].warning)))
            fail_msg("%s: %d, %s", cases[i].variable, warnings.count, warnings.last);
        configuration_free(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_that_is_mistyped_or_empty_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
