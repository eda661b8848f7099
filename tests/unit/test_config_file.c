/* The configuration file: what is taken, and what is refused with line and reason. */
#include "config_reading.h"

static const struct {
    const char *text, *message; /* what follows the path */
} wrong_files[] = {
    { "\nserver:\n  thread: 2\n", ":3: unknown key server.thread" },
    { "sever: {}\n", ":1: unknown section sever" },
    { "server.threads: 2\n", ":1: unknown section server.threads" },
    { "server: {threads: 0}\n", ":1: server.threads is \"0\"; allowed: 1 to 64 threads" },
    { "server: {threads: 65}\n", "allowed: 1 to 64" },
    { "server: {threads: -1}\n", "allowed: 1 to 64" },
    { "server: {threads: 1.5}\n", "allowed: 1 to 64" },
    { "server: {threads: 0x2}\n", "allowed: 1 to 64" },
    { "server: {threads: 99999999999999999999}\n", "allowed: 1 to 64" },
    { "server: {threads: two}\n", "allowed: 1 to 64" },
    { "server: {threads: '2'}\n", "server.threads must not be in quotes" },
    { "server: {threads: [2]}\n", "server.threads must be one value" },
    { "server:\n  threads:\n", ":2: server.threads has no value" },
    { "server: {threads: ~}\n", "server.threads has no value" },
    { "server: {listen: null}\n", "server.listen has no value" },
    { "server: {threads: 2, threads: 3}\n", "duplicate key server.threads" },
    { "log: {}\nserver: {}\nlog: {}\n", ":3: duplicate section log" },
    { "server: [1]\n", "server must be a mapping" },
    { "server: text\n", "server must be a mapping" },
    { "server: {[a]: 1}\n", "a key must be a plain name" },
    { "server: {hosts: a}\n", "server.hosts must be a list" },
    { "server: {hosts: [[a]]}\n", "server.hosts takes texts" },
    { "server: {hosts: ['a,b']}\n", "server.hosts takes texts" },
    { "server: {hosts: [~]}\n", "server.hosts takes texts" },
    { "server: {listen: 8080}\n", "server.listen: \"8080\" is not HOST:PORT" },
    { "metrics: {enabled: yes}\n", "allowed: true or false" },
    { "metrics: {enabled: True}\n", "allowed: true or false" },
    { "metrics: {enabled: 'true'}\n", "must not be in quotes" },
    { "metrics: {enabled: 1}\n", "allowed: true or false" },
    { "log: {level: trace}\n", "allowed: debug or info or warning or error or none" },
    { "engine: {gemm: mkl}\n", "allowed: own or openblas" },
    { "engine: {isa: \"a\\0b\"}\n", "engine.isa must be one value" },
    { "limits: {body_bytes: 8 MB}\n", "allowed: 1 KiB to 1 GiB" },
    { "limits: {body_bytes: 8.5 MiB}\n", "allowed: 1 KiB to 1 GiB" },
    { "limits: {body_bytes: 1 KiB KiB}\n", "allowed: 1 KiB to 1 GiB" },
    { "limits: {body_bytes: 17179869185 GiB}\n", "allowed: 1 KiB to 1 GiB" },
    { "limits: {beams: limits.sequences}\n", "allowed: 1 to 1024" },
    { "<<: {a: 1}\n", ":1: unknown section <<" },
    { "server:\n  <<: {threads: 1}\n", ":2: unknown key server.<<" },
    { "server: &a {threads: 1}\n", ":1: anchors (&a) are not allowed" },
    { "log: *a\n", ":1: aliases (*name) are not allowed" },
    { "server: {threads: !!int 2}\n", "tags (tag:yaml.org,2002:int) are not allowed" },
    { "server: !x {threads: 2}\n", "tags (!x) are not allowed" },
    { "models: {a: b}\n", "models must be a list" },
    { "models: [a]\n", "a model is a mapping" },
    { "models: [{name: a}]\n", ":1: a model needs the path" },
    { "models:\n- name: a\n  path: b\n  size: c\n", ":4: unknown key models.size" },
    { "models: [{path: a, path: b}]\n", "duplicate key models.path" },
    { "models: [{path: [a]}]\n", "path needs a text" },
    { "models: [{path: a, aliases: b}]\n", "models.aliases must be a list" },
    { "models: [{path: a, aliases: ['']}]\n", "models.aliases takes texts" },
    { "models: [{path: a, aliases: ['b,c']}]\n", "models.aliases takes texts" },
    { "models: [{path: a, aliases: [], aliases: []}]\n", "duplicate key models.aliases" },
    { "models: [{path: a, aliases: [b c]}]\n", "\"b c\" cannot be a model's name" },
    { "models: [{path: a, aliases: [a]}]\n", "two models are called \"a\"" },
    { "models: [{path: a, aliases: [b, b]}]\n", "two models are called \"b\"" },
    { "models:\n- {aliases: [b], path: a}\n- path: b\n", ":3: two models are called \"b\"" },
    { "models:\n- path: a\n- {path: b, aliases: [c, a]}\n", ":3: two models are called \"a\"" },
    { "models:\n- {path: a, aliases: [c]}\n- {path: b, aliases: [c]}\n",
      ":3: two models are called \"c\"" },
    { "models: [{path: a}, {path: b/a}]\n", "two models are called \"a\"" },
    { "models: [{path: a}]\nmodels: [{path: b}]\n", ":2: duplicate key models" },
    { "- 1\n", "must be a mapping of sections" },
    { "text\n", "must be a mapping of sections" },
    { "log: {level: info}\n---\nlog: {level: info}\n", "one document a file" },
    { "log: {level: info\n", ":2: " },
    { "log:\n\tlevel: info\n", ":2: " },
    { "log: \xff\n", ": " },
};

static void a_wrong_file_is_refused_with_line_and_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        write_file(wrong_files[i].text);
        struct configuration config;
        struct error err;
        enum command command;
        const int result =
            read_all(&config, WORDS("--config", file_path), WORDS(NULL), &command, &err);
        if (result == 0 || !strstr(err.message, wrong_files[i].message))
            fail_msg("%s gives: %s", wrong_files[i].text, err.message);
        assert_int_equal(err.code, ERR_CONFIG);
        assert_memory_equal(err.message, file_path, strlen(file_path));
        configuration_free(&config);
    }
}

static void an_empty_file_and_empty_sections_change_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "# nothing\n", "---\n", "server:\nmodels:\nlog: {}\n",
                                         "server:\n  # threads: 1\n" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_file(texts[i]);
        struct configuration config;
        struct error err;
        enum command command;
        assert_int_equal(
            read_all(&config, WORDS("--config", file_path), WORDS(NULL), &command, &err), 0);
        check_value(&config, "server.threads", "2");
        assert_int_equal(config.model_count, 0);
        configuration_free(&config);
    }
}

static void deep_nesting_is_refused_at_once(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *text = mem_alloc(DEPTH + 20, 1);
    strcpy(text, "server: ");
    memset(text + strlen(text), '[', DEPTH);
    write_file(text);
    mem_free(text);
    struct configuration config;
    struct error err;
    enum command command;
    assert_int_equal(read_all(&config, WORDS("--config", file_path), WORDS(NULL), &command, &err),
                     -1);
    assert_int_equal(err.code, ERR_CONFIG);
    configuration_free(&config);
}

static void a_file_that_cannot_be_read_or_is_huge_is_refused(void **state)
{
    (void)state;
    struct configuration config;
    struct error err;
    enum command command;
    assert_int_equal(
        read_all(&config, WORDS("--config", "/nowhere/x"), WORDS(NULL), &command, &err), -1);
    assert_string_equal(err.message, "/nowhere/x: No such file or directory");
    configuration_free(&config);
    assert_int_equal(read_all(&config, WORDS("--config", "/tmp"), WORDS(NULL), &command, &err), -1);
    assert_string_equal(err.message, "/tmp: Is a directory");
    configuration_free(&config);

    assert_int_equal(truncate(file_path, (1 << 20) + 1), 0);
    assert_int_equal(read_all(&config, WORDS("--config", file_path), WORDS(NULL), &command, &err),
                     -1);
    assert_non_null(strstr(err.message, "more than 1048576 bytes"));
    configuration_free(&config);
}

static void hosts_are_a_list(void **state)
{
    (void)state;
    write_file("server:\n  hosts:\n    - a.example\n    - no\n");
    struct configuration config;
    struct error err;
    enum command command;
    assert_int_equal(read_all(&config, WORDS("--config", file_path), WORDS(NULL), &command, &err),
                     0);
    assert_string_equal(config.server.hosts[0], "a.example");
    assert_string_equal(config.server.hosts[1], "no");
    assert_null(config.server.hosts[2]);
    configuration_free(&config);
    char *const environment[] = { "SEQD_SERVER_HOSTS=x,,y", NULL };
    assert_int_equal(read_all(&config, WORDS("--config", file_path), environment, &command, &err),
                     0);
    check_value(&config, "server.hosts", "x,y");
    configuration_free(&config);
}

static void hosts_that_no_header_could_match_are_refused(void **state)
{
    (void)state;
    static char *const hosts[] = { "SEQD_SERVER_HOSTS=http://a.example",
                                   "SEQD_SERVER_HOSTS=b,a.example:8080",
                                   "SEQD_SERVER_HOSTS=a.example/x", "SEQD_SERVER_HOSTS=*.example",
                                   "SEQD_SERVER_HOSTS=a, b" };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct configuration config;
        struct error err;
        enum command command;
        assert_int_equal(read_all(&config, WORDS(NULL), WORDS(hosts[i]), &command, &err), -1);
        assert_string_equal(err.param, "server.hosts");
        assert_non_null(strstr(err.message, "without scheme, port, path"));
        configuration_free(&config);
    }
    struct configuration config;
    struct error err;
    enum command command;
    write_file("server: {hosts: [fine, 'a.example:80']}\n");
    assert_int_equal(read_all(&config, WORDS("--config", file_path), WORDS(NULL), &command, &err),
                     -1);
    assert_string_equal(err.param, "server.hosts");
    configuration_free(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILE(a_wrong_file_is_refused_with_line_and_reason),
        WITH_FILE(an_empty_file_and_empty_sections_change_nothing),
        WITH_FILE(deep_nesting_is_refused_at_once),
        WITH_FILE(a_file_that_cannot_be_read_or_is_huge_is_refused),
        WITH_FILE(hosts_are_a_list),
        WITH_FILE(hosts_that_no_header_could_match_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
