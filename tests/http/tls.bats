#!/usr/bin/env bats
# TLS: everything as without it, and what it adds that can go wrong.
bats_require_minimum_version 1.5.0
load daemon
load tls

setup() {
    others=()
    at=$BATS_TEST_TMPDIR
    body='{"input_ids":[[5,6,7,2],[8,2]],"pooling":"mean"}'
    certificate one
}
teardown() {
    touch "$at/enough"
    [ ${#others[@]} -eq 0 ] || kill "${others[@]}" 2>/dev/null || true
    daemon_stop
}

start() { # MODEL [OPTION...]
    local model=$1
    shift
    daemon_start --model "tests/kit/$model" --server.tls_certificate "$at/one.crt" \
        --server.tls_key "$at/one.key" "$@"
}

# What is in the log above info, in one line.
complaints() { log_lines 'select(.level == "warning" or .level == "error") | .message'; }

connections() { metric seqd_http_connections; }

@test "a client that believes the issuer is served, by TLS 1.3 and 1.2" {
    start bart
    [[ $url == https://* ]]
    ok /v1/encode "$body"
    local answer_13=$answer
    ok /v1/encode "$body" --tls-max 1.2
    [ "$answer" = "$answer_13" ]
    ok /v1/models
    CURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt run -60 curl -s "$url/readyz"
    [ -z "$(complaints)" ]
}

handshake() { # OPENSSL_OPTION...: what was agreed on
    openssl s_client -connect "${url#https://}" "$@" </dev/null 2>/dev/null |
        sed -n 's/^New, \(TLSv[0-9.]*\), Cipher is \(.*\)$/\1 \2/p'
}

@test "old versions, ciphers without authentication and keys without forward secrecy are refused" {
    start bart
    local old=ALL:@SECLEVEL=0
    [[ $(handshake) == 'TLSv1.3 '* ]]
    [[ $(handshake -tls1_2) == 'TLSv1.2 ECDHE-'* ]]
    [ -z "$(handshake -tls1_1 -cipher $old)" ]
    [ -z "$(handshake -tls1 -cipher $old)" ]
    local cipher
    for cipher in ECDHE-ECDSA-AES128-SHA ECDHE-ECDSA-AES256-SHA384; do
        [ -z "$(handshake -tls1_2 -cipher "$cipher:@SECLEVEL=0")" ]
    done
    [ -z "$(complaints)" ]
}

@test "plain HTTP, noise, resets and bad handshakes are no errors, and leave no connection" {
    start bart
    local port=${url##*:} i
    for i in 1 2 3 4 5; do
        [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/readyz")" = 000 ]
        raw '\001\002\003\004 noise that is no handshake at all'
        raw ''
        openssl s_client -connect "127.0.0.1:$port" -alpn h2 </dev/null >/dev/null 2>&1 || true
        # A process that ends with unread bytes resets its connection.
        timeout -s KILL 0.2 openssl s_client -connect "127.0.0.1:$port" </dev/zero \
            >/dev/null 2>&1 || true
    done
    await 5 eval '[ "$(connections)" -le 1 ]'
    ok /v1/encode "$body"
    [ -z "$(complaints)" ]
}

refuses() { # CERTIFICATE KEY EXIT_CODE PATTERN: at the start and by check
    local command
    for command in '' check; do
        run "-$3" --separate-stderr "$SEQD" $command --model tests/kit/bart --listen 127.0.0.1:0 \
            --server.tls_certificate "$1" --server.tls_key "$2"
        jq -e --arg pattern "$4" 'select(.level == "error") | .message | test($pattern)' \
            <<<"${stderr_lines[-1]}" || fail "$stderr"
    done
}

@test "files that are missing, are no certificate, or do not match are named, also by check" {
    certificate two
    echo 'no PEM' >"$at/text"
    openssl ec -in "$at/one.key" -aes128 -passout pass:secret -out "$at/locked.key" 2>/dev/null
    refuses "$at/nowhere" "$at/one.key" 1 'nowhere: No such file'
    refuses "$at/one.crt" "$at/nowhere" 1 'nowhere: No such file'
    refuses "$at" "$at/one.key" 1 "^$at: "
    refuses "$at/text" "$at/one.key" 1 'text: '
    refuses "$at/one.crt" "$at/text" 1 'text: '
    refuses "$at/one.key" "$at/one.key" 1 'one.key: '
    refuses "$at/one.crt" "$at/locked.key" 1 'locked.key: '
    refuses "$at/one.crt" "$at/two.key" 1 'two.key is not the key of the certificate .*one.crt'
    refuses "$at/one.crt" '' 2 'server.tls_key is missing'
    refuses '' "$at/one.key" 2 'server.tls_certificate is missing'
    run -0 "$SEQD" check --model tests/kit/bart --server.tls_certificate "$at/one.crt" \
        --server.tls_key "$at/one.key"
    [[ $output == *' with TLS'* ]]
}

@test "a certificate that is no longer valid is served with a warning" {
    certificate one 0
    sleep 1.1
    daemon_start_insecure() { export CURL_HOME=$at; echo insecure >"$at/.curlrc"; start bart; }
    daemon_start_insecure
    complaints | grep 'one.crt: the certificate is no longer valid'
}

@test "a chain of issuers is shown whole" {
    cat "$at/one.crt" "$at/issuer.crt" >"$at/chain.crt"
    mv "$at/chain.crt" "$at/one.crt"
    start bart
    [ "$(openssl s_client -connect "${url#https://}" -showcerts </dev/null 2>/dev/null |
        grep -c 'BEGIN CERTIFICATE')" = 2 ]
}

# A body of many records, in both directions, on one connection; and two requests in one record.
@test "large bodies, kept connections and pipelined requests" {
    start bart
    jq -nc '{input_ids: [range(1000) | [range(20) | 5 + .] + [2]]}' >"$at/large"
    ok /v1/encode "@$at/large"
    holds '.data | length == 1000 and all(.embedding | length == 21)'
    local json='Content-Type: application/json'
    curl -sv -m 60 -H "$json" -d "@$at/large" -o "$at/a" "$url/v1/encode" \
        --next -s -m 60 -H "$json" -d "$body" -o "$at/b" "$url/v1/encode" \
        --next -s -m 60 -o "$at/c" "$url/readyz" 2>"$at/talk"
    [ "$(grep -c 'SSL connection using' "$at/talk")" = 1 ]
    jq -e '.data | length == 1000' "$at/a" || fail "$(head -c 300 "$at/a")"
    jq -e '.data | length == 2' "$at/b"
    local one="POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${#body}\r\n\r\n$body"
    local last="GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    printf "$one$one$one$last" |
        timeout 20 openssl s_client -quiet -connect "${url#https://}" >"$at/piped" 2>/dev/null
    [ "$(grep -o 'HTTP/1.1 200' "$at/piped" | wc -l)" = 4 ]
}

@test "a refusal reaches a client that is still sending" {
    start bart --limits.body_bytes 4096
    head -c 3000000 /dev/zero | tr '\0' ' ' >"$at/long"
    refused 413 over_limit - /v1/encode "@$at/long"
    truncate -s 15000 "$at/long"
    refused 413 over_limit - /v1/encode "@$at/long" -H 'Transfer-Encoding: chunked'
}

# Whether one of the library's threads runs, or would if it were let.
is_busy() { cat "/proc/$daemon_pid"/task/*/stat | grep -q '(MHD[^)]*) R'; }

# A thread that spins is always found running, however many others the machine has.
@test "a handshake that does not go on is cut at the deadline of a request, and costs no time" {
    start bart --limits.request_timeout_ms 5000
    local port=${url##*:} i busy=0 fd
    for i in 1 2 3 4; do
        (
            exec {fd}<>"/dev/tcp/127.0.0.1/$port"
            [ "$i" = 1 ] || printf '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03half' >&"$fd"
            timeout 10 cat <&"$fd" >/dev/null
            echo cut >"$at/cut.$i"
        ) 3>&- &
        others+=($!)
    done
    await 3 eval '[ "$(connections)" -ge 5 ]'
    ok /v1/encode "$body"
    for i in {1..10}; do
        if is_busy; then busy=$((busy + 1)); fi
        sleep 0.02
    done
    [ "$busy" -le 5 ] || fail "busy $busy times of 10"
    [ -z "$(ls "$at" | grep '^cut')" ]
    await 8 eval '[ "$(cat "$at"/cut.* | wc -l)" = 4 ]'
    await 3 eval '[ "$(connections)" -le 1 ]'
    [ -z "$(complaints)" ]
}

@test "an idle connection is closed after its time, with a word" {
    start bart --server.idle_timeout_ms 1000
    local began=$SECONDS
    (printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n'; exec sleep 10) |
        timeout 9 openssl s_client -quiet -no_ign_eof -connect "${url#https://}" >"$at/idle" \
            2>"$at/why" || true
    grep -q '^HTTP/1.1 200' "$at/idle"
    [ "$(grep -c 'unexpected eof' "$at/why")" = 0 ]
    await 5 eval '[ "$(connections)" -le 1 ]'
}

@test "a client that leaves is cancelled, running or waiting" {
    start vanilla_nopos --engine.workers 1 --engine.batch_sequences 16 --limits.return_sequences 16
    local gone='seqd_requests_cancelled_total{model="vanilla_nopos",reason="client_gone"}' i
    slow_request 4 >"$at/request"
    for i in 1 2 3; do
        curl -s -m 60 -o /dev/null -H 'Content-Type: application/json' \
            --data-binary "@$at/request" "$url/v1/generate" 3>&- &
        others+=($!)
    done
    await 10 eval '[ "$(metric "seqd_active_sequences{model=\"vanilla_nopos\"}")" -gt 0 ]'
    await 10 eval '[ "$(metric "seqd_queue_sequences{model=\"vanilla_nopos\"}")" -ge 8 ]'
    kill -KILL "${others[@]}"
    others=()
    await 3 eval "[ \"\$(metric '$gone')\" = 3 ]"
    await 3 eval '[ "$(connections)" -le 1 ]'
    [ -z "$(complaints)" ]
}

@test "SIGTERM: accepted requests are answered, half a handshake and idle clients delay nothing" {
    start vanilla_nopos --engine.workers 1 --engine.batch_sequences 16 --limits.return_sequences 16
    local port=${url##*:} fd idle
    slow_request 4 300 >"$at/request"
    exec {fd}<>"/dev/tcp/127.0.0.1/$port"
    printf '\x16\x03\x01\x02\x00\x01' >&"$fd"
    sleep 20 | openssl s_client -quiet -connect "127.0.0.1:$port" >/dev/null 2>&1 3>&- &
    others+=($!)
    curl -s -m 60 -o "$at/slow" -w '%{http_code}' -H 'Content-Type: application/json' \
        --data-binary "@$at/request" "$url/v1/generate" >"$at/code" 3>&- &
    local client=$!
    await 10 eval '[ "$(metric "seqd_active_sequences{model=\"vanilla_nopos\"}")" -gt 0 ]'
    kill -TERM "$daemon_pid"
    wait "$client"
    [ "$(<"$at/code")" = 200 ]
    local before=$SECONDS
    daemon_ends 0
    [ $((SECONDS - before)) -le 2 ]
    exec {fd}>&-
}
