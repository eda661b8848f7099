#!/usr/bin/env bats
# The access log: one JSON line a request, whatever a client sends, and nothing of what it sent.
load daemon

teardown() { daemon_stop; }

requests() { # the lines about requests
    log_lines 'select(.message == "request" or .message == "aborted")'
}

request_count() { requests | wc -l; }

# Sets line, that of the request with the id.
line_of() { # ID
    await 5 eval 'requests | grep -qF "\"request_id\":\"'"$1"'\""'
    line=$(requests | jq -c --arg id "$1" 'select(.request_id == $id)')
}

says() { # JQ_EXPRESSION [JQ_OPTION...]: of the line
    local expression=$1
    shift
    jq -e "$@" "$expression" <<<"$line" >/dev/null || fail "$expression: $line"
}

@test "a line has ids, route, model, status, times, tokens and sizes, and no more" {
    local trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 sent line
    local body='{"model":"m","input_ids":[[5,6,3],[7]],"parameters":{"max_new_tokens":7,
        "min_new_tokens":7}}'
    daemon_start --model m=tests/kit/vanilla_post
    ok /v1/generate "$body" -H 'X-Request-Id: one' -H "traceparent: $trace"
    line_of one
    says 'keys_unsorted == ["time", "level", "message", "request_id", "traceparent", "method",
        "route", "model", "status", "ms", "queue_ms", "encode_ms", "decode_ms", "rows",
        "prompt_tokens", "output_tokens", "bytes_in", "bytes_out"]'
    says '.traceparent == $trace and .bytes_in == $in and .bytes_out == $out and .rows == 2 and
        .prompt_tokens == 4 and .output_tokens == 14' --arg trace $trace \
        --argjson in ${#body} --argjson out "$(wc -c <"$BATS_TEST_TMPDIR/answer")"
    says '.queue_ms >= 0 and .encode_ms > 0 and .decode_ms > 0 and
        .ms >= .queue_ms + .encode_ms * 0.999'
    ok /v1/encode '{"input_ids":[[5]],"pooling":"mean"}' -H 'X-Request-Id: two'
    line_of two
    says 'has("encode_ms") and (has("decode_ms") | not)'
    ask /v1/models '' --head -H 'X-Request-Id: three'
    line_of three
    says '.method == "HEAD" and .bytes_in == 0 and .bytes_out == 0 and (has("rows") | not)'
}

@test "a refusal says code and parameter" {
    local line
    daemon_start --model m=tests/kit/vanilla_post
    ask /v1/encode '{"input_ids":[[5],[500]]}' -H 'X-Request-Id: one'
    line_of one
    says '.status == 400 and .error == "token_out_of_range" and .param == "input_ids[1][0]" and
        .model == "m" and (has("queue_ms") | not)'
    ask /v1/encode '{"model":"secret","input_ids":[[5]]}' -H 'X-Request-Id: two'
    line_of two
    says '.error == "model_not_found" and .param == "model" and (has("model") | not)'
    ask /v1/models/secret '' -H 'X-Request-Id: three'
    line_of three
    says '.route == "/v1/models/NAME" and (has("path") | not)'
    ! grep -q secret "$daemon_dir/log"
}

@test "a client that leaves has its line, with what was spent on it" {
    local line
    daemon_start --model tests/kit/vanilla_nopos --engine.workers 1 --engine.batch_sequences 16 \
        --limits.return_sequences 16
    slow_request 3 >"$BATS_TEST_TMPDIR/slow"
    curl -s -m 0.3 -o /dev/null -H 'Content-Type: application/json' -H 'X-Request-Id: gone' \
        --data-binary "@$BATS_TEST_TMPDIR/slow" "$url/v1/generate" || true
    line_of gone
    says '.error == "client_gone" and .ms > 200 and .rows == 3 and .bytes_in > 0'
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
    printf '%s\r\n' 'POST /v1/encode HTTP/1.1' 'Host: localhost' 'X-Request-Id: half' \
        'Content-Length: 99' 'Expect: 100-continue' '' >&"$fd"
    read -r -t 10 <&"$fd" # it has begun
    printf '{' >&"$fd"
    exec {fd}>&-
    line_of half
    says '.message == "aborted" and .bytes_in <= 1 and .bytes_out == 0 and (has("status") | not)'
}

@test "texts and tokens are in no line" {
    daemon_start --model models/g2p --log.level debug
    ok /v1/generate '{"inputs":["xylophone"],"parameters":{"logprobs":1}}'
    ok /v1/score '{"inputs":["xylophone"],"targets":["Z AY1 L AH0 F OW2 N"]}'
    ask /v1/generate '{"inputs":["xylophone",7]}'
    ask /v1/generate '{"inputs":["xylophone"],"parameters":{"num_beams":99}}'
    ask /v1/generate '{"inputs":["xylophone"'
    await 5 eval '[ "$(request_count)" -ge 5 ]'
    ! grep -qE 'xylo|AY1' "$daemon_dir/log"
}

# Whatever comes, the log grows by as many lines as there were requests; each is UTF-8 and JSON.
@test "a path or an id cannot forge, break or swell a line" {
    local lines before long wanted=0 path id
    daemon_start --model m=tests/kit/vanilla_post
    lines=$(wc -l <"$daemon_dir/log")
    long=$(printf '%3000s' '' | tr ' ' x)
    for path in '/%0d%0aX' '/%0a{"level":"error"}' '/%22,%22status%22:200,%22' '/%ff%fe%c3' \
        '/%c2%9b31m' '/%e2%82%ac' "/$long" "/%22${long//x/%22}" '/%1b%5b31m' \
        '/%7f%01%5c' '/x?%0d%0aX'; do
        ask "$path" '' --path-as-is -g
        [ "$status" = 404 ]
        wanted=$((wanted + 1))
    done
    for id in "${long:0:129}" $'a\x01b' $'a\x7fb' $'a\tb' $'a\x80b' 'ü' '"},{"' \
        "${long:0:128}"; do
        ask /v1/models '' -H "X-Request-Id: $id" -H "traceparent: $id"
        [ -n "$(header x-request-id)" ] || fail "$status: $id"
        wanted=$((wanted + 1))
    done
    await 5 eval "[ \$(request_count) -ge $wanted ]"
    [ "$(request_count)" = $wanted ]
    [ "$(wc -l <"$daemon_dir/log")" = $((lines + wanted)) ]
    iconv -f UTF-8 -t UTF-8 <"$daemon_dir/log" >/dev/null
    [ -z "$(LC_ALL=C grep -aP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]' "$daemon_dir/log")" ]
    [ -z "$(LC_ALL=C grep -aE '.{2048}' "$daemon_dir/log")" ]
    jq -es 'all(.[]; type == "object" and has("time"))' "$daemon_dir/log"
    requests | jq -es 'all(.status and .ms and (.request_id | test("^[ -~]{1,128}$")))'
    requests | jq -es '[.[] | select(.path)] | length == 11 and all(.status == 404) and
        .[0].path == "/\r\nX" and .[5].path == "/€" and .[3].path == "/\ufffd\ufffd\ufffd"'
    requests | jq -es '[.[] | select(.route == "/v1/models") | .request_id] |
        (map(select(test("^[0-9a-f]{32}$"))) | length) == 6 and .[6] == "\"},{\"" and
        (.[7] | length) == 128'
}

@test "the address of the client is there when it is asked for" {
    local line
    daemon_start --model m=tests/kit/vanilla_post --log.client_address true
    ask /v1/models '' -H 'X-Request-Id: one' -H 'X-Forwarded-For: 192.0.2.1'
    line_of one
    says '.client == "127.0.0.1"'
}

@test "a NaN is a 500 whose two lines have its id, is counted, and leaves nothing behind" {
    local folder=$BATS_TEST_TMPDIR/nan line name trace=00-0af7651916cd43dd8448eb211c80319c-00-01
    cp -rL tests/kit/vanilla_post "$folder"
    # The decoder's last weights: all bits set are no number.
    truncate -s -4096 "$folder/model.safetensors"
    head -c 4096 /dev/zero | tr '\0' '\377' >>"$folder/model.safetensors"
    daemon_start --model m="$folder"
    for route in generate score; do
        refused 500 nonfinite_output - /v1/$route "$(jq -nc --arg route $route \
            '{input_ids: [[5, 6, 3], [7, 3]]} +
                if $route == "score" then {target_ids: [[5], [6]]} else {} end')" \
            -H "X-Request-Id: $route" -H "traceparent: $trace"
        line_of $route
        says '.status == 500 and .error == "nonfinite_output" and .rows == 2'
        log_lines "select(.level == \"error\" and .request_id == \"$route\" and
            .traceparent == \"$trace\" and (.message | test(\"not finite\")))" | grep .
    done
    [ "$(metric 'seqd_nonfinite_outputs_total{model="m"}')" -ge 2 ]
    for name in queue_sequences active_sequences kv_cache_bytes; do
        [ "$(metric "seqd_$name{model=\"m\"}")" = 0 ]
    done
}

@test "without log.access there is no line, until SIGHUP brings it back" {
    local config=$BATS_TEST_TMPDIR/seqd.yaml line
    printf 'models: [{name: m, path: tests/kit/vanilla_post}]\nlog: {access: false}\n' >"$config"
    daemon_start --config "$config"
    ok /v1/encode '{"input_ids":[[5]],"pooling":"mean"}' -H 'X-Request-Id: one'
    sed -i 's/false/true/' "$config"
    kill -HUP "$daemon_pid"
    await 10 eval '[ -n "$(log_lines "select(.message == \"reloaded\")")" ]'
    ok /v1/encode '{"input_ids":[[5]],"pooling":"mean"}' -H 'X-Request-Id: two'
    line_of two
    ! grep -q '"one"' "$daemon_dir/log"
}
