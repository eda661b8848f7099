#!/usr/bin/env bats
# Requests byte by byte: framing, versions, slow and rude clients.
load daemon

setup_file() {
    daemon_start --model tests/kit/vanilla_post --limits.request_timeout_ms 800 \
        --server.idle_timeout_ms 1000
}
teardown_file() { daemon_stop; }

teardown() { [ "$(status /readyz)" = 200 ]; }

body='{"input_ids":[[5,6,7,3]],"pooling":"cls"}' # 41 bytes
kept='POST /v1/encode HTTP/1.1\r\nHost: localhost\r\n'
post=$kept'Connection: close\r\n'

# The answer to the text begins with this status line's status.
answers() { # STATUS TEXT
    local got
    got=$(raw "$2")
    [[ $got == "HTTP/1."[01]" $1 "* ]] || fail "${2:0:200}: ${got:0:400}"
}

# Refused, or dropped without a word; never a 200.
turned_away() { # TEXT
    local got
    got=$(raw "$1")
    [[ -z $got || $got == "HTTP/1."[01]" "[45]* ]] || fail "${1:0:200}: ${got:0:400}"
    # The library writes the head of its own refusals twice.
    [ "$(grep '^HTTP/1' <<<"$got" | sort -u | wc -l)" -le 1 ] ||
        fail "${1:0:200}: two answers: $got"
}

@test "a plain request is answered with exactly one Content-Length, the body's" {
    local got
    got=$(raw "${post}Content-Length: 41\r\n\r\n$body")
    [[ $got == 'HTTP/1.1 200 OK'* ]]
    [ "$(grep -ic '^content-length:' <<<"$got")" -eq 1 ]
    local length=${got#*Content-Length: }
    [ "${length%%$'\n'*}" -eq "$(printf %s "${got#*$'\n\n'}" | wc -c)" ]
    for request in 'GET /livez' 'HEAD /livez' 'GET /nowhere' 'PUT /livez'; do
        got=$(raw "$request HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        [ "$(grep -ic '^content-length:' <<<"$got")" -eq 1 ]
    done
}

@test "HTTP/1.0 gets the whole answer and the connection is closed" {
    local got
    got=$(raw "POST /v1/encode HTTP/1.0\r\nContent-Length: 41\r\n\r\n$body")
    [[ $got == HTTP/1.[01]' 200 OK'* ]]
    jq -e '.data[0].embedding | length == 32' <<<"${got#*$'\n\n'}"
}

@test "a chunked body is read as one" {
    local chunks="10\r\n${body:0:16}\r\n19\r\n${body:16}\r\n0\r\n\r\n"
    answers 200 "${post}Transfer-Encoding: chunked\r\n\r\n$chunks"
}

@test "two lengths of a body are refused and the connection closed" {
    local end="\r\n\r\n$body"
    turned_away "${post}Content-Length: 41\r\nTransfer-Encoding: chunked$end"
    turned_away "${post}Transfer-Encoding: chunked\r\nContent-Length: 41\r\n\r\n0\r\n\r\n"
    turned_away "${post}Content-Length: 41\r\nContent-Length: 40$end"
    turned_away "${post}Content-Length: 41\r\nContent-Length: 41$end"
    turned_away "${post}Transfer-Encoding: gzip$end"
    turned_away "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"
}

@test "lengths that are no numbers are refused" {
    for length in +41 -1 41x '4 1' 0x29 '' 18446744073709551616 99999999999999999999999; do
        turned_away "${post}Content-Length: $length\r\n\r\n$body"
    done
    turned_away "${post}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n$body\r\n0\r\n\r\n"
    turned_away "${post}Transfer-Encoding: chunked\r\n\r\nxyz\r\n$body\r\n0\r\n\r\n"
}

@test "a smuggled second request is not answered" {
    local second='GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n' got
    got=$(raw "${kept}Content-Length: 41\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$second")
    [ "$(grep -c '^HTTP/1' <<<"$got")" -le 1 ]
    [[ $got != *vanilla_post* ]]
}

@test "requests sent at once on one connection are answered in order" {
    local one='GET /v1/models/vanilla_post HTTP/1.1\r\nHost: localhost\r\n\r\n' got
    local three='GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    got=$(raw "$one${kept}Content-Length: 41\r\n\r\n$body$three")
    [ "$(grep -c '^HTTP/1\|.HTTP/1' <<<"$got")" -eq 3 ]
    [[ $got == *'"owned_by"'*'"embedding"'*'route_not_found'* ]]
}

@test "no HTTP at all, or half of it, is turned away" {
    for text in 'hello\r\n\r\n' '\x16\x03\x01\x02\x00' 'GET\r\n\r\n' 'GET /livez HTTP/9.9\r\n\r\n' \
        'GET  HTTP/1.1\r\n\r\n' '\r\n\r\n\r\n'; do
        turned_away "$text"
    done
}

@test "headers without end and a path without end are turned away" {
    local long
    long=$(printf '%100000s' '' | tr ' ' a)
    turned_away "GET /$long HTTP/1.1\r\nHost: localhost\r\n\r\n"
    turned_away "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: $long\r\n\r\n"
}

@test "a body that comes in small pieces is read" {
    local fd
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
    printf "${post}Content-Length: 41\r\n\r\n" >&"$fd"
    for ((i = 0; i < ${#body}; i++)); do printf %s "${body:i:1}" >&"$fd"; done
    [[ $(timeout 5 cat <&"$fd") == 'HTTP/1.1 200'* ]]
    exec {fd}>&-
}

@test "answers that nobody takes are cut at their deadline, also those of probes" {
    local fd
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
    (trap '' PIPE && yes $'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r' >&"$fd") \
        2>/dev/null 3>&- &
    local client=$!
    await 5 eval '[ "$(metric seqd_http_connections)" = 2 ]'
    await 5 eval '[ "$(metric seqd_http_connections)" = 1 ]'
    exec {fd}>&-
    wait "$client" || true
}

@test "a body that comes too slowly is cut at the deadline, each byte notwithstanding" {
    local fd before=$EPOCHREALTIME
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
    printf "${post}Content-Length: 1000\r\n\r\n{" >&"$fd"
    (for i in $(seq 60); do
        sleep 0.1
        printf ' ' >&"$fd" || break
    done) 2>/dev/null 3>&- &
    local writer=$!
    [ "$(status /readyz)" = 200 ]
    timeout 10 cat <&"$fd" >/dev/null
    exec {fd}>&-
    kill $writer || true
    awk -v from="$before" -v to="$EPOCHREALTIME" \
        'BEGIN { exit !(to - from > 0.6 && to - from < 3) }'
}

@test "connections that say nothing are closed after their time" {
    local fds=() fd
    for i in $(seq 50); do
        exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
        fds+=("$fd")
    done
    [ "$(metric seqd_http_connections)" -ge 50 ]
    ok /v1/encode "$body" --max-time 2
    await 6 connections_are_few
    for fd in "${fds[@]}"; do exec {fd}>&-; done
}

connections_are_few() { [ "$(metric seqd_http_connections)" -lt 10 ]; }

@test "Expect: 100-continue is answered before the body is sent" {
    ok /v1/encode "$body" -H 'Expect: 100-continue'
    local got
    local head='Content-Type: text/plain\r\nContent-Length: 41\r\nExpect: 100-continue\r\n\r\n'
    got=$(raw "$post$head")
    [[ $got == 'HTTP/1.1 415'* ]]
}
