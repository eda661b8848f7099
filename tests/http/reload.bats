#!/usr/bin/env bats
# SIGHUP: the configuration and the models are read again, and nobody notices but by the answers.
load daemon

setup() {
    client=
    clients=()
    config=$BATS_TEST_TMPDIR/seqd.yaml
}
teardown() {
    touch "$BATS_TEST_TMPDIR/enough"
    [ -z "$client" ] || kill "$client" 2>/dev/null || true
    daemon_stop
}

serves() { # NAME=FOLDER...
    printf 'models:\n' >"$config"
    local model
    for model in "$@"; do
        printf '  - name: %s\n    path: %s\n' "${model%%=*}" "${model#*=}" >>"$config"
    done
}

start() { # NAME=FOLDER...
    serves "$@"
    daemon_start --config "$config" --engine.workers 1
}

names() {
    ask /v1/models
    value '[.data[].id]'
}

# Sets client, which asked the old model and gets its answer in the file slow.
reload_under_a_slow_client() {
    start vanilla_nopos=tests/kit/vanilla_nopos
    slow_request 4 300 >"$BATS_TEST_TMPDIR/request"
    curl -s -m 60 -o "$BATS_TEST_TMPDIR/slow" -H 'Content-Type: application/json' \
        --data-binary "@$BATS_TEST_TMPDIR/request" "$url/v1/generate" 3>&- &
    client=$!
    await 10 eval '[ "$(metric "seqd_active_sequences{model=\"vanilla_nopos\"}")" -gt 0 ]'
    serves a=tests/kit/bart
    reload good
}

# The file is a link to a link whose target changes, as in a Kubernetes ConfigMap.
@test "a new list of models is served, and the old one forgotten" {
    start a=tests/kit/bart
    mkdir "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two"
    serves a=tests/kit/bart b=tests/kit/t5
    mv "$config" "$BATS_TEST_TMPDIR/one/seqd.yaml"
    serves b=tests/kit/t5
    mv "$config" "$BATS_TEST_TMPDIR/two/seqd.yaml"
    touch -d 2020-01-01 "$BATS_TEST_TMPDIR"/{one,two}/seqd.yaml
    ln -s one "$BATS_TEST_TMPDIR/..data"
    ln -s ..data/seqd.yaml "$config"
    reload good
    [ "$(names)" = '["a","b"]' ]
    ok /v1/encode '{"model":"b","input_ids":[[5,6,1]],"pooling":"mean"}'
    ln -sfn two "$BATS_TEST_TMPDIR/..data"
    reload good
    [ "$(names)" = '["b"]' ]
    refused 404 model_not_found model /v1/encode '{"model":"a","input_ids":[[5,6,2]]}'
    await 5 eval '! curl -s "$url/metrics" | grep -q "model=\"a\""'
    [ "$(metric 'seqd_queue_limit_sequences{model="b"}')" = 4096 ]
    reload good
    await 5 eval '[ "$(reload_count "the former models are closed")" = 3 ]'
}

@test "limits and the log level follow" {
    start a=tests/kit/bart
    ok /v1/encode '{"input_ids":[[5,6,2],[7,2]],"pooling":"mean"}'
    printf 'limits:\n  sequences: 1\nlog:\n  level: debug\n' >>"$config"
    reload good
    refused 413 over_limit input_ids /v1/encode '{"input_ids":[[5,6,2],[7,2]]}'
    [ "$(status /livez)" = 200 ]
    await 2 eval 'log_lines "select(.route == \"/livez\")" | grep -q .'
}

@test "what only a new start can change is said and stays" {
    start a=tests/kit/bart
    printf 'server:\n  threads: 3\n' >>"$config"
    reload good
    log_lines 'select(.level == "warning") | .message' |
        grep -q 'server.threads stays 2: only a new start makes it 3'
}

@test "a bad configuration or model leaves the old one serving" {
    start a=tests/kit/bart
    [ "$(metric seqd_config_last_reload_successful)" = 1 ]
    local time
    time=$(metric seqd_config_last_reload_success_timestamp_seconds)
    encode a '[[5,6,2]]'
    local before=$answer bad
    cp -r tests/kit/t5 "$BATS_TEST_TMPDIR/cut"
    truncate -s -100 "$BATS_TEST_TMPDIR/cut/model.safetensors"
    for bad in 'models: [' 'limits: {sequences: 0}' 'models: []' \
        'models: [{name: a, path: /nowhere}]' \
        "models: [{name: a, path: tests/kit/bart}, {name: c, path: $BATS_TEST_TMPDIR/cut}]"; do
        echo "$bad" >"$config"
        reload bad
        encode a '[[5,6,2]]'
        [ "$answer" = "$before" ]
    done
    [ "$(metric seqd_config_last_reload_successful)" = 0 ]
    [ "$(metric seqd_config_last_reload_success_timestamp_seconds)" = "$time" ]
    [ -z "$(curl -s "$url/metrics" | grep 'model="c"')" ]
    serves a=tests/kit/bart
    reload good
    [ "$(metric seqd_config_last_reload_successful)" = 1 ]
}

@test "a running request ends with the model it began with" {
    reload_under_a_slow_client
    [ "$(names)" = '["a"]' ]
    wait "$client"
    client=
    jq -e '.outputs | length == 4 and all(.sequences[0].token_ids | length == 300)' \
        "$BATS_TEST_TMPDIR/slow"
    await 5 eval '[ "$(reload_count "the former models are closed")" = 1 ]'
}

@test "SIGTERM while old requests run on drains them too" {
    reload_under_a_slow_client
    kill -TERM "$daemon_pid"
    wait "$client"
    client=
    jq -e '.outputs | length == 4' "$BATS_TEST_TMPDIR/slow"
    daemon_ends 0
}

# Whoever reads a FIFO waits for its writer, as long as that takes.
slow_reload() {
    start a=tests/kit/bart
    mv "$config" "$config.aside"
    mkfifo "$config"
    kill -HUP "$daemon_pid"
}

@test "SIGTERM is obeyed while a reload takes its time" {
    slow_reload
    ok /v1/encode '{"input_ids":[[5,6,2]]}'
    kill -TERM "$daemon_pid"
    local before=$SECONDS
    daemon_ends 0
    [ $((SECONDS - before)) -le 5 ]
    log_lines 'select(.message == "stopped")' | grep -q .
}

@test "SIGHUP while a reload takes its time makes another one" {
    slow_reload
    sleep 0.3
    kill -HUP "$daemon_pid"
    local i
    for i in 1 2; do
        timeout 10 sh -c 'cat "$1.aside" >"$1"' - "$config"
        await 5 eval '[ "$(reload_count reloaded)" = $i ]'
    done
    [ "$(names)" = '["a"]' ]
}

anonymous_kb() { awk '/^RssAnon:/ { print $2 }' "/proc/$daemon_pid/status"; }

# Every answer is A's or B's; what it costs stays.
@test "model A, B, A, B under load: no request is lost, no answer is mixed, no memory stays" {
    start m=tests/kit/bart
    local body='{"input_ids":[[5,6,7,2],[8,2]],"pooling":"mean"}' i a b
    ok /v1/encode "$body"
    a=$(value .data)
    serves m=tests/kit/m2m100
    reload good
    ok /v1/encode "$body"
    b=$(value .data)
    [ "$a" != "$b" ]
    for i in 1 2 3 4; do
        (
            until [ -e "$BATS_TEST_TMPDIR/enough" ]; do
                curl -s -m 20 -w '\n%{http_code}\n' -H 'Content-Type: application/json' \
                    -d "$body" "$url/v1/encode"
            done >"$BATS_TEST_TMPDIR/load.$i"
        ) 3>&- &
        clients+=($!)
    done
    local first= rounds=20
    for ((i = 1; i <= rounds; i++)); do
        if ((i % 2)); then serves m=tests/kit/bart; else serves m=tests/kit/m2m100; fi
        reload good
        [ "$i" -ne 4 ] || first=$(anonymous_kb)
    done
    touch "$BATS_TEST_TMPDIR/enough"
    wait "${clients[@]}"
    [ -z "$(grep -hE '^[0-9]{3}$' "$BATS_TEST_TMPDIR"/load.* | grep -v 200)" ]
    jq -c 'select(type == "object") | .data' "$BATS_TEST_TMPDIR"/load.* >"$BATS_TEST_TMPDIR/all"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/all")" -gt 20 ]
    grep -qxF "$a" "$BATS_TEST_TMPDIR/all"
    grep -qxF "$b" "$BATS_TEST_TMPDIR/all"
    [ -z "$(grep -vxF -e "$a" -e "$b" "$BATS_TEST_TMPDIR/all")" ]
    await 5 eval "[ \$(reload_count 'the former models are closed') = $((rounds + 1)) ]"
    [[ $SEQD != */release/* ]] || [ "$(anonymous_kb)" -le $((first * 110 / 100 + 512)) ]
}
