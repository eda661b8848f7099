/* The configuration: defaults, precedence of its sources, models, command line. */
#include "config_reading.h"

/* The documented defaults: a change of the table must be meant. */
static void without_sources_the_defaults_hold(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        { "server.listen", "127.0.0.1:8080" },
        { "server.threads", "2" },
        { "server.connections", "4096" },
        { "server.connections_per_address", "0" },
        { "server.idle_timeout_ms", "90000" },
        { "server.hosts", "" },
        { "server.keys_file", "" },
        { "server.allow_unauthenticated", "false" },
        { "server.tls_certificate", "" },
        { "server.tls_key", "" },
        { "server.drain_delay_ms", "0" },
        { "server.drain_timeout_ms", "60000" },
        { "limits.body_bytes", "8 MiB" },
        { "limits.bodies_bytes", "256 MiB" },
        { "limits.response_bytes", "64 MiB" },
        { "limits.answers_bytes", "1 GiB" },
        { "limits.sequences", "2048" },
        { "limits.source_tokens", "4096" },
        { "limits.target_tokens", "4096" },
        { "limits.beams", "16" },
        { "limits.return_sequences", "256" },
        { "limits.top_logprobs", "20" },
        { "limits.option_tokens", "262144" },
        { "limits.default_max_new_tokens", "256" },
        { "limits.max_new_tokens", "4096" },
        { "limits.queue_sequences", "4096" },
        { "limits.request_timeout_ms", "60000" },
        { "limits.key_requests_per_second", "0" },
        { "limits.key_burst", "0" },
        { "limits.key_concurrency", "0" },
        { "engine.workers", "0" },
        { "engine.threads", "0" },
        { "engine.batch_sequences", "256" },
        { "engine.batch_tokens", "4096" },
        { "engine.step_tokens", "256" },
        { "engine.encode_ms", "50" },
        { "engine.kv_cache_bytes", "1 GiB" },
        { "engine.overtakes_max", "64" },
        { "engine.watchdog_ms", "60000" },
        { "engine.cache_dir", "" },
        { "engine.screening", "true" },
        { "engine.isa", "" },
        { "engine.gemm", "own" },
        { "cors.origins", "" },
        { "metrics.enabled", "true" },
        { "metrics.public", "false" },
        { "log.level", "info" },
        { "log.access", "true" },
        { "log.client_address", "false" },
    };
    struct configuration config;
    struct error err;
    enum command command;
    assert_int_equal(read_all(&config, WORDS(NULL), WORDS(NULL), &command, &err), 0);
    assert_int_equal(command, COMMAND_SERVE);
    assert_int_equal(config_key_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < config_key_count; i++) {
        assert_string_equal(config_keys[i].name, expected[i][0]);
        check_value(&config, expected[i][0], expected[i][1]);
    }
    assert_int_equal(config.limits.body_bytes, 8388608);
    assert_int_equal(config.engine.kv_cache_bytes, 1073741824);
    assert_int_equal(config.listen.port, 8080);
    assert_int_equal(configuration_log_level(&config), LOG_INFO);
    configuration_free(&config);
}

static void the_file_in_the_repository_is_the_table_and_sets_every_key_to_its_default(void **state)
{
    (void)state;
    struct buffer table, file;
    buffer_init(&table, 1 << 20);
    buffer_init(&file, 1 << 20);
    config_help_print(&table);
    FILE *stream = fopen("config/seqd.yaml", "r");
    assert_non_null(stream);
    buffer_added(&file, fread(buffer_room(&file, 1 << 16), 1, 1 << 16, stream));
    fclose(stream);
    assert_string_equal(file.data, table.data);
    buffer_free(&table);
    buffer_free(&file);

    struct configuration defaults, read;
    struct error err;
    enum command command;
    assert_int_equal(read_all(&defaults, WORDS(NULL), WORDS(NULL), &command, &err), 0);
    assert_int_equal(
        read_all(&read, WORDS("--config", "config/seqd.yaml"), WORDS(NULL), &command, &err), 0);
    for (size_t i = 0; i < config_key_count; i++) {
        assert_int_equal(read.origins[i], ORIGIN_FILE);
        struct buffer value;
        buffer_init(&value, 1000);
        buffer_text(&value, "");
        config_key_print(&config_keys[i], &defaults, &value);
        check_value(&read, config_keys[i].name, value.data);
        buffer_free(&value);
    }
    configuration_free(&defaults);
    configuration_free(&read);
}

static void each_source_wins_over_those_before_it(void **state)
{
    (void)state;
    write_file("server: {listen: '127.0.0.1:1', threads: 3, connections: 5}\n"
               "models: [{name: no, path: /file/model}]\n");
    struct configuration config;
    struct error err;
    enum command command;
    char file[100];
    snprintf(file, sizeof file, "SEQD_CONFIG=%s", file_path);
    char *const environment[] = { file,
                                  "SEQD_LISTEN=127.0.0.1:2",
                                  "SEQD_SERVER_THREADS=4",
                                  "SEQD_ISA=portable",
                                  "SEQD_SERVER_CONNECTIONS=",
                                  NULL };
    assert_int_equal(read_all(&config, WORDS("--listen", "[::1]:3"), environment, &command, &err),
                     0);
    check_value(&config, "server.listen", "[::1]:3");
    check_value(&config, "server.threads", "4");
    check_value(&config, "server.connections", "5");
    check_value(&config, "engine.isa", "portable");
    assert_string_equal(config.listen.host, "::1");
    assert_int_equal(config.origins[0], ORIGIN_COMMAND_LINE);
    assert_int_equal(config.model_count, 1);
    assert_string_equal(config.models[0].name, "no");
    configuration_free(&config);
}

static void a_list_of_models_replaces_the_one_of_a_lower_source(void **state)
{
    (void)state;
    write_file("models:\n- aliases: [one, b2]\n  path: /from/file\n- {name: b, path: x}\n");
    struct configuration config;
    struct error err;
    enum command command;
    char *const environment[] = { "SEQD_MODEL=/env/one,two=/env/2", NULL };
    char option[100];
    snprintf(option, sizeof option, "--config=%s", file_path);

    assert_int_equal(read_all(&config, WORDS(option), WORDS(NULL), &command, &err), 0);
    assert_int_equal(config.model_count, 2);
    assert_string_equal(config.models[0].name, "file");
    assert_string_equal(config.models[0].aliases[0], "one");
    assert_string_equal(config.models[0].aliases[1], "b2");
    assert_null(config.models[0].aliases[2]);
    assert_null(config.models[1].aliases);
    configuration_free(&config);

    assert_int_equal(read_all(&config, WORDS(option), environment, &command, &err), 0);
    assert_int_equal(config.model_count, 2);
    assert_string_equal(config.models[0].name, "one");
    assert_string_equal(config.models[1].name, "two");
    assert_string_equal(config.models[1].path, "/env/2");
    configuration_free(&config);

    assert_int_equal(read_all(&config, WORDS(option, "--model", "org/m=./a", "--model", "x/c//"),
                              environment, &command, &err),
                     0);
    assert_int_equal(config.model_count, 2);
    assert_string_equal(config.models[0].name, "org/m");
    assert_string_equal(config.models[1].name, "c");
    configuration_free(&config);
}

static void a_model_is_called_as_its_folder_unless_it_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name, *path; /* name NULL: refused */
    } cases[] = {
        { "models/g2p", "g2p", "models/g2p" },
        { "/models/g2p//", "g2p", "/models/g2p//" },
        { "a=models/g2p", "a", "models/g2p" },
        { "a=b=c", "a", "b=c" },
        { "org/m=x", "org/m", "x" },
        { "/c/models--org--opus-mt/snapshots/0a1b/", "opus-mt",
          "/c/models--org--opus-mt/snapshots/0a1b/" },
        { "models--gpt/snapshots/0a", "gpt", "models--gpt/snapshots/0a" },
        { "models--/snapshots/0a", "0a", "models--/snapshots/0a" },
        { "models--a--/snapshots/0a", "0a", "models--a--/snapshots/0a" },
        { "models/snapshots/0a", "0a", "models/snapshots/0a" },
        { "models--a/snapshot/0a", "0a", "models--a/snapshot/0a" },
        { "./a=b", NULL, NULL },
        { "/x=y/b", "b", "/x=y/b" },
        { ".", NULL, NULL },
        { "/", NULL, NULL },
        { "", NULL, NULL },
        { "a=", NULL, NULL },
        { "=b", NULL, NULL },
        { "my model", NULL, NULL },
        { "ok=my model", "ok", "my model" },
        { "a\"b=c", NULL, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct configuration config = { 0 };
        struct error err = { 0 };
        const int result =
            config_models_add_text(&config, cases[i].text, ORIGIN_COMMAND_LINE, "--model", &err);
        assert_int_equal(result, cases[i].name ? 0 : -1);
        if (cases[i].name) {
            assert_string_equal(config.models[0].name, cases[i].name);
            assert_string_equal(config.models[0].path, cases[i].path);
            assert_int_equal(config_models_add_text(&config, cases[i].text, ORIGIN_COMMAND_LINE,
                                                    "--model", &err),
                             -1);
        }
        assert_int_equal(err.code, ERR_CONFIG);
        config_models_clear(&config);
    }
}

static void a_name_of_129_bytes_is_refused(void **state)
{
    (void)state;
    char text[140];
    memset(text, 'a', sizeof text);
    strcpy(text + 129, "=dir");
    struct configuration config = { 0 };
    struct error err = { 0 };
    assert_int_equal(config_models_add_text(&config, text, ORIGIN_FILE, "x", &err), -1);
    err = (struct error){ 0 };
    assert_int_equal(config_models_add_text(&config, text + 1, ORIGIN_FILE, "x", &err), 0);
    assert_int_equal(strlen(config.models[0].name), 128);
    config_models_clear(&config);
}
static void keys_of_bytes_take_units(void **state)
{
    (void)state;
    static const struct {
        char *text;
        uint64_t bytes;
    } cases[] = {
        { "2048", 2048 }, { "2KiB", 2048 }, { "3 MiB", 3145728 }, { "1 GiB", 1073741824 }
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct configuration config;
        struct error err;
        enum command command;
        assert_int_equal(read_all(&config, WORDS("--limits.body_bytes", cases[i].text), WORDS(NULL),
                                  &command, &err),
                         0);
        assert_int_equal(config.limits.body_bytes, cases[i].bytes);
        configuration_free(&config);
    }
}

static void the_drain_follows_the_request_timeout_until_it_is_set(void **state)
{
    (void)state;
    struct configuration config;
    struct error err;
    enum command command;
    assert_int_equal(
        read_all(&config, WORDS("--limits.request_timeout_ms", "7"), WORDS(NULL), &command, &err),
        0);
    assert_int_equal(config.server.drain_timeout_ms, 7);
    configuration_free(&config);
    assert_int_equal(
        read_all(&config, WORDS("--limits.request_timeout_ms", "7", "--server.drain_timeout_ms=0"),
                 WORDS(NULL), &command, &err),
        0);
    assert_int_equal(config.server.drain_timeout_ms, 0);
    configuration_free(&config);
}

static void the_default_length_stays_within_the_limit(void **state)
{
    (void)state;
    struct configuration config;
    struct error err;
    enum command command;
    assert_int_equal(
        read_all(&config, WORDS("--limits.max_new_tokens", "10"), WORDS(NULL), &command, &err), 0);
    assert_int_equal(config.limits.default_max_new_tokens, 10);
    configuration_free(&config);
}
static void a_wrong_command_line_or_variable_is_refused(void **state)
{
    (void)state;
    static const struct {
        char *word, *next, *variable;
        const char *message;
    } cases[] = {
        { "--nothing", "1", NULL, "unknown option --nothing" },
        { "--server", "1", NULL, "unknown option --server" },
        { "--server.threads", NULL, NULL, "--server.threads needs a value" },
        { "--server.threads", "x", NULL, "--server.threads: server.threads is \"x\"" },
        { "--server.threads=", NULL, NULL, "server.threads is \"\"" },
        { "--metrics.enabled", "yes", NULL, "allowed: true or false" },
        { "serve", NULL, NULL, "unknown argument serve" },
        { "--server.threads", "2", NULL, NULL },
        { "check", "health", NULL, "unknown argument health" },
        { "-x", NULL, NULL, "unknown argument -x" },
        { NULL, NULL, "SEQD_SERVER_THREADS=x", "SEQD_SERVER_THREADS: server.threads is \"x\"" },
        { NULL, NULL, "SEQD_LISTEN=x", "SEQD_LISTEN: server.listen" },
        { NULL, NULL, "SEQD_MODEL=a,b/a", "SEQD_MODEL: two models" },
        { NULL, NULL, "SEQD_PORT=tcp://10.0.0.1:80", NULL },
        { NULL, NULL, "SEQD_SERVER_SERVICE_HOST=10.0.0.1", NULL },
    };
    log_set_level(LOG_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct configuration config;
        struct error err;
        enum command command;
        char *const environment[] = { cases[i].variable, NULL };
        const int result =
            read_all(&config, WORDS(cases[i].word, cases[i].next), environment, &command, &err);
        assert_int_equal(result, cases[i].message ? -1 : 0);
        if (cases[i].message && !strstr(err.message, cases[i].message))
            fail_msg("%s: %s", cases[i].message, err.message);
        configuration_free(&config);
    }
    log_set_level(LOG_INFO);
}

static void help_and_version_ignore_the_other_sources(void **state)
{
    (void)state;
    static const struct {
        char *word;
        enum command command;
    } cases[] = { { "--help", COMMAND_HELP },
                  { "-h", COMMAND_HELP },
                  { "--help-config", COMMAND_HELP_CONFIG },
                  { "--version", COMMAND_VERSION } };
    char *const environment[] = { "SEQD_CONFIG=/nowhere", NULL };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct configuration config;
        struct error err;
        enum command command;
        assert_int_equal(
            read_all(&config, WORDS("check", cases[i].word), environment, &command, &err), 0);
        assert_int_equal(command, cases[i].command);
        configuration_free(&config);
    }
}

static void addresses_are_numbers_with_a_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host; /* host NULL: refused */
        uint16_t port;
        bool loopback;
    } cases[] = {
        { "127.0.0.1:8080", "127.0.0.1", 8080, true },
        { "127.9.9.9:0", "127.9.9.9", 0, true },
        { "localhost:80", "127.0.0.1", 80, true },
        { "[::1]:65535", "::1", 65535, true },
        { "0.0.0.0:80", "0.0.0.0", 80, false },
        { "[::]:80", "::", 80, false },
        { "10.0.0.1:80", "10.0.0.1", 80, false },
        { "::1:80", NULL, 0, false },
        { "[127.0.0.1]:80", NULL, 0, false },
        { "[::1]", NULL, 0, false },
        { "127.0.0.1", NULL, 0, false },
        { ":80", NULL, 0, false },
        { "127.0.0.1:", NULL, 0, false },
        { "127.0.0.1:65536", NULL, 0, false },
        { "127.0.0.1:-1", NULL, 0, false },
        { "127.0.0.1:80x", NULL, 0, false },
        { "127.1:80", NULL, 0, false },
        { "example.org:80", NULL, 0, false },
        { "", NULL, 0, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct listen_address address;
        struct error err = { 0 };
        assert_int_equal(listen_parse(&address, cases[i].text, &err), cases[i].host ? 0 : -1);
        if (!cases[i].host)
            continue;
        assert_string_equal(address.host, cases[i].host);
        assert_int_equal(address.port, cases[i].port);
        assert_int_equal(address.loopback, cases[i].loopback);
        char text[80];
        listen_print(&address, address.port, text);
        if (strncmp(cases[i].text, "localhost", 9) != 0)
            assert_string_equal(text, cases[i].text);
    }
}

static void serving_needs_a_model_and_leave_to_be_reached(void **state)
{
    (void)state;
    static const struct {
        char *model, *listen, *allow;
        bool allowed;
    } cases[] = {
        { "--model=a", "--listen=127.0.0.1:80", "--log.level=info", true },
        { "--model=a", "--listen=[::1]:80", "--log.level=info", true },
        { "--log.level=info", "--listen=[::1]:80", "--log.level=info", false },
        { "--model=a", "--listen=0.0.0.0:80", "--log.level=info", false },
        { "--model=a", "--listen=[::]:80", "--server.allow_unauthenticated=false", false },
        { "--model=a", "--listen=[::]:80", "--server.allow_unauthenticated=true", true },
        { "--model=a", "--listen=[::]:80", "--server.keys_file=k", true },
        { "--model=a", "--server.keys_file=k", "--cors.origins=*", true },
        { "--model=a", "--server.keys_file=", "--cors.origins=*", false },
        { "--model=a", "--cors.origins=https://a.example,http://b:80,app://x", "--log.level=info",
          true },
        { "--model=a", "--cors.origins=https://a.example/", "--log.level=info", false },
        { "--model=a", "--cors.origins=a.example", "--log.level=info", false },
        { "--model=a", "--cors.origins=https://", "--log.level=info", false },
        { "--model=a", "--cors.origins=null", "--log.level=info", false },
        { "--model=a", "--cors.origins=https://a b", "--log.level=info", false },
        { "--model=a", "--cors.origins=https://*.example", "--log.level=info", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct configuration config;
        struct error err;
        enum command command;
        assert_int_equal(read_all(&config, WORDS(cases[i].model, cases[i].listen, cases[i].allow),
                                  WORDS(NULL), &command, &err),
                         0);
        assert_int_equal(configuration_check_serving(&config, &err), cases[i].allowed ? 0 : -1);
        assert_int_equal(err.code, cases[i].allowed ? ERR_NONE : ERR_CONFIG);
        configuration_free(&config);
    }
}

static void every_failed_allocation_is_a_clean_error(void **state)
{
    (void)state;
    write_file("server: {hosts: [a, b], listen: '[::1]:1'}\n"
               "models: [{path: a, aliases: [d, e]}, {name: b, path: c}]\n");
    char *const environment[] = { "SEQD_MODEL=x,y", "SEQD_SERVER_HOSTS=c,d", NULL };
    long n = 0;
    for (int result = -1; result < 0; n++) {
        struct configuration config;
        struct error err;
        enum command command;
        mem_fail_after(n);
        result = read_all(&config, WORDS("--config", file_path, "--model", "z", "--isa", "avx2"),
                          environment, &command, &err);
        mem_fail_after(-1);
        if (result < 0)
            assert_int_equal(err.code, ERR_NO_MEMORY);
        configuration_free(&config);
        assert_true(n < 1000);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_sources_the_defaults_hold),
        cmocka_unit_test(the_file_in_the_repository_is_the_table_and_sets_every_key_to_its_default),
        WITH_FILE(each_source_wins_over_those_before_it),
        WITH_FILE(a_list_of_models_replaces_the_one_of_a_lower_source),
        cmocka_unit_test(a_model_is_called_as_its_folder_unless_it_is_named),
        cmocka_unit_test(a_name_of_129_bytes_is_refused),
        cmocka_unit_test(keys_of_bytes_take_units),
        cmocka_unit_test(the_drain_follows_the_request_timeout_until_it_is_set),
        cmocka_unit_test(the_default_length_stays_within_the_limit),
        cmocka_unit_test(a_wrong_command_line_or_variable_is_refused),
        cmocka_unit_test(help_and_version_ignore_the_other_sources),
        cmocka_unit_test(addresses_are_numbers_with_a_port),
        cmocka_unit_test(serving_needs_a_model_and_leave_to_be_reached),
        WITH_FILE(every_failed_allocation_is_a_clean_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
