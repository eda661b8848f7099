#!/usr/bin/env bats
# What a container forbids is not missed: no capability, no call about NUMA, no madvise.
load daemon

setup_file() {
    "${CC:-cc}" -o "$BATS_FILE_TMPDIR/refuse_calls" tests/http/refuse_calls.c
}
teardown() { daemon_stop; }

# Makes $SEQD one that runs under the words of a command.
under() { # COMMAND...
    local real=$SEQD
    SEQD=$BATS_TEST_TMPDIR/seqd
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$*" "$real" >"$SEQD"
    chmod +x "$SEQD"
    "$SEQD" --version >/dev/null
}

# What the bundled model answers, from the folder as it is or from a packed copy.  One word at a
# time, since OpenBLAS gives a row other bits in another batch.
answers() { # DAEMON_OPTION...
    local word
    daemon_start --model models/g2p --log.level debug --engine.threads 4 --engine.workers 2 "$@"
    for word in hello strength; do
        ok /v1/generate "{\"inputs\":\"$word\",\"parameters\":{\"num_beams\":3,\"logprobs\":1}}"
        value 'del(.timing)'
        ok /v1/encode "{\"inputs\":\"$word\",\"pooling\":\"none\",\"encoding_format\":\"base64\"}"
        value .data
    done
    daemon_stop
}

# In rows, packed, and with the library that would know of NUMA.
all_answers() { # DIRECTORY: for answers and logs
    local how options
    mkdir -p "$1"
    for how in rows packed openblas; do
        case $how in
        rows) options=() ;;
        packed) options=(--engine.cache_dir "$1/cache") ;;
        openblas) options=(--engine.gemm openblas) ;;
        esac
        answers "${options[@]}" >"$1/$how"
        [ "$(wc -l <"$1/$how")" -eq 4 ]
        cp "$daemon_dir/log" "$1/$how.log"
    done
}

same_answers() { # DIRECTORY DIRECTORY
    local how
    for how in rows packed openblas; do cmp "$1/$how" "$2/$how"; done
}

@test "without capabilities or calls about NUMA it answers the same, and claims nothing of it" {
    local work=$BATS_TEST_TMPDIR drop=
    all_answers "$work/free"
    if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
        drop='setpriv --bounding-set=-all --inh-caps=-all --no-new-privs '
    fi
    under "$drop$BATS_FILE_TMPDIR/refuse_calls" numa || skip 'calls cannot be refused here'
    all_answers "$work/bound"
    same_answers "$work/free" "$work/bound"
    [ -s "$work/bound/rows.log" ]
    ! grep -Eih 'not permitted|numa|mempolicy|mbind' "$work/bound"/*.log
}

@test "where madvise fails it answers the same" {
    [[ $SEQD == */release/* ]] || skip 'sanitizers need madvise'
    local work=$BATS_TEST_TMPDIR
    all_answers "$work/free"
    under "$BATS_FILE_TMPDIR/refuse_calls" madvise || skip 'calls cannot be refused here'
    all_answers "$work/bound"
    same_answers "$work/free" "$work/bound"
    ! log_lines 'select(.level == "warning" or .level == "error")' | grep .
}
