#!/usr/bin/env bats
# Many clients at once: slow ones, idle ones, ones with large answers.
load daemon

setup() { readers=(); }
teardown() {
    [ ${#readers[@]} -eq 0 ] || kill "${readers[@]}" 2>/dev/null || true
    daemon_stop
}

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

# Sanitizers have a heap of their own.
memory_is_the_heaps() { ! grep -aq __asan_init "$SEQD" && ! grep -aq __tsan_init "$SEQD"; }

megabytes() { awk '$1 == "VmRSS:" { print int($2 / 1024) }' "/proc/$daemon_pid/status"; }

told() { cat "$BATS_TEST_TMPDIR"/headers.* 2>/dev/null | grep -c "^HTTP/1.1 $1"; } # STATUS

@test "clients that do not take their answers hold no more memory than is allowed" {
    daemon_start --model tests/kit/vanilla_nopos --limits.answers_bytes 100MiB
    # 35 MB each.
    jq -nc '{input_ids: [range(600) | . % 40 + 5], output_attentions: true}' \
        >"$BATS_TEST_TMPDIR/body"
    local i memory taken
    for i in $(seq 16); do
        curl -s -m 60 --limit-rate 1K -o /dev/null -D "$BATS_TEST_TMPDIR/headers.$i" \
            -H 'Content-Type: application/json' --data-binary "@$BATS_TEST_TMPDIR/body" \
            "$url/v1/encode" 3>&- &
        readers+=($!)
    done
    await 30 eval '[ $(($(told 200) + $(told 429))) = 16 ]'
    memory=$(megabytes)
    taken=$(told 200)
    refused 429 queue_full - /v1/encode "@$BATS_TEST_TMPDIR/body"
    holds '.error.message | contains("limits.answers_bytes is 104857600")'
    ok /v1/encode '{"input_ids":[[5,6,3]],"pooling":"mean"}'
    kill "${readers[@]}"
    readers=()
    [ "$taken" -ge 2 ] && [ "$taken" -le 5 ] || fail "$taken were answered"
    ! memory_is_the_heaps || [ "$memory" -lt 180 ] || fail "$memory MB"
    await 5 eval '[ "$(curl -s -o /dev/null -w "%{http_code}" -H "Content-Type: application/json" \
        --data-binary "@$BATS_TEST_TMPDIR/body" "$url/v1/encode")" = 200 ]'
}

@test "an answer that is taken too slowly is cut at its deadline, and its room comes back" {
    daemon_start --model tests/kit/vanilla_nopos --limits.response_bytes 40MiB \
        --limits.answers_bytes 40MiB --limits.request_timeout_ms 6000 --server.idle_timeout_ms 1000
    jq -nc '{input_ids: [range(600) | . % 40 + 5], output_attentions: true}' \
        >"$BATS_TEST_TMPDIR/body"
    # The rate is also that of the body.
    curl -s -m 60 --limit-rate 10K -o /dev/null -D "$BATS_TEST_TMPDIR/headers.1" \
        -H 'Content-Type: application/json' --data-binary "@$BATS_TEST_TMPDIR/body" \
        "$url/v1/encode" 3>&- &
    readers=($!)
    await 10 eval '[ "$(told 200)" = 1 ]'
    refused 429 queue_full - /v1/encode "@$BATS_TEST_TMPDIR/body"
    await 20 eval 'ask /v1/encode "@$BATS_TEST_TMPDIR/body" && [ "$status" = 200 ]'
    kill -0 "${readers[0]}"
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
