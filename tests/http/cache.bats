#!/usr/bin/env bats
# engine.cache_dir: packed copies that several daemons share, and that never keep one from serving.
load daemon

setup() {
    cache=$BATS_TEST_TMPDIR/cache
    fleet=()
}
teardown() {
    local pid
    for pid in "${fleet[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    daemon_stop
}

question='{"inputs":["hello","strength"],"parameters":{"num_beams":3,"logprobs":1}}'
answer_of() { # [URL]
    local url=${1-$url}
    ok /v1/generate "$question"
    value 'del(.timing)'
}

# What the bundled model answers without a cache.
setup_file() {
    daemon_start --model models/g2p
    right=$(answer_of)
    export right
    daemon_stop
}

copies() { find "$cache" -name '*.packed' | wc -l; }
unfinished() { find "$cache" -name '.*' -type f | wc -l; }
warned() { log_lines 'select(.level == "warning") | .message'; }
maps_the_copy() { grep -q "$cache/[0-9a-f]*-[0-9]*\.packed" "/proc/$daemon_pid/maps"; }

@test "the first start makes the copy, the second maps it" {
    daemon_start --model models/g2p --engine.cache_dir "$cache"
    [ "$(copies)" -eq 1 ] && [ "$(unfinished)" -eq 0 ]
    maps_the_copy
    [ "$(answer_of)" = "$right" ]
    [ -z "$(warned)" ]
    daemon_stop
    local before
    before=$(stat -c '%i %z' "$cache"/*.packed)
    daemon_start --model models/g2p --engine.cache_dir "$cache"
    [ "$(stat -c '%i %z' "$cache"/*.packed)" = "$before" ]
    maps_the_copy
    [ "$(answer_of)" = "$right" ]
    [ "$(log_lines 'select(.message == "ready") | .seconds < 5')" = true ]
}

# Starts a daemon without waiting for it; its pid joins the fleet.
launch() { # LOG
    "$SEQD" --listen 127.0.0.1:0 --model models/g2p --engine.cache_dir "$cache" \
        >"$1" 2>&1 3>&- </dev/null &
    fleet+=($!)
}

# Kills at most 4 of the fleet while they write, by the pid in the name of what they write; their
# pids are in `killed`.
kill_writers() {
    local end=$((SECONDS + 5)) file pid
    killed=' '
    while [ "$(wc -w <<<"$killed")" -lt 4 ] && [ $SECONDS -lt $end ] && [ "$(copies)" -eq 0 ]; do
        for file in "$cache"/.*.packed.*.new; do
            pid=${file%.*.new}
            pid=${pid##*.}
            [[ " ${fleet[*]} " == *" $pid "* && $killed != *" $pid "* ]] || continue
            kill -KILL "$pid"
            killed+="$pid "
            [ "$(wc -w <<<"$killed")" -lt 4 ] || break
        done
    done
}

is_ready() { grep -q '"message": "ready"' "$1"; }

# Every one of the fleet that was not killed becomes ready and answers right.
survivors_are_right() {
    local i pid port
    for i in "${!fleet[@]}"; do
        pid=${fleet[i]}
        [[ $killed != *" $pid "* ]] || continue
        await 60 is_ready "$BATS_TEST_TMPDIR/log.$i"
        port=$(jq -r 'select(.message == "ready") | .port' "$BATS_TEST_TMPDIR/log.$i")
        [ "$(answer_of "http://127.0.0.1:$port")" = "$right" ]
        [ -z "$(grep '"level": "warning"' "$BATS_TEST_TMPDIR/log.$i")" ]
    done
}

# Of 8 daemons that find an empty cache, some are killed in the middle of writing.
kill_some_of_8() {
    local i
    fleet=()
    for i in 0 1 2 3 4 5 6 7; do launch "$BATS_TEST_TMPDIR/log.$i"; done
    kill_writers
    survivors_are_right
    for i in "${fleet[@]}"; do
        kill -KILL "$i" 2>/dev/null || true
        wait "$i" 2>/dev/null || true
    done
    fleet=()
}

@test "8 daemons with one empty cache, some killed while they write: the rest is right" {
    local round
    for ((round = 0; round < 10; round++)); do
        rm -rf "$cache"
        mkdir "$cache"
        kill_some_of_8
        [ "$killed" = ' ' ] || break
    done
    [ "$killed" != ' ' ] || fail 'nobody was caught while writing'
    echo "# killed:$killed left: $(unfinished)" >&2
    daemon_start --model models/g2p --engine.cache_dir "$cache"
    [ "$(answer_of)" = "$right" ]
    [ "$(copies)" -eq 1 ] && [ "$(unfinished)" -eq 0 ]
    maps_the_copy
    [ -z "$(warned)" ]
}

# The one warning there is.
warns_once() { # TEXT
    [ "$(warned | wc -l)" -eq 1 ] && [[ $(warned) == *"$1"* ]] || fail "warned: $(warned)"
}

@test "a cache that cannot be written is a warning, and the folder is served" {
    echo >"$BATS_TEST_TMPDIR/file"
    daemon_start --model models/g2p --engine.cache_dir "$BATS_TEST_TMPDIR/file/cache"
    [ "$(answer_of)" = "$right" ]
    warns_once "$BATS_TEST_TMPDIR/file/cache: Not a directory"
    daemon_stop
    daemon_start --model models/g2p --engine.cache_dir /proc/none
    [ "$(answer_of)" = "$right" ]
    warns_once /proc/none
}

@test "beyond the limit of a file's size a cache is a warning, and nothing is left" {
    ulimit -f 1000
    daemon_start --model models/g2p --engine.cache_dir "$cache"
    [ "$(answer_of)" = "$right" ]
    warns_once 'File too large'
    [ -z "$(ls -A "$cache")" ]
}

@test "on a full disk a cache is a warning, and nothing is left" {
    mkdir "$cache"
    unshare -rm mount -t tmpfs tmpfs "$cache" 2>/dev/null || skip 'tmpfs is not allowed here'
    printf '#!/bin/sh\nexec unshare -rm sh -c '\''mount -t tmpfs -o size=64k tmpfs "%s" &&
        exec "%s" "$@"'\'' sh "$@"\n' "$cache" "$SEQD" >"$BATS_TEST_TMPDIR/seqd"
    chmod +x "$BATS_TEST_TMPDIR/seqd"
    SEQD=$BATS_TEST_TMPDIR/seqd
    daemon_start --model models/g2p --engine.cache_dir "$cache"
    [ "$(answer_of)" = "$right" ]
    warns_once 'No space left on device'
    [ -z "$(ls -A "/proc/$daemon_pid/root/$cache")" ]
}
