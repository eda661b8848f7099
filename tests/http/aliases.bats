#!/usr/bin/env bats
# Models under other names: requests may use them, metrics and the log do not, SIGHUP changes them.
load daemon

setup() {
    config=$BATS_TEST_TMPDIR/seqd.yaml
    printf 'models:
  - {name: a, path: tests/kit/bart, aliases: [latest, org/a]}
  - {name: b, path: tests/kit/t5}\n' >"$config"
    daemon_start --config "$config"
}
teardown() { daemon_stop; }

embed() { # NAME
    ok /v1/encode "{\"model\":\"$1\",\"input_ids\":[[5,6,2]],\"pooling\":\"mean\"}"
}

@test "a request may name an alias, and is told the model's own name" {
    local answers
    embed a
    answers=$(value .data)
    for name in latest org/a; do
        embed $name
        [ "$(value .data)" = "$answers" ]
        holds '.model == "a"'
        ask "/v1/models/${name/\//%2F}"
        holds '.id == "a" and .aliases == ["latest", "org/a"]'
    done
    ask /v1/models
    holds '[.data[] | [.id, .aliases]] == [["a", ["latest", "org/a"]], ["b", []]]'
    refused 404 model_not_found model /v1/encode '{"model":"org","input_ids":[[5]]}'
    refused 404 model_not_found model /v1/models/Latest
}

@test "metrics and the log have the model's own name" {
    embed latest
    embed latest
    [ "$(metric 'seqd_request_duration_seconds_count{route="/v1/encode",model="a"}')" = 2 ]
    ! curl -s "$url/metrics" | grep -F latest || fail "an alias is a label"
    [ "$(log_lines 'select(.message == "request") | .model' | sort -u)" = a ]
}

# b is gone as a model and there as an alias: its series go.
@test "SIGHUP changes aliases; a name that became an alias has no series" {
    embed b
    printf 'models:\n  - {name: c, path: tests/kit/t5, aliases: [b, latest]}\n' >"$config"
    reload good
    embed b
    holds '.model == "c"'
    embed latest
    holds '.model == "c"'
    refused 404 model_not_found model /v1/encode '{"model":"org/a","input_ids":[[5]]}'
    await 5 eval '! curl -s "$url/metrics" | grep -q "model=\"[ab]\""'
    [ "$(metric 'seqd_queue_limit_sequences{model="c"}')" = 4096 ]
}

@test "a name given twice leaves the old models serving, and does not start" {
    local bad
    for bad in '[{name: a, path: tests/kit/bart, aliases: [x, x]}]' \
        '[{name: a, path: tests/kit/bart}, {name: b, path: tests/kit/t5, aliases: [a]}]'; do
        echo "models: $bad" >"$config"
        reload bad
        embed latest
        run timeout 10 "$SEQD" check --config "$config"
        [ "$status" = 2 ]
        [[ $output == *'two models are called'* ]]
    done
}
