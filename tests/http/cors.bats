#!/usr/bin/env bats
# Pages of browsers: which origins may ask, what a preflight is told, what answers carry.
load daemon

app=https://app.example:8443
key=sk-one-0123456789abcdef
body='{"input_ids":[[5,6,2]],"pooling":"mean"}'

teardown() { daemon_stop; }

start() { daemon_start --model tests/kit/bart "$@"; }

start_with_keys() { # OPTION...
    (umask 077 && echo $key >"$BATS_TEST_TMPDIR/keys")
    start --server.keys_file "$BATS_TEST_TMPDIR/keys" "$@"
}

from() { # ORIGIN: curl options
    origin=(-H "Origin: $1")
}

preflight() { # ROUTE [CURL_OPTION...]
    local route=$1
    shift
    ask "$route" '' -X OPTIONS -H 'Access-Control-Request-Method: POST' \
        -H 'Access-Control-Request-Headers: authorization, content-type' "$@"
}

no_headers() { # the last answer lets no page read it
    ! grep -i '^access-control' "$BATS_TEST_TMPDIR/headers"
}

@test "by default no page may post, and none is told anything" {
    start
    for page in $app null http://evil.example http://localhost:1; do
        from "$page"
        refused 403 forbidden Origin /v1/encode "$body" "${origin[@]}"
        ask /v1/models '' "${origin[@]}"
        [ "$status" = 200 ]
        no_headers
        [ -z "$(header vary)" ]
        preflight /v1/encode "${origin[@]}"
        [ "$status" = 405 ]
        no_headers
    done
}

@test "a page that came from the daemon itself may post" {
    start --server.hosts my.example
    local port=${url##*:}
    from "$url"
    ok /v1/encode "$body" "${origin[@]}"
    ok /v1/encode "$body" -H "Origin: http://localhost:$port" -H "Host: localhost:$port"
    ok /v1/encode "$body" -H 'Origin: https://my.example' -H 'Host: my.example'
    refused 403 forbidden Origin /v1/encode "$body" -H "Origin: http://localhost:$port"
    refused 403 forbidden Origin /v1/encode "$body" -H "Origin: ${url}0"
    refused 403 forbidden Origin /v1/encode "$body" -H "Origin: app://127.0.0.1:$port"
}

@test "a name that leads here is not ours, also where everyone may ask" {
    start --listen 0.0.0.0:0 --server.allow_unauthenticated true
    refused 403 forbidden Origin /v1/encode "$body" -H 'Origin: http://evil.example' \
        -H 'Host: evil.example'
    ok /v1/encode "$body" -H 'Host: evil.example'
}

@test "a listed origin may ask, and its page may read answers and errors" {
    start --cors.origins "https://other.example,$app"
    from $app
    ok /v1/encode "$body" "${origin[@]}"
    [ "$(header access-control-allow-origin)" = $app ]
    [ "$(header vary)" = Origin ]
    [[ "$(header access-control-expose-headers)" == *X-Request-Id*Retry-After* ]]
    local route
    for route in /v1/models /v1/models/nobody /nowhere /livez; do
        ask $route '' "${origin[@]}"
        [ "$(header access-control-allow-origin)" = $app ]
        ask $route '' "${origin[@]}" --head
        [ "$(header access-control-allow-origin)" = $app ]
    done
    refused 400 invalid_json - /v1/encode '{' "${origin[@]}"
    [ "$(header access-control-allow-origin)" = $app ]
    [ -z "$(header access-control-allow-credentials)" ]
}

@test "an origin that is not listed is refused and told nothing" {
    start --cors.origins $app
    for page in https://app.example http://app.example:8443 $app.evil.example "$app/" null \
        https://xapp.example:8443; do
        from "$page"
        refused 403 forbidden Origin /v1/encode "$body" "${origin[@]}"
        no_headers
        [ "$(header vary)" = Origin ]
        preflight /v1/encode "${origin[@]}"
        [ "$status" = 405 ]
        no_headers
    done
}

@test "a preflight is answered 204 with what its route takes" {
    start --cors.origins $app
    from $app
    preflight /v1/generate "${origin[@]}"
    [ "$status" = 204 ]
    [ -z "$answer" ]
    [ "$(header access-control-allow-origin)" = $app ]
    [ "$(header access-control-allow-methods)" = POST ]
    [ "$(header access-control-allow-headers)" = 'authorization, content-type' ]
    [ "$(header access-control-max-age)" = 600 ]
    [ "$(header vary)" = Origin ]
    [ -z "$(header content-type)" ]
    [ -n "$(header x-request-id)" ]
    preflight /v1/models "${origin[@]}"
    [ "$status $(header access-control-allow-methods)" = '204 GET, HEAD' ]
    preflight /nowhere "${origin[@]}"
    [ "$status" = 404 ]
    # An OPTIONS that asks for nothing is no preflight.
    ask /v1/encode '' -X OPTIONS "${origin[@]}"
    [ "$status" = 405 ]
    local labels='route="/v1/generate",method="OPTIONS",status="204"'
    [ "$(metric "seqd_http_requests_total{$labels}")" = 1 ]
}

@test "with keys a preflight needs none and the request after it does" {
    start_with_keys --cors.origins $app
    from $app
    preflight /v1/encode "${origin[@]}"
    [ "$status" = 204 ]
    refused 401 missing_api_key Authorization /v1/encode "$body" "${origin[@]}"
    [ "$(header access-control-allow-origin)" = $app ]
    ok /v1/encode "$body" "${origin[@]}" -H "Authorization: Bearer $key"
    from https://evil.example
    preflight /v1/encode "${origin[@]}"
    [ "$status" = 401 ]
    no_headers
    refused 403 forbidden Origin /v1/encode "$body" "${origin[@]}" -H "Authorization: Bearer $key"
}

@test "* is every origin and needs keys" {
    run timeout 10 "$SEQD" check --model tests/kit/bart --cors.origins '*'
    [ "$status" = 2 ]
    [[ $output == *'cors.origins has *'*keys* ]]
    start_with_keys --cors.origins '*'
    from https://any.example
    ok /v1/encode "$body" "${origin[@]}" -H "Authorization: Bearer $key"
    [ "$(header access-control-allow-origin)" = '*' ]
    preflight /v1/encode "${origin[@]}"
    [ "$status $(header access-control-allow-origin)" = '204 *' ]
}

@test "SIGHUP changes the list" {
    local config=$BATS_TEST_TMPDIR/seqd.yaml
    echo 'cors: {}' >"$config"
    start --config "$config"
    from $app
    refused 403 forbidden Origin /v1/encode "$body" "${origin[@]}"
    echo "cors: {origins: ['$app']}" >"$config"
    reload good
    ok /v1/encode "$body" "${origin[@]}"
}
