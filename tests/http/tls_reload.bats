#!/usr/bin/env bats
# SIGHUP reads the certificate again: new connections see the new one, and nobody is cut.
bats_require_minimum_version 1.5.0
load daemon
load tls

setup() {
    others=()
    at=$BATS_TEST_TMPDIR
    config=$at/seqd.yaml
    body='{"input_ids":[[5,6,7,2],[8,2]],"pooling":"mean"}'
    certificate one
    certificate two
}
teardown() {
    touch "$at/enough"
    [ ${#others[@]} -eq 0 ] || wait "${others[@]}" || true
    daemon_stop
}

# Files whose names stay, as of Certbot and of a Kubernetes Secret.
puts() { # NAME
    cp "$at/$1.crt" "$at/now.crt.new" && mv "$at/now.crt.new" "$at/now.crt"
    cp "$at/$1.key" "$at/now.key.new" && mv "$at/now.key.new" "$at/now.key"
}

configured() { # TLS|plain
    printf 'models: [{name: m, path: tests/kit/bart}]\n' >"$config"
    [ "$1" = plain ] ||
        printf 'server: {tls_certificate: %s, tls_key: %s}\n' "$at/now.crt" "$at/now.key" \
            >>"$config"
}

start() {
    puts one
    configured TLS
    daemon_start --config "$config" --engine.workers 1
}

@test "new connections see the new certificate, an old one goes on" {
    start
    [ "$(shown)" = one ]
    mkfifo "$at/requests"
    timeout 30 openssl s_client -quiet -connect "${url#https://}" <"$at/requests" >"$at/answers" \
        2>"$at/chain" 3>&- &
    others+=($!)
    local fd
    exec {fd}>"$at/requests"
    printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$fd"
    await 5 eval '[ "$(grep -c "^HTTP/1.1 200" "$at/answers")" = 1 ]'
    puts two
    [ "$(shown)" = one ]
    reload good
    [ "$(shown)" = two ]
    printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&"$fd"
    await 5 eval '[ "$(grep -c "HTTP/1.1 200" "$at/answers")" = 2 ]'
    exec {fd}>&-
    grep -q 'CN = one' "$at/chain"
    ok /v1/encode "$body"
}

@test "a bad pair leaves the old one, and another try is good" {
    start
    cp "$at/two.crt" "$at/now.crt"
    reload bad
    log_lines 'select(.level == "error") | .message' |
        grep 'now.key is not the key of the certificate .*now.crt'
    [ "$(shown)" = one ]
    [ "$(metric seqd_config_last_reload_successful)" = 0 ]
    head -c 100 "$at/two.crt" >"$at/now.crt"
    reload bad
    rm "$at/now.key"
    reload bad
    [ "$(shown)" = one ]
    ok /v1/encode "$body"
    puts two
    reload good
    [ "$(shown)" = two ]
    [ "$(metric seqd_config_last_reload_successful)" = 1 ]
}

@test "TLS is turned on or off by a new start only" {
    start
    configured plain
    reload bad
    log_lines 'select(.level == "error") | .message' | grep 'only a new start turns TLS on or off'
    [ "$(shown)" = one ]
    ok /v1/encode "$body"
    daemon_stop
    daemon_start --config "$config"
    [[ $url == http://* ]]
    configured TLS
    reload bad
    ok /v1/encode "$body"
}

# New connections and kept ones.
@test "no request is lost while the certificate changes under load" {
    start
    local i rounds=12 post=(-H 'Content-Type: application/json' -d "$body")
    for i in 1 2 3 4; do
        (
            until [ -e "$at/enough" ]; do
                curl -s -m 20 -o /dev/null -w '%{http_code}\n' "${post[@]}" "$url/v1/encode" \
                    --next -s -m 20 -o /dev/null -w '%{http_code}\n' "${post[@]}" \
                    "$url/v1/encode" || echo "curl $?"
            done >"$at/load.$i"
        ) 3>&- &
        others+=($!)
    done
    for ((i = 1; i <= rounds; i++)); do
        if ((i % 2)); then puts two; else puts one; fi
        reload good
    done
    touch "$at/enough"
    wait "${others[@]}"
    others=()
    run -1 grep -v '^200$' "$at"/load.*
    [ "$(cat "$at"/load.* | wc -l)" -gt 20 ]
    await 5 eval "[ \$(reload_count 'the former models are closed') = $rounds ]"
    [ "$(shown)" = one ]
}
