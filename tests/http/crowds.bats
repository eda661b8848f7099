#!/usr/bin/env bats
# Many clients at once: slow ones, idle ones, ones with large answers.
load daemon

teardown() { daemon_stop; }

# They are written one after another, and the last waits longer than the idle timeout.
@test "answers that wait for the writing of others are not taken for idle connections" {
    daemon_start --model tests/kit/vanilla_nopos --server.threads 1 --server.idle_timeout_ms 1000 \
        --limits.response_bytes 1GiB
    jq -nc '{input_ids: [range(600) | . % 40 + 5], output_attentions: true}' \
        >"$BATS_TEST_TMPDIR/body"
    # Broken off in the middle, an answer is 200 too, but not for curl.
    seq 8 | xargs -P 8 -I '{}' curl -s -m 60 -o /dev/null -w '%{http_code} %{exitcode}\n' \
        -H 'Content-Type: application/json' --data-binary "@$BATS_TEST_TMPDIR/body" \
        "$url/v1/encode" >"$BATS_TEST_TMPDIR/codes" || true
    [ "$(sort "$BATS_TEST_TMPDIR/codes" | uniq -c | xargs)" = '8 200 0' ]
}

@test "while a large answer is written, others are answered" {
    daemon_start --model tests/kit/vanilla_nopos --server.threads 1 --limits.response_bytes 1GiB
    jq -nc '{input_ids: [range(1500) | . % 40 + 5], output_attentions: true}' \
        >"$BATS_TEST_TMPDIR/body"
    curl -s -m 60 -o "$BATS_TEST_TMPDIR/answer" -w '%{http_code} %{time_starttransfer}' \
        -H 'Content-Type: application/json' --data-binary "@$BATS_TEST_TMPDIR/body" \
        "$url/v1/encode" >"$BATS_TEST_TMPDIR/code" 3>&- &
    local longest=0 took code whole
    until [ -s "$BATS_TEST_TMPDIR/code" ]; do
        took=$(curl -s -m 60 -o /dev/null -w '%{time_total}' "$url/livez")
        longest=$(awk -v a="$longest" -v b="$took" 'BEGIN { print (a > b ? a : b) }')
    done
    wait $!
    read -r code whole <"$BATS_TEST_TMPDIR/code" || [ "$code" = 200 ]
    # Most of the time until its first byte is the writing.
    awk -v longest="$longest" -v whole="$whole" 'BEGIN { exit !(longest < whole / 3) }' ||
        fail "a probe took $longest s of $whole"
}

@test "a kept connection is closed once it was idle for its time, also after an answer" {
    daemon_start --model tests/kit/vanilla_nopos --server.idle_timeout_ms 1000
    local fd body='{"input_ids":[[5,6,3]],"pooling":"mean"}' before
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
    for i in 1 2; do
        printf 'POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' \
            ${#body} "$body" >&"$fd"
    done
    before=$EPOCHREALTIME
    timeout 20 cat <&"$fd" >"$BATS_TEST_TMPDIR/answers"
    exec {fd}>&-
    awk -v from="$before" -v to="$EPOCHREALTIME" \
        'BEGIN { exit !(to - from > 0.9 && to - from < 8) }'
    [ "$(grep -c 'HTTP/1.1 200' "$BATS_TEST_TMPDIR/answers")" = 2 ]
}
