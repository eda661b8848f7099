#!/usr/bin/env bats
# What breaks beneath the daemon: files, threads, disks, memory.  It says so, and never answers
# wrongly.
bats_require_minimum_version 1.5.0
load daemon

setup() { others=(); }
teardown() {
    [ ${#others[@]} -eq 0 ] || kill "${others[@]}" 2>/dev/null || true
    daemon_stop
}

copy() { # FOLDER: a copy of a model that may be broken
    cp -rL "tests/kit/$1" "$BATS_TEST_TMPDIR/$1"
}

is_gone() { [ -e "$daemon_dir/exit" ]; }

ends_naming() { # PATTERN: with 1, and this in its last words
    await 10 is_gone
    daemon_pid=
    [ "$(<"$daemon_dir/exit")" = 1 ] || fail "exit code $(<"$daemon_dir/exit")"
    tail -n 1 "$daemon_dir/log" | jq -re 'select(.level == "error") | .message' | grep "$1"
}

@test "a model file that becomes shorter while it is served ends the process, which names it" {
    copy bart
    daemon_start --model "$BATS_TEST_TMPDIR/bart"
    truncate -s 4096 "$BATS_TEST_TMPDIR/bart/model.safetensors"
    ask /v1/encode '{"input_ids":[[5,6,2]],"pooling":"mean"}'
    [ "$status" = 000 ]
    ends_naming 'bart/model.safetensors became shorter'
}

@test "nor is the zeroed rest of its last page taken for weights" {
    copy bart
    daemon_start --model "$BATS_TEST_TMPDIR/bart"
    truncate -s -4 "$BATS_TEST_TMPDIR/bart/model.safetensors"
    ask /v1/encode '{"input_ids":[[5,6,2]],"pooling":"mean"}'
    [ "$status" = 000 ]
    ends_naming 'bart/model.safetensors became shorter'
}

has_given_up() {
    log_lines 'select(.level == "error") | .message' | grep 'worker 0 has made no progress'
}

@test "a worker that hangs ends the process, one that is stopped with all others does not" {
    "${CC:-cc}" -o "$BATS_TEST_TMPDIR/stop_thread" tests/http/stop_thread.c
    daemon_start --model tests/kit/vanilla_nopos --engine.workers 1 --engine.threads 1 \
        --engine.batch_sequences 16 --engine.watchdog_ms 1000 --limits.return_sequences 16
    slow_request 60 >"$BATS_TEST_TMPDIR/request"
    curl -s -m 60 -o /dev/null -H 'Content-Type: application/json' \
        --data-binary "@$BATS_TEST_TMPDIR/request" "$url/v1/generate" 3>&- &
    others+=($!)
    await 10 eval '[ "$(metric "seqd_active_sequences{model=\"vanilla_nopos\"}")" -gt 0 ]'
    kill -STOP "$daemon_pid"
    sleep 2
    kill -CONT "$daemon_pid"
    sleep 0.5
    [ "$(status /livez)" = 200 ]
    local thread
    for thread in /proc/"$daemon_pid"/task/*; do
        [ "$(<"$thread/comm")" != 'worker 0' ] || break
    done
    "$BATS_TEST_TMPDIR/stop_thread" "${thread##*/}" >"$BATS_TEST_TMPDIR/stopped" \
        2>"$BATS_TEST_TMPDIR/why" 3>&- &
    others+=($!)
    await 3 test -s "$BATS_TEST_TMPDIR/stopped" ||
        skip "a thread cannot be stopped here: $(<"$BATS_TEST_TMPDIR/why")"
    # Where it stopped between two steps it would not be missed.
    await 5 has_given_up
    kill "${others[-1]}" # who is traced does not go
    await 5 is_gone
    daemon_pid=
    [ "$(<"$daemon_dir/exit")" = 134 ]
}

@test "a full disk under the log costs lines, not answers" {
    [ -w /dev/full ] || skip 'no /dev/full here'
    "$SEQD" --listen 127.0.0.1:0 --model tests/kit/bart 2>/dev/full 3>&- &
    others+=($!)
    local pid=$! port
    port_of() {
        port=$(ss -Hltnp 2>/dev/null | sed -n "s/.*127\.0\.0\.1:\([0-9]*\) .*pid=$pid,.*/\1/p")
        [ -n "$port" ]
    }
    command -v ss >/dev/null || skip 'no ss here'
    await 10 port_of
    url=http://127.0.0.1:$port
    await 10 eval '[ "$(status /readyz)" = 200 ]'
    ok /v1/encode '{"input_ids":[[5,6,2]],"pooling":"mean"}'
    kill -TERM $pid
    wait $pid
    others=()
}

@test "a port in use is an error that names it, and the exit code is 1" {
    daemon_start --model tests/kit/bart
    run -1 --separate-stderr "$SEQD" --model tests/kit/bart --listen "127.0.0.1:${url##*:}"
    jq -e 'select(.level == "error") | .message | contains("in use")' <<<"${stderr_lines[-1]}"
}

# Whatever room it is given it serves rightly, or says that there is no memory; it never hangs or
# crashes.
@test "with little address space it starts and answers, or says why not" {
    [[ $SEQD == */release/* ]] || skip 'sanitizers reserve address space'
    daemon_start --model tests/kit/bart
    encode bart '[[5,6,2]]'
    local right=$answer started=0 refused=0 kib
    daemon_stop
    for kib in 50000 100000 150000 200000 300000 400000 600000 800000 1200000 1600000 2400000; do
        rm -f "$daemon_dir"/{exit,log}
        (
            ulimit -v "$kib"
            "$SEQD" --listen 127.0.0.1:0 --model tests/kit/bart >"$daemon_dir/log" 2>&1 </dev/null &
            echo $! >"$daemon_dir/pid"
            code=0
            wait $! || code=$?
            echo $code >"$daemon_dir/exit"
        ) 3>&- &
        await 20 eval 'daemon_is_ready_or_gone 2>/dev/null'
        if [ ! -e "$daemon_dir/exit" ]; then
            daemon_pid=$(<"$daemon_dir/pid")
            url=http://127.0.0.1:$(log_lines 'select(.message == "ready") | .port')
            ask /v1/encode '{"model":"bart","input_ids":[[5,6,2]]}'
            case $status in
            200) [ "$answer" = "$right" ] && started=$((started + 1)) ;;
            *) [ "$status" = 503 ] || [ "$status" = 000 ] ;;
            esac
            daemon_stop
        else
            refused=$((refused + 1))
            case $(<"$daemon_dir/exit") in
            1 | 127) ;;
            *) fail "$(tail -n 3 "$daemon_dir/log")" ;;
            esac
        fi
    done
    [ $started -ge 1 ] && [ $refused -ge 1 ]
}
