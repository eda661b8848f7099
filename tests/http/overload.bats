#!/usr/bin/env bats
# More work than there is room or time for: 429, 504, partial answers, clients that leave.
load daemon

setup_file() {
    daemon_start --model tests/kit/vanilla_nopos --engine.workers 1 --engine.batch_sequences 16 \
        --limits.return_sequences 16 --limits.sequences 40 --limits.queue_sequences 40 \
        --limits.request_timeout_ms 30000
}
teardown_file() { daemon_stop; }

setup() { slow=; }
teardown() {
    [ -z "$slow" ] || kill "$slow" || true
    await 10 is_idle
}

is_idle() {
    [ "$(metric 'seqd_queue_sequences{model="vanilla_nopos"}')" = 0 ] &&
        [ "$(metric 'seqd_active_sequences{model="vanilla_nopos"}')" = 0 ]
}

is_full() {
    local waiting
    waiting=$(metric 'seqd_queue_sequences{model="vanilla_nopos"}')
    [ "${waiting:-0}" -ge 38 ]
}

# Fills the queue for some seconds; setting slow, the client's pid.
fill_queue() {
    slow_request 40 >"$BATS_TEST_TMPDIR/slow"
    curl -s -m 60 -o /dev/null -H 'Content-Type: application/json' \
        --data-binary "@$BATS_TEST_TMPDIR/slow" "$url/v1/generate" 3>&- &
    slow=$!
    await 10 is_full
}

@test "a full queue is 429 at once, says when to come again, and recovers" {
    fill_queue
    local rejected='seqd_requests_rejected_total{model="vanilla_nopos",reason="queue_full"}'
    local before
    before=$(metric "$rejected")
    refused 429 queue_full - /v1/generate "$(slow_request 10)" --max-time 1
    [ "$(header retry-after)" -ge 1 ]
    [ "$(metric "$rejected")" -eq $((${before:-0} + 1)) ]
    [ "$(status /readyz)" = 200 ]
    kill "$slow"
    slow=
    await 10 is_idle
    ok /v1/generate "$(slow_request 1 9)"
}

@test "a flood is refused at once, takes no memory and is forgotten" {
    fill_queue
    local work=$BATS_TEST_TMPDIR before
    before=$(metric process_resident_memory_bytes)
    jq -nc '{input_ids: [range(30) | [5,6,3]], pooling: "mean"}' >"$work/body"
    seq 200 | xargs -P 16 -I '{}' curl -s -m 20 -o /dev/null -w '%{http_code} %{time_total}\n' \
        -H 'Content-Type: application/json' --data-binary "@$work/body" "$url/v1/encode" \
        >"$work/codes"
    awk '$1 == 429 && $2 < 1 { prompt++ } $1 != 429 && $1 != 200 { bad++ }
        END { exit !(NR == 200 && prompt >= 100 && !bad) }' "$work/codes"
    [ "$(metric process_resident_memory_bytes)" -lt $((before + 30000000)) ]
    kill "$slow"
    slow=
    await 10 is_idle
    ok /v1/encode "@$work/body"
}

@test "a deadline is 504, not to be repeated, and frees its place" {
    refused 504 deadline_exceeded - /v1/generate \
        "$(slow_request 20 | jq -c '.timeout_ms = 150')"
    [ "$(header x-should-retry)" = false ]
    await 10 is_idle
    [ "$(metric 'seqd_requests_cancelled_total{model="vanilla_nopos",reason="deadline"}')" -ge 1 ]
}

# The tests before taught the daemon a pace of milliseconds a row, by which the whole queue would
# be answered in some tenths of a second: the deadline must lie well beyond that to be let in.
@test "a deadline that passes in the queue is 504 too" {
    fill_queue
    refused 504 deadline_exceeded - /v1/generate "$(slow_request 1 | jq -c '.timeout_ms = 1500')" \
        --max-time 5
}

@test "a partial answer is 200 with what there is" {
    ok /v1/generate "$(slow_request 20 | jq -c '.timeout_ms = 400 | .partial = true |
        .parameters.num_beams = 1 | .parameters.logprobs = 0 |
        .parameters.do_sample = true | .parameters.num_return_sequences = 16')"
    holds '.outputs | length == 20 and all(.sequences | length == 0 or length == 16)'
    holds '[.outputs[].sequences[] | select(.finish_reason == "timeout")] | length > 0 and
        all(.token_ids | length < 4000)'
    holds '[.outputs[].sequences[] | (.token_ids | length) == (.token_logprobs | length)] | all'
}

@test "a partial answer in time is whole" {
    ok /v1/generate '{"input_ids":[[5,6,7,3]],"partial":true,"timeout_ms":20000}'
    local whole
    whole=$(value .outputs)
    ok /v1/generate '{"input_ids":[[5,6,7,3]]}'
    [ "$(value .outputs)" = "$whole" ]
}

@test "partial beams are the best so far" {
    ok /v1/generate "$(slow_request 20 | jq -c '.timeout_ms = 400 | .partial = true')"
    holds '[.outputs[].sequences[].finish_reason] | index("timeout") != null'
}

@test "the rows of a client that left stop" {
    local gone='seqd_requests_cancelled_total{model="vanilla_nopos",reason="client_gone"}'
    local before
    before=$(metric "$gone")
    fill_queue
    kill "$slow"
    slow=
    await 5 is_idle
    [ "$(metric "$gone")" -eq $((before + 1)) ]
}

@test "100 clients that close before their answer hurt nobody" {
    for i in $(seq 100); do
        exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
        printf 'POST /v1/generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\n%s' \
            '{"input_ids":[[5,6,7,3]]}' >&"$fd"
        exec {fd}>&-
    done
    await 10 is_idle
    ok /v1/generate '{"input_ids":[[5,6,7,3]]}'
}

@test "a short request is served beside long ones" {
    fill_queue
    local before=$SECONDS
    ok /v1/encode '{"input_ids":[[5,6,3]],"pooling":"mean"}'
    [ $((SECONDS - before)) -lt 10 ]
}
