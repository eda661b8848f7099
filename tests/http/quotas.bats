#!/usr/bin/env bats
# What one client may ask: so often, so much at once.
load daemon

one=sk-one-0123456789abcdef
two=sk-two-0123456789abcdef
body='{"model":"vanilla_nopos","input_ids":[[5,6,3]],"pooling":"mean"}'

setup() {
    client=
    keys=$BATS_TEST_TMPDIR/keys
    (umask 077 && printf '%s\n%s\n' $one $two >"$keys")
}
teardown() {
    [ -z "$client" ] || kill "$client" 2>/dev/null || true
    daemon_stop
}

start() { # OPTION...
    daemon_start --model tests/kit/vanilla_nopos "$@"
}

# The statuses of five requests, one after another.
five() { # CURL_OPTION...
    local i
    for i in 1 2 3 4 5; do
        status /v1/encode -H 'Content-Type: application/json' -d "$body" "$@"
        echo
    done | xargs
}

@test "after its burst a key waits, and other keys do not" {
    start --server.keys_file "$keys" --limits.key_requests_per_second 1 --limits.key_burst 3 \
        --metrics.public true
    [[ "$(five -H "Authorization: Bearer $one")" == '200 200 200 '*429* ]]
    refused 429 rate_limited - /v1/encode "$body" -H "Authorization: Bearer $one"
    [ "$(header retry-after)" = 1 ]
    holds '.error.type == "rate_limit_error" and (.error.message | contains("sk-") | not)'
    ok /v1/encode "$body" -H "Authorization: Bearer $two"
    # A wrong key is nobody's, probes are everybody's.
    [ "$(five -H 'Authorization: Bearer sk-other-0123456789abcdef')" = '401 401 401 401 401' ]
    for i in 1 2 3 4 5 6; do [ "$(status /readyz)$(status /metrics)" = 200200 ]; done
    await 5 eval "[ \"\$(status /v1/models -H 'Authorization: Bearer $one')\" = 200 ]"
}

@test "without keys a client is its address" {
    start --limits.key_requests_per_second 1
    [[ "$(five)" == '200 '*429* ]]
    [[ "$(five --interface 127.0.0.2)" == '200 '*429* ]]
}

@test "a burst is as long as the rate unless it is set, and no limit is the default" {
    start --limits.key_requests_per_second 5
    [ "$(five)" = '200 200 200 200 200' ]
    daemon_stop
    start
    for i in 1 2 3; do [ "$(five)" = '200 200 200 200 200' ]; done
}

@test "a key's requests at once are counted from their head to their answer" {
    start --server.keys_file "$keys" --limits.key_concurrency 1 --metrics.public true
    slow_request 4 3000 >"$BATS_TEST_TMPDIR/request"
    curl -s -m 60 -o /dev/null -H 'Content-Type: application/json' \
        -H "Authorization: Bearer $one" --data-binary "@$BATS_TEST_TMPDIR/request" \
        "$url/v1/generate" 3>&- &
    client=$!
    await 10 eval '[ "$(metric "seqd_active_sequences{model=\"vanilla_nopos\"}")" -gt 0 ]'
    refused 429 rate_limited - /v1/encode "$body" -H "Authorization: Bearer $one"
    [ "$(header retry-after)" = 1 ]
    ok /v1/encode "$body" -H "Authorization: Bearer $two"
    # A client that leaves gives back what it had.
    kill "$client"
    client=
    await 5 eval "[ \"\$(status /v1/models -H 'Authorization: Bearer $one')\" = 200 ]"
    [ "$(five -H "Authorization: Bearer $two")" = '200 200 200 200 200' ]
}

# Opens COUNT connections into fds; the daemon closes those it does not want.
connect() { # COUNT
    fds=()
    local i fd
    for ((i = 0; i < $1; i++)); do
        exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
        fds+=("$fd")
    done
}

@test "an address has so many connections, and others are not touched" {
    start --server.connections_per_address 5
    local fds fd
    connect 5
    await 5 eval '[ "$(curl -s --interface 127.0.0.2 "$url/metrics" |
        sed -n "s/^seqd_http_connections //p")" = 6 ]'
    [ "$(status /livez)" = 000 ]
    [ "$(status /livez --interface 127.0.0.2)" = 200 ]
    for fd in "${fds[@]}"; do exec {fd}>&-; done
    await 5 eval '[ "$(status /livez)" = 200 ]'
    daemon_stop
    start
    connect 50
    [ "$(status /livez)" = 200 ]
    for fd in "${fds[@]}"; do exec {fd}>&-; done
}

@test "SIGHUP changes the limits" {
    local config=$BATS_TEST_TMPDIR/seqd.yaml
    printf 'limits: {}\n' >"$config"
    start --config "$config"
    [ "$(five)" = '200 200 200 200 200' ]
    printf 'limits: {key_requests_per_second: 1}\n' >"$config"
    reload good
    [[ "$(five)" == '200 '*429* ]]
}
