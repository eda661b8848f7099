#!/usr/bin/env bats
# Routes, methods, hosts, headers and request ids; what the log says of them.
load daemon

setup_file() {
    daemon_start --model tests/kit/vanilla_post --model other=tests/kit/vanilla_learned/ \
        --log.level debug
}
teardown_file() { daemon_stop; }

@test "the models are listed in OpenAI's shape and ours" {
    ask /v1/models
    [ "$status" = 200 ]
    holds '.object == "list" and (.data | map(.id)) == ["vanilla_post", "other"]'
    holds '.data | all(.object == "model" and .owned_by == "seqd" and .created > 1700000000)'
    local first
    first=$(value '.data[0]')
    ask /v1/models/vanilla_post
    [ "$answer" = "$first" ]
}

@test "a model tells family, sizes and default options" {
    ask /v1/models/vanilla_post
    holds '.family == "transformer" and .dtype == "float32" and .tokenizer == false'
    holds '.sizes | .dim == 32 and .encoder_layers == 2 and .decoder_layers == 3 and
        .heads == 8 and .decoder_heads == 8 and
        .source_vocabulary == 85 and .target_vocabulary == 85 and .positions == 100 and
        .parameters == 57280'
    holds '.default_options == {max_length: 16, decoder_start_token_id: 2, bos_token_id: 2,
        pad_token_id: 0, eos_token_id: 3}'
    ask /v1/models/other
    holds '.id == "other" and .sizes.dim == 20'
}

@test "a model that is not there is 404" {
    for name in nobody vanilla '' vanilla_post/ 'a%2Fb' 'vanilla_post%00'; do
        ask "/v1/models/$name"
        [ "$status" = 404 ]
        holds '.error.type == "invalid_request_error"'
    done
    refused 404 model_not_found model /v1/models/nobody
    refused 404 model_not_found model /v1/encode '{"model":"nobody","input_ids":[[5]]}'
}

@test "probes answer 200, and quietly" {
    for route in /livez /readyz /health; do
        ask $route
        [ "$status" = 200 ]
        holds '.status | length > 0'
    done
}

@test "a path that is no route is 404" {
    for path in / /v1 /v1/ /v1/encode/ /v1/encodex /v2/health /v1/Encode //v1/encode \
        /v1/encode%00 /livezz /v1/tokenize; do
        refused 404 route_not_found - "$path"
        refused 404 route_not_found - "$path" '{"input_ids":[[5]]}'
    done
}

@test "a query changes nothing" {
    [ "$(status '/livez?verbose=1')" = 200 ]
    ok '/v1/encode?x=%00' '{"model":"other","input_ids":[[5]]}'
}

# Status and Allow of a request.
method() { # METHOD ROUTE
    local head=()
    [ "$1" != HEAD ] || head=(--head)
    curl -s -o /dev/null -w '%{http_code} %header{allow}' -X "$1" "${head[@]}" "$url$2"
}

@test "a method that a route does not know is 405 with what it does know" {
    for method in GET HEAD PUT DELETE PATCH OPTIONS TRACE BREW; do
        for route in /v1/encode /v1/generate /v1/score; do
            [ "$(method $method $route)" = '405 POST' ]
        done
    done
    for method in POST PUT DELETE PATCH OPTIONS TRACE BREW; do
        for route in /v1/models /v1/models/other /livez /readyz /health /metrics; do
            [ "$(method $method $route)" = '405 GET, HEAD' ]
        done
    done
    refused 405 method_not_allowed - /v1/encode
}

@test "HEAD has the headers of GET and no body" {
    for route in /v1/models /livez; do
        ask $route
        local type length
        type=$(header content-type)
        length=$(header content-length)
        ask $route '' --head
        [ "$status" = 200 ]
        [ "$(header content-type)" = "$type" ]
        [ "$(header content-length)" = "$length" ]
    done
}

@test "answers are JSON and say so" {
    ok /v1/encode '{"model":"other","input_ids":[[5]]}'
    [ "$(header content-type)" = application/json ]
    ask /nowhere
    [ "$(header content-type)" = application/json ]
}

@test "a request id comes back when it is printable and short, else a new one" {
    local longest
    longest=$(printf '%128s' '' | tr ' ' x)
    for id in abc-1 'with spaces {"and"} \quotes' "$longest"; do
        ask /livez '' -H "X-Request-Id: $id"
        [ "$(header x-request-id)" = "$id" ]
    done
    for id in "${longest}x" $'tab\there' 'ü'; do
        ask /livez '' -H "X-Request-Id: $id"
        [[ "$(header x-request-id)" =~ ^[0-9a-f]{32}$ ]]
    done
    ask /livez
    local first
    first=$(header x-request-id)
    ask /livez
    [ "$(header x-request-id)" != "$first" ]
}

@test "errors of every kind carry the request id" {
    for route in /nowhere /v1/encode /v1/models/nobody; do
        ask $route '' -H 'X-Request-Id: mine'
        [ "$(header x-request-id)" = mine ]
    done
    ask /v1/encode '{' -H 'X-Request-Id: mine'
    [ "$(header x-request-id)" = mine ]
}

@test "the log has a line about a request, with its id and traceparent" {
    local id=log-$RANDOM trace=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    ok /v1/encode '{"model":"other","input_ids":[[5,6,3],[7]]}' -H "X-Request-Id: $id" \
        -H "traceparent: $trace"
    await 5 grep -q "$id" "$daemon_dir/log"
    local line
    line=$(log_lines "select(.message == \"request\" and .request_id == \"$id\")")
    jq -e --arg trace "$trace" '.level == "info" and .method == "POST" and
        .route == "/v1/encode" and .model == "other" and .status == 200 and .ms > 0 and
        .rows == 2 and .prompt_tokens == 4 and .traceparent == $trace and (has("error") | not) and
        (.time | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$"))' <<<"$line"
}

@test "the log says why a request was refused, and nothing a client wrote can break its lines" {
    ask /v1/encode '{"input_ids":[[5]]}' -H 'X-Request-Id: "},{"x":"\'
    await 5 grep -q missing_field "$daemon_dir/log"
    log_lines 'select(.error == "missing_field") | .request_id' | grep -qxF '"},{"x":"\'
}

@test "every line of the log is JSON with time, level and message" {
    ask /v1/encode '{'
    ask '/v1/models/%0a%22%ff'
    jq -es 'length > 10 and all(has("time") and has("level") and has("message"))' "$daemon_dir/log"
}

@test "on loopback only addresses and localhost are hosts, probes and metrics excepted" {
    for host in evil.example localhost.evil.example 127.0.0.1.evil.example 1.2.3 '[::1' '[evil]'; do
        refused 403 forbidden Host /v1/encode '{"model":"other","input_ids":[[5]]}' -H "Host: $host"
        [ "$(status /v1/models -H "Host: $host")" = 403 ]
    done
    for host in localhost LOCALHOST:1 127.0.0.1 127.0.0.1:80 '[::1]' '[::1]:80' 192.0.2.1; do
        [ "$(status /v1/models -H "Host: $host")" = 200 ]
    done
    for route in /livez /readyz /health /metrics; do
        [ "$(status $route -H 'Host: evil.example')" = 200 ]
    done
}

@test "a target may be a whole URL, whose host is that of Host" {
    local port=${url##*:} got
    for target in http://localhost HTTP://LOCALHOST https://localhost; do
        [ "$(status '' --request-target $target/livez -H 'Host: localhost')" = 200 ]
        ok /v1/encode '{"model":"vanilla_post","input_ids":[[5]],"pooling":"mean"}' \
            --request-target "$target/v1/encode?x" -H 'Host: localhost'
    done
    ask '' '' --request-target "$url/v1/models/vanilla_post"
    holds '.id == "vanilla_post"'
    [ "$(status '' --request-target "$url")" = 404 ]
    [ "$(status '' --request-target "ftp://127.0.0.1:$port/livez")" = 404 ]
    refused 403 forbidden Host '' '' --request-target http://evil.example/v1/models \
        -H 'Host: evil.example'
    for target in http://evil.example http://localhost:1 http://localhos http://x@localhost \
        http://; do
        refused 400 unsupported Host '' '' --request-target $target/v1/models \
            -H 'Host: localhost'
    done
    got=$(raw 'GET http://localhost/livez HTTP/1.0\r\n\r\n')
    [[ $got == HTTP/1.[01]' 200 '* ]]
}

@test "a page of another origin cannot post" {
    refused 403 forbidden Origin /v1/encode '{"model":"other","input_ids":[[5]]}' \
        -H 'Origin: https://evil.example'
    refused 403 forbidden Origin /v1/encode '{"model":"other","input_ids":[[5]]}' -H 'Origin: null'
    ask /v1/models
    [ -z "$(header access-control-allow-origin)" ]
}

@test "a kept connection serves one request after another, errors among them" {
    local codes
    codes=$(curl -s -o /dev/null -w '%{http_code} %{num_connects}\n' "$url/livez" \
        --next -s -o /dev/null -w '%{http_code} %{num_connects}\n' -d '{' "$url/v1/encode" \
        --next -s -o /dev/null -w '%{http_code} %{num_connects}\n' "$url/nowhere" \
        --next -s -o /dev/null -w '%{http_code} %{num_connects}\n' "$url/v1/models")
    [ "$codes" = $'200 1\n415 0\n404 0\n200 0' ]
}
