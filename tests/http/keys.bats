#!/usr/bin/env bats
# API keys: who has one may ask, who has none may not, and SIGHUP changes which they are.
load daemon

one=sk-one-0123456789abcdef
two=sk-two-0123456789abcdef
body='{"input_ids":[[5,6,2]],"pooling":"mean"}'

setup() {
    clients=()
    keys=$BATS_TEST_TMPDIR/keys
    umask 077
}
teardown() {
    touch "$BATS_TEST_TMPDIR/enough"
    daemon_stop
}

# The keys' values are nowhere to be seen.
stop_and_look_for_keys() {
    daemon_stop
    ! grep -rF -e 0123456789abcdef "$daemon_dir"
}

start() { # OPTION...
    printf '# the first\nalice: %s\n%s\n' $one $two >"$keys"
    daemon_start --model tests/kit/bart --server.keys_file "$keys" --log.level debug "$@"
}

with() { # KEY: curl options
    authorization=(-H "Authorization: Bearer $1")
}

@test "without a key everything is 401 but probes" {
    start
    local route
    for route in /livez /readyz /health; do [ "$(status $route)" = 200 ]; done
    for route in /v1/models /v1/models/bart /metrics /nowhere /v1/encode; do
        refused 401 missing_api_key Authorization $route
        [ "$(header www-authenticate)" = Bearer ]
        holds '.error.type == "authentication_error"'
    done
    for route in encode generate score; do
        refused 401 missing_api_key Authorization /v1/$route "$body"
    done
    [ "$(status /v1/encode -X TRACE)" = 401 ]
    stop_and_look_for_keys
}

@test "each key is let in, and nothing that is nearly one" {
    start
    local key value
    for key in $one $two; do
        with $key
        ok /v1/encode "$body" "${authorization[@]}"
        [ "$(status /v1/models "${authorization[@]}")" = 200 ]
        [ "$(status /metrics "${authorization[@]}")" = 200 ]
        [ "$(status /nowhere "${authorization[@]}")" = 404 ]
        [ "$(status /v1/encode "${authorization[@]}")" = 405 ]
    done
    ok /v1/encode "$body" -H "authorization: bearer   $one  "
    for value in "Bearer ${one%?}" "Bearer ${one}0" "Bearer ${one^^}" "Bearer $one,$two" \
        'Bearer alice' "Bearer alice: $one" "Bearer $(printf %0500d 0)"; do
        refused 401 invalid_api_key Authorization /v1/encode "$body" -H "Authorization: $value"
        [ "$(header www-authenticate)" = Bearer ]
    done
    for value in "$one" "Basic $(printf 'alice:%s' $one | base64)" Bearer "Bearer$one"; do
        refused 401 missing_api_key Authorization /v1/encode "$body" -H "Authorization: $value"
    done
    with $one
    ! curl -s "${authorization[@]}" "$url/metrics" | grep -F 0123456789abcdef ||
        fail "metrics show a key"
    curl -s "${authorization[@]}" "$url/metrics" |
        grep -q '^seqd_http_requests_total{route="/v1/encode",method="POST",status="401"} 11$'
    stop_and_look_for_keys
    log_lines 'select(.message == "request" and .key == "alice") | .status' | grep -qx 200
    log_lines 'select(.message == "request" and .status == 401)' | grep -vq '"key"'
}

@test "metrics.public lets scrapers in without a key, and nobody else" {
    start --metrics.public true
    [ "$(status /metrics)" = 200 ]
    [ "$(status /v1/models)" = 401 ]
}

@test "with keys a foreign Host does no harm, and the daemon may listen for everyone" {
    start
    with $one
    [ "$(status /v1/models "${authorization[@]}" -H 'Host: my.example')" = 200 ]
    [ "$(status /v1/models -H 'Host: my.example')" = 401 ]
    daemon_stop
    start --listen 0.0.0.0:0
    [ "$(status /v1/models)" = 401 ]
    [ "$(status /v1/models "${authorization[@]}")" = 200 ]
    timeout 5 "$SEQD" health --listen "${url#http://}"
}

@test "keys change with SIGHUP, and a file that cannot be used changes nothing" {
    start
    printf '%s\nbob:%s\n' $two sk-three-0123456789abcdef >"$keys"
    reload good
    with $one
    refused 401 invalid_api_key Authorization /v1/encode "$body" "${authorization[@]}"
    with $two
    ok /v1/encode "$body" "${authorization[@]}"
    with sk-three-0123456789abcdef
    ok /v1/encode "$body" "${authorization[@]}"
    local bad
    for bad in '' '# none' short "$two $two"; do
        printf %s "$bad" >"$keys"
        reload bad
        [ "$(status /v1/models "${authorization[@]}")" = 200 ]
        [ "$(status /v1/models)" = 401 ]
    done
    printf '%s\n' $one >"$keys"
    chmod 644 "$keys"
    reload bad
    chmod 600 "$keys"
    rm "$keys"
    reload bad
    [ "$(status /v1/models "${authorization[@]}")" = 200 ]
    stop_and_look_for_keys
}

@test "keys appear and vanish with the configuration" {
    local config=$BATS_TEST_TMPDIR/seqd.yaml
    printf '%s\n' $one >"$keys"
    printf 'server: {}\n' >"$config"
    daemon_start --model tests/kit/bart --config "$config"
    [ "$(status /v1/models)" = 200 ]
    printf 'server: {keys_file: %s}\n' "$keys" >"$config"
    reload good
    [ "$(status /v1/models)" = 401 ]
    [ "$(status /v1/models -H "Authorization: Bearer $one")" = 200 ]
    printf 'server: {}\n' >"$config"
    reload good
    [ "$(status /v1/models)" = 200 ]
}

@test "the log warns where everyone may ask" {
    daemon_start --model tests/kit/bart --listen 0.0.0.0:0 --server.allow_unauthenticated true
    log_lines 'select(.level == "warning") | .message' |
        grep 'everyone who can connect to 0.0.0.0:0'
    daemon_stop
    daemon_start --model tests/kit/bart
    [ -z "$(log_lines 'select(.level == "warning")')" ]
}

# The file may say another address; who can connect is still who could.
@test "a daemon that others can reach keeps its keys, whatever address the file says now" {
    local config=$BATS_TEST_TMPDIR/seqd.yaml
    printf '#!/bin/sh\nshift 2 # --listen, which would win\nexec %s "$@"\n' "$SEQD" \
        >"$BATS_TEST_TMPDIR/seqd"
    chmod 700 "$BATS_TEST_TMPDIR/seqd"
    SEQD=$BATS_TEST_TMPDIR/seqd
    printf '%s\n' $one >"$keys"
    printf 'server: {listen: "0.0.0.0:0", keys_file: %s}\n' "$keys" >"$config"
    daemon_start --model tests/kit/bart --config "$config"
    [ "$(status /v1/models)" = 401 ]
    printf 'server: {listen: "127.0.0.1:0"}\n' >"$config"
    reload bad
    log_lines .message | grep 'server.listen is 0.0.0.0:0, which others can reach'
    [ "$(status /v1/models)" = 401 ]
    printf 'server: {listen: "127.0.0.1:0", keys_file: %s}\n' "$keys" >"$config"
    reload good
    printf 'server: {listen: "0.0.0.0:0", keys_file: %s}\n' "$keys" >"$config"
    reload good
    [ "$(log_lines .message | grep -c 'server.listen stays 0.0.0.0:0')" = 2 ]
}

# Waits until each client has begun and ended a request from now on.
clients_go_on() {
    local i before
    for i in 1 2 3 4; do
        before=$(wc -l <"$BATS_TEST_TMPDIR/load.$i")
        await 20 eval "[ \$(wc -l <'$BATS_TEST_TMPDIR/load.$i') -ge $((before + 2)) ]"
    done
}

# Old and new key are both there for a time, as an operator does it; clients change in between.
@test "a key is exchanged under load and no request is lost" {
    start
    local i
    printf '%s\n' $one >"$keys"
    reload good
    printf %s $one >"$BATS_TEST_TMPDIR/current"
    for i in 1 2 3 4; do
        (
            until [ -e "$BATS_TEST_TMPDIR/enough" ]; do
                curl -s -m 20 -o /dev/null -w '%{http_code}\n' -d "$body" "$url/v1/encode" \
                    -H 'Content-Type: application/json' \
                    -H "Authorization: Bearer $(<"$BATS_TEST_TMPDIR/current")"
            done >"$BATS_TEST_TMPDIR/load.$i"
        ) 3>&- &
        clients+=($!)
    done
    local old=$one new=$two spare
    for i in 1 2 3 4 5 6; do
        printf '%s\n%s\n' "$old" "$new" >"$keys"
        reload good
        printf %s "$new" >"$BATS_TEST_TMPDIR/next"
        mv "$BATS_TEST_TMPDIR/next" "$BATS_TEST_TMPDIR/current"
        clients_go_on # what was begun with the old key is over
        printf '%s\n' "$new" >"$keys"
        reload good
        [ "$(status /v1/models -H "Authorization: Bearer $old")" = 401 ]
        spare=$old old=$new new=$spare
    done
    touch "$BATS_TEST_TMPDIR/enough"
    wait "${clients[@]}"
    [ "$(cat "$BATS_TEST_TMPDIR"/load.* | wc -l)" -gt 20 ]
    ! grep -hv 200 "$BATS_TEST_TMPDIR"/load.* || fail "a request is lost"
    stop_and_look_for_keys
}

ends() { # CODE TEXT ARGUMENT...
    local code=$1 text=$2 got=0 output
    shift 2
    output=$(timeout 20 "$SEQD" "$@" 2>&1 </dev/null) || got=$?
    [ "$got" = "$code" ] && [[ $output == *"$text"* ]] || fail "$*: $got: $output"
    [[ $output != *0123456789abcdef* ]] || fail "a key is shown: $output"
}

@test "seqd check reads the keys; a file of no use ends check and start with 2" {
    local model=(--model tests/kit/bart --server.keys_file "$keys" --log.level debug)
    printf '%s\n%s\n' $one $two >"$keys"
    ends 0 'API keys: 2' check "${model[@]}"
    ends 0 'API keys: 0' check --model tests/kit/bart
    chmod 604 "$keys"
    ends 2 "$keys: everyone" check "${model[@]}"
    chmod 600 "$keys"
    printf '%s\n%s x\n' $one $two >"$keys"
    ends 2 "$keys:2: " check "${model[@]}"
    ends 2 "$keys:2: " "${model[@]}" --listen 127.0.0.1:0
    rm "$keys"
    ends 2 "$keys: No such file" check "${model[@]}"
}
