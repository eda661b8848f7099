#!/usr/bin/env bats
# seqd health: finds the daemon by the daemon's own configuration, and tells in time that it hangs.
bats_require_minimum_version 1.5.0
load daemon
load tls

setup() { at=$BATS_TEST_TMPDIR; }
teardown() {
    [ -z "${daemon_pid-}" ] || kill -CONT "$daemon_pid"
    daemon_stop
}

# Options of both, the daemon on a port of its own.
start() { # HOST OPTION...
    host=$1
    shift
    options=(--server.allow_unauthenticated true "$@")
    daemon_start --model tests/kit/bart --listen "$host:0" "${options[@]}"
    options+=(--listen "$host:${url##*:}")
}

health() { # EXIT_CODE
    local began=${EPOCHREALTIME/[.,]/} took
    run "-$1" --separate-stderr "$SEQD" health "${options[@]}"
    took=$((${EPOCHREALTIME/[.,]/} - began))
    [ "$took" -lt 3000000 ] || fail "$took µs"
}

# Each address, plain and with TLS; IPv6 where there is some.
with_and_without_tls() { # HOST
    certificate one
    local tls
    for tls in '' "--server.tls_certificate $at/one.crt --server.tls_key $at/one.key"; do
        start "$1" $tls
        health 0
        [ -z "$stderr" ]
        daemon_stop
        health 1
        [[ $stderr == *'Connection refused'* ]]
    done
}

@test "healthy on loopback" { with_and_without_tls 127.0.0.1; }
@test "healthy on all addresses" { with_and_without_tls 0.0.0.0; }

@test "healthy on IPv6 loopback" {
    grep -q '^0*1 ' /proc/net/if_inet6 || skip 'this machine has no IPv6'
    with_and_without_tls '[::1]'
}

@test "healthy on all addresses of both kinds" {
    grep -q '^0*1 ' /proc/net/if_inet6 || skip 'this machine has no IPv6'
    with_and_without_tls '[::]'
}

# As in a container without IPv6, where ::1 cannot be reached.
@test "[::] is asked on 127.0.0.1 where nobody listens on ::1" {
    start 127.0.0.1
    options+=(--listen "[::]:${url##*:}")
    health 0
}

@test "a daemon that hangs is unhealthy in less than 3 s, plain and with TLS" {
    certificate one
    local tls
    for tls in '' "--server.tls_certificate $at/one.crt --server.tls_key $at/one.key"; do
        start 127.0.0.1 $tls
        health 0
        kill -STOP "$daemon_pid"
        health 1
        [[ $stderr == *'no answer'* ]]
        kill -CONT "$daemon_pid"
        health 0
        daemon_stop
    done
}

@test "a daemon with TLS is unhealthy for a configuration without, and the other way round" {
    certificate one
    start 127.0.0.1 --server.tls_certificate "$at/one.crt" --server.tls_key "$at/one.key"
    options=(--listen "127.0.0.1:${url##*:}")
    health 1
    daemon_stop
    start 127.0.0.1
    options+=(--server.tls_certificate "$at/one.crt" --server.tls_key "$at/one.key")
    health 1
    [[ $stderr == *'no TLS'* ]]
}

# Ending it for that would be no help, and would end it for good where the new files are bad.
@test "files that the daemon has not read yet are a warning" {
    certificate one
    start 127.0.0.1 --server.tls_certificate "$at/one.crt" --server.tls_key "$at/one.key"
    certificate one
    health 0
    jq -e 'select(.level == "warning") | .message | test("is not the one in .*one.crt")' \
        <<<"$stderr"
    kill -HUP "$daemon_pid"
    await 10 eval '[ -n "$(log_lines "select(.message == \"reloaded\")")" ]'
    health 0
    [ -z "$stderr" ]
    rm "$at/one.crt"
    health 0
    [[ $stderr == *'is not the one in'* ]]
}

# As the health check of a container runs: it shares the daemon's environment and nothing else.
@test "the environment alone tells it the file, its TLS and the address" {
    certificate one
    printf 'server: {tls_certificate: %s, tls_key: %s}\n' "$at/one.crt" "$at/one.key" >"$at/file"
    export SEQD_CONFIG=$at/file
    daemon_start --model tests/kit/bart --listen 127.0.0.1:0
    export SEQD_LISTEN=127.0.0.1:${url##*:}
    run -0 --separate-stderr "$SEQD" health
    unset SEQD_CONFIG
    run -1 --separate-stderr "$SEQD" health
}
