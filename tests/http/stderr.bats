#!/usr/bin/env bats
# The log where nobody reads it, where it cannot be written, and where there is no place for it.
load daemon

teardown() {
    [ -z "${pid-}" ] || kill -KILL "$pid" 2>/dev/null || true
}

# Sets pid; what stderr is, the caller says behind it.
begin() { # OPTION...
    "$SEQD" --listen 127.0.0.1:0 --model m=tests/kit/vanilla_post "$@" </dev/null >/dev/null 3>&- &
    pid=$!
}

# Sets url, from the lines that can be read here.
read_url() { # FD
    local line
    while read -r -t 30 line <&"$1"; do
        if [[ $line == *'"message": "ready"'* ]]; then
            url=http://127.0.0.1:$(jq .port <<<"$line")
            return
        fi
    done
    fail 'never ready'
}

ends_well() {
    local code=0
    kill -TERM "$pid"
    await 10 eval '! [ -e /proc/$pid ] || grep -q "^State:.*Z" /proc/$pid/status'
    wait "$pid" || code=$?
    pid=
    [ "$code" = 0 ] || fail "exit code $code"
}

@test "a reader of the log that has stopped stops nothing, and what it missed is counted" {
    local fifo long url
    mkfifo "$BATS_TEST_TMPDIR/log"
    exec {fifo}<>"$BATS_TEST_TMPDIR/log"
    begin 2>&"$fifo"
    read_url "$fifo"
    long=$(printf '%250s' '' | tr ' ' x)
    for _ in {1..20}; do # 400 lines of 500 bytes; a pipe has 64 KiB
        curl -s -m 5 -o /dev/null "$url/$long/[1-20]" || fail 'no answer'
    done
    [ "$(status /livez -m 5)" = 200 ]
    [ "$(metric seqd_log_lines_dropped_total)" -gt 100 ]
    ends_well
    exec {fifo}>&-
}

@test "lines that a full disk does not take are counted" {
    local url
    [ -c /dev/full ] || skip 'there is no /dev/full'
    begin --log.level debug 2>/dev/full
    await 30 listens
    await 30 eval '[ "$(status /readyz)" = 200 ]'
    [ "$(metric seqd_log_lines_dropped_total)" -gt 1 ]
    ends_well
}

# Sets url once the daemon has a socket in the state of those that listen (0A).
listens() {
    local sockets port
    sockets=$(find "/proc/$pid/fd" -lname 'socket:*' -printf '%l ' 2>/dev/null)
    port=$(awk -v sockets="$sockets" '$4 == "0A" && index(sockets, "[" $10 "]") {
        sub(/.*:/, "", $2); print $2 }' /proc/net/tcp)
    [ -n "$port" ] && url=http://127.0.0.1:$((16#$port))
}

@test "what is closed of stdin, stdout and stderr is not given to a socket" {
    local url fd
    "$SEQD" --listen 127.0.0.1:0 --model m=tests/kit/vanilla_post <&- >&- 2>&- 3>&- &
    pid=$!
    await 30 listens
    await 30 eval '[ "$(status /readyz)" = 200 ]'
    for fd in 0 1 2; do
        [ "$(readlink "/proc/$pid/fd/$fd")" = /dev/null ] || fail "$fd: $(ls -l "/proc/$pid/fd")"
    done
    ends_well
}
