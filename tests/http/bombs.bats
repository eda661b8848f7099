#!/usr/bin/env bats
# Bodies that are made to take more memory or time than they look: refused, within a bound, and the
# memory is given back.
load daemon

# All connections share one thread.
setup_file() { daemon_start --model models/g2p --server.threads 1; }
teardown_file() { daemon_stop; }

teardown() { ok /v1/generate '{"inputs":"hello"}'; }

# Makes a body of 8 MiB less some bytes: START, then UNIT again and again, then END.
build() { # START UNIT END
    awk -v start="$1" -v unit="$2" -v end="$3" 'BEGIN {
        for (all = unit; length(all) < 65536; ) all = all all
        printf "%s", start
        for (i = int((8388608 - 1000) / length(all)); i > 0; i--) printf "%s", all
        printf "%s", end
    }' >"$BATS_TEST_TMPDIR/bomb"
}

bomb() { # START UNIT END
    build "$@"
    echo 5 >"/proc/$daemon_pid/clear_refs" # the peak from now on
    ask /v1/generate "@$BATS_TEST_TMPDIR/bomb"
}

megabytes() { # FIELD: of the daemon's status
    awk -v field="$1:" '$1 == field { print int($2 / 1024) }' "/proc/$daemon_pid/status"
}

# Sanitizers have a heap of their own.
memory_is_the_heaps() { ! grep -aq __asan_init "$SEQD" && ! grep -aq __tsan_init "$SEQD"; }

# The last bomb was refused by STATUS and took no more than 48 bytes for each of its own.
harmless() { # STATUS
    [ "$status" = "$1" ] || fail "$status: ${answer:0:300}"
    memory_is_the_heaps || return 0
    [ "$(megabytes VmHWM)" -lt 420 ] || fail "took $(megabytes VmHWM) MB"
    await 5 memory_is_back
}

memory_is_back() { [ "$(megabytes VmRSS)" -lt 100 ]; }

@test "nesting without end" {
    bomb '' '[' '' && harmless 400
    bomb '' '{"":' '' && harmless 400
}

@test "empty values, which take most for their size" {
    for unit in '{},' '[[[[]]]],'; do
        bomb '{"input_ids":[' "$unit" '5]}' && harmless 400
        holds '.error.message | contains("its JSON takes more than")'
    done
}

@test "while a large body is read, others are answered" {
    build '{"input_ids":[[' '5,' '5]]}'
    curl -s -m 60 -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' \
        --data-binary "@$BATS_TEST_TMPDIR/bomb" "$url/v1/generate" >"$BATS_TEST_TMPDIR/code" 3>&- &
    local probes=0
    until [ -s "$BATS_TEST_TMPDIR/code" ]; do
        [ "$(status /livez)" = 200 ]
        probes=$((probes + 1))
    done
    wait $!
    [ "$(<"$BATS_TEST_TMPDIR/code")" = 413 ]
    # Some come before its last byte.
    [ "$probes" -ge 10 ] || fail "$probes probes were answered"
}

@test "numbers, texts and words" {
    bomb '{"input_ids":[[' '5,' '5]]}' && harmless 413
    bomb '{"inputs":[' '"",' '""]}' && harmless 413
    bomb '{"input_ids":[[5]],"parameters":{"bad_words_ids":[' '[5],' '[5]]}}' && harmless 400
}

@test "one string, one name, and one name again and again" {
    bomb '{"inputs":"' '\\u00e9' '"}' && harmless 413
    bomb '{"' 'a' '":1}' && harmless 400
    [ ${#answer} -lt 1000 ]
    bomb '{"a":0' ',"a":0' '}' && harmless 400
    holds '.error.message | contains("duplicate")'
}

@test "the longest lists that are allowed are read" {
    jq -nc '{inputs: "a", parameters: {bad_words_ids: [range(262144) | [. % 20 + 10]]}}' \
        >"$BATS_TEST_TMPDIR/words"
    ok /v1/generate "@$BATS_TEST_TMPDIR/words"
}
