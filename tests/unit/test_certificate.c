/* Certificates and the TLS client, without a daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../src/http/certificate_parts.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/tls_client.h"

static char certificate_file[] = "/tmp/seqd-certificate-XXXXXX";
static char key_file[] = "/tmp/seqd-key-XXXXXX";

static void fill(char *path, gnutls_datum_t *bytes)
{
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes->data, bytes->size), bytes->size);
    close(fd);
    gnutls_free(bytes->data);
}

/* A certificate that issued itself. */
static int write_pair(void **state)
{
    (void)state;
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t bytes;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    assert_int_equal(gnutls_x509_crt_set_version(certificate, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(certificate, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 1), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 1000), 0);
    assert_int_equal(gnutls_x509_crt_set_key(certificate, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &bytes), 0);
    fill(certificate_file, &bytes);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &bytes), 0);
    fill(key_file, &bytes);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
    return 0;
}

static int remove_pair(void **state)
{
    (void)state;
    unlink(certificate_file);
    unlink(key_file);
    return 0;
}

static void a_failed_allocation_is_no_memory_and_leaves_nothing(void **state)
{
    (void)state;
    struct certificate *certificate;
    long failures = 0;
    for (;; failures++) {
        struct error err = { 0 };
        mem_fail_after(failures);
        const int result = certificate_open(&certificate, certificate_file, key_file, &err);
        mem_fail_after(-1);
        if (result == 0)
            break;
        assert_int_equal(err.code, ERR_NO_MEMORY);
        assert_null(certificate);
    }
    assert_true(failures > 0);
    certificate_close(&certificate);
    certificate_close(&certificate);
}

/* The sanitizer sees what is freed too early, or never. */
static void a_session_shows_what_it_holds_after_the_others_have_let_go(void **state)
{
    (void)state;
    struct certificate *first, *held;
    struct error err = { 0 };
    assert_int_equal(certificate_open(&first, certificate_file, key_file, &err), 0);
    held = certificate_share(first);
    assert_ptr_equal(held, first);
    certificate_close(&first);
    assert_null(first);
    gnutls_session_t session;
    assert_int_equal(gnutls_init(&session, GNUTLS_SERVER), 0);
    assert_true(certificate_show(held, session));
    gnutls_deinit(session);
    certificate_close(&held);
    assert_null(certificate_share(NULL));
}

static void two_files_of_which_one_is_at_fault_leave_nothing(void **state)
{
    (void)state;
    const char *const pairs[][2] = {
        { key_file, key_file },    { certificate_file, certificate_file },
        { "/nowhere", key_file },  { certificate_file, "/nowhere" },
        { certificate_file, "/" }, { "/dev/null", key_file }
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct certificate *certificate;
        struct error err = { 0 };
        assert_int_equal(certificate_open(&certificate, pairs[i][0], pairs[i][1], &err), -1);
        assert_null(certificate);
        assert_int_equal(err.code, ERR_IO);
        assert_non_null(strstr(err.message, pairs[i][i == 1 || i == 3 || i == 4]));
    }
}

/* Opens over a pair of sockets whose other end has said `words`, and nothing more. */
static void open_against(const char *words, struct error *err)
{
    int ends[2];
    struct tls_client *client;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(write(ends[1], words, strlen(words)), strlen(words));
    const uint64_t began_ns = clock_ns();
    assert_int_equal(tls_client_open(&client, ends[0], began_ns + 200 * NS_PER_MS, err), -1);
    assert_true(clock_ns() - began_ns < 5 * NS_PER_S);
    assert_null(client);
    assert_int_equal(err->code, ERR_IO);
    close(ends[0]);
    close(ends[1]);
}

static void a_peer_that_is_silent_or_no_tls_is_given_up(void **state)
{
    (void)state;
    struct error silent = { 0 }, half = { 0 }, plain = { 0 };
    open_against("", &silent);
    assert_string_equal(silent.message, "no TLS: no answer in time");
    open_against("\x16\x03\x03", &half);
    assert_string_equal(half.message, "no TLS: no answer in time");
    open_against("HTTP/1.1 400 Bad Request\r\n\r\n", &plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_allocation_is_no_memory_and_leaves_nothing),
        cmocka_unit_test(a_session_shows_what_it_holds_after_the_others_have_let_go),
        cmocka_unit_test(two_files_of_which_one_is_at_fault_leave_nothing),
        cmocka_unit_test(a_peer_that_is_silent_or_no_tls_is_given_up),
    };
    return cmocka_run_group_tests(tests, write_pair, remove_pair);
}
