#!/usr/bin/env bats
# Stopping: what SIGTERM leaves running, what it refuses, and how the process ends.
load daemon

setup() { client=; }
teardown() {
    touch "$BATS_TEST_TMPDIR/enough"
    [ -z "$client" ] || kill "$client" 2>/dev/null || true
    daemon_stop
}

start() { # OPTION...
    daemon_start --model tests/kit/vanilla_nopos --engine.workers 1 --engine.batch_sequences 16 \
        --limits.return_sequences 16 "$@"
}

# A client of ROWS slow rows, running: files code and slow.
slow_client() { # ROWS [TOKENS]
    slow_request "$@" >"$BATS_TEST_TMPDIR/request"
    curl -s -m 60 -o "$BATS_TEST_TMPDIR/slow" -w '%{http_code}' \
        -D "$BATS_TEST_TMPDIR/slow_headers" -H 'Content-Type: application/json' \
        --data-binary "@$BATS_TEST_TMPDIR/request" "$url/v1/generate" \
        >"$BATS_TEST_TMPDIR/code" 3>&- &
    client=$!
    await 10 is_running
}

# The same with as many rows, in rows, as this machine needs two seconds for.
patient_client() {
    ok /v1/generate "$(slow_request 1 300)"
    rows=$(value '2000 / .timing.decode_ms | ceil')
    slow_client "$rows" 300
}

is_running() { [ "$(metric 'seqd_active_sequences{model="vanilla_nopos"}')" -gt 0 ]; }
is_refusing() { [ "$(status /livez)" = 000 ]; }

client_got() { # STATUS
    wait "$client"
    client=
    [ "$(<"$BATS_TEST_TMPDIR/code")" = "$1" ] ||
        fail "$(<"$BATS_TEST_TMPDIR/code") $(head -c 300 "$BATS_TEST_TMPDIR/slow")"
}

@test "an idle daemon ends at once with 0" {
    start
    local before=$SECONDS
    kill -TERM "$daemon_pid"
    daemon_ends 0
    [ $((SECONDS - before)) -le 2 ]
    log_lines 'select(.message == "stopped")' | grep -q .
}

@test "SIGINT ends it as SIGTERM does" {
    start
    kill -INT "$daemon_pid"
    daemon_ends 0
}

@test "SIGHUP does not end it" {
    start
    kill -HUP "$daemon_pid"
    sleep 0.2
    [ "$(status /readyz)" = 200 ]
}

@test "a running request is answered in full after SIGTERM, then the exit code is 0" {
    start
    patient_client
    kill -TERM "$daemon_pid"
    client_got 200
    jq -e --argjson rows "$rows" '.outputs | length == $rows and
        all(.sequences[0].token_ids | length == 300)' "$BATS_TEST_TMPDIR/slow"
    grep -qi '^connection: close' "$BATS_TEST_TMPDIR/slow_headers"
    daemon_ends 0
}

@test "without a delay new connections are refused at once" {
    start
    patient_client
    kill -TERM "$daemon_pid"
    await 1 is_refusing
    client_got 200
    daemon_ends 0
}

@test "during the delay readyz is 503, livez 200, and requests are served with Connection: close" {
    start --server.drain_delay_ms 1000
    kill -TERM "$daemon_pid"
    await 1 eval '[ "$(status /readyz)" = 503 ]'
    for route in /readyz /health; do
        ask $route
        [ "$status" = 503 ]
        [ "$(header retry-after)" -ge 1 ]
        holds '.status == "draining"'
    done
    [ "$(status /livez)" = 200 ]
    [ "$(metric seqd_ready)" = 0 ]
    ok /v1/encode '{"input_ids":[[5,6,3]],"pooling":"mean"}'
    [ "$(header connection)" = close ]
    daemon_ends 0
}

@test "a kept connection gets 503 once the listener is closed" {
    start
    patient_client
    local fd
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
    printf 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$fd"
    timeout 0.3 cat <&"$fd" >/dev/null || true
    kill -TERM "$daemon_pid"
    await 1 is_refusing
    printf 'POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 19\r\n\r\n%s' \
        '{"input_ids":[[5]]}' >&"$fd"
    timeout 5 cat <&"$fd" | tr -d '\r' >"$BATS_TEST_TMPDIR/kept"
    exec {fd}>&-
    [[ $(<"$BATS_TEST_TMPDIR/kept") == 'HTTP/1.1 503 '*'Retry-After: '*shutting_down* ]]
    grep -qi '^connection: close' "$BATS_TEST_TMPDIR/kept"
    client_got 200
    daemon_ends 0
}

@test "what is left after its time is answered 503" {
    start --server.drain_timeout_ms 300
    slow_client 60
    kill -TERM "$daemon_pid"
    client_got 503
    jq -e '.error.code == "shutting_down"' "$BATS_TEST_TMPDIR/slow"
    grep -qi '^retry-after:' "$BATS_TEST_TMPDIR/slow_headers"
    daemon_ends 0
}

# Eight clients with bodies of 8 MiB; a file in codes/ for each that has its answer.
large_bodies() {
    mkdir "$BATS_TEST_TMPDIR/codes"
    awk 'BEGIN {
        printf "{\"input_ids\":[["
        for (i = 0; i < 4190000; i++) printf "5,"
        print "5]]}"
    }' >"$BATS_TEST_TMPDIR/large"
    seq 8 | xargs -P 8 -I '{}' curl -s -m 60 -o "$BATS_TEST_TMPDIR/codes/{}" -w '%{http_code}\n' \
        -H 'Content-Type: application/json' --data-binary "@$BATS_TEST_TMPDIR/large" \
        "$url/v1/encode" >"$BATS_TEST_TMPDIR/code" 3>&- &
    client=$!
}

codes() { sort "$BATS_TEST_TMPDIR/code" | uniq -c | xargs; }

@test "large bodies that wait to be read are answered 503 then" {
    start --server.drain_timeout_ms 0
    large_bodies
    await 20 eval '[ -s "$BATS_TEST_TMPDIR/code" ]'
    kill -TERM "$daemon_pid"
    wait "$client"
    client=
    [[ $(codes) =~ ^[1-7]' 413 '[1-7]' 503'$ ]] || fail "$(codes)"
    grep -q shutting_down "$BATS_TEST_TMPDIR"/codes/*
    daemon_ends 0
}

@test "their deadline may come before that" {
    start --limits.request_timeout_ms 1000
    large_bodies
    wait "$client" || true # a body that was not sent in time is cut off
    client=
    [[ $(codes) =~ ' 504'$ ]] || fail "$(codes)"
    grep -q 'before the request was read' "$BATS_TEST_TMPDIR"/codes/*
}

@test "a second SIGTERM ends it at once, and not with 0" {
    start --server.drain_timeout_ms 30000
    slow_client 60
    kill -TERM "$daemon_pid"
    await 1 is_refusing
    local before=$SECONDS
    kill -TERM "$daemon_pid"
    daemon_ends 1
    [ $((SECONDS - before)) -le 2 ]
}

@test "idle and half-sent connections never delay the exit" {
    start
    local idle half
    exec {idle}<>"/dev/tcp/127.0.0.1/${url##*:}" {half}<>"/dev/tcp/127.0.0.1/${url##*:}"
    printf 'POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{' >&"$half"
    sleep 0.2
    local before=$SECONDS
    kill -TERM "$daemon_pid"
    daemon_ends 0
    [ $((SECONDS - before)) -le 2 ]
    exec {idle}>&- {half}>&-
}

@test "clients that left and waiting rows do not keep it from ending with 0" {
    start
    slow_client 60
    kill "$client"
    client=
    for i in $(seq 20); do
        curl -s -m 0.05 -o /dev/null -H 'Content-Type: application/json' \
            -d '{"input_ids":[[5,6,7,3]],"parameters":{"num_beams":16}}' "$url/v1/generate" || true
    done
    kill -TERM "$daemon_pid"
    daemon_ends 0
}

# Asks until there is the file `enough`; what came back, a status a line, is in the file NAME.
asks_on() { # NAME CURL_OPTION...
    local name=$1 body='{"input_ids":[[5,6,3]],"pooling":"mean"}'
    shift
    until [ -e "$BATS_TEST_TMPDIR/enough" ]; do
        curl -s -m 20 -o /dev/null -w '%{http_code}\n' "$@" -d "$body" \
            -H 'Content-Type: application/json' "$url/v1/encode" || echo failed
    done >"$BATS_TEST_TMPDIR/$name"
}

# One client makes a connection for each request; the other keeps its own as long as it can.
@test "during the delay neither new nor kept connections lose a request" {
    start --server.drain_delay_ms 3000
    asks_on new 3>&- &
    clients=($!)
    asks_on kept -o /dev/null -o /dev/null "$url/v1/encode" "$url/v1/encode" 3>&- &
    clients+=($!)
    await 10 eval '[ "$(wc -l <"$BATS_TEST_TMPDIR/kept")" -gt 3 ]'
    kill -TERM "$daemon_pid"
    await 2 eval '[ "$(status /readyz)" = 503 ]'
    local before=$(wc -l <"$BATS_TEST_TMPDIR/new")
    sleep 2 # a part of the delay: there is nothing to poll for
    touch "$BATS_TEST_TMPDIR/enough"
    wait "${clients[@]}"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/new")" -gt $((before + 3)) ]
    [ "$(sort -u "$BATS_TEST_TMPDIR"/{new,kept})" = 200 ]
    daemon_ends 0
}

@test "200 queued requests, half of whose clients left, do not keep it from ending with 0" {
    start --server.drain_timeout_ms 1000
    slow_client 60
    local fds=() fd i body
    body=$(slow_request 1)
    for i in $(seq 200); do
        exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
        printf 'POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' \
            ${#body} "$body" >&"$fd"
        fds+=("$fd")
    done
    await 10 eval '[ "$(metric "seqd_queue_sequences{model=\"vanilla_nopos\"}")" -ge 200 ]'
    for fd in "${fds[@]:0:100}"; do exec {fd}>&-; done
    kill -TERM "$daemon_pid"
    for fd in "${fds[@]:100}"; do
        [[ $(timeout 20 head -n 1 <&"$fd") == 'HTTP/1.1 503 '* ]]
        exec {fd}>&-
    done
    client_got 503
    daemon_ends 0
}
