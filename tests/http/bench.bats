#!/usr/bin/env bats
# seqd bench: jobs through the pipe give what the daemon answers, and the built-in workloads run.
load daemon

teardown() { daemon_stop; }

# Runs the jobs, a line each, through the pipe; sets code and lines, the first of which is the
# greeting.
pipe() { # JOBS OPTION...
    local jobs=$1
    shift
    code=0
    mapfile -t lines < <("$SEQD" bench --pipe "$@" 2>"$BATS_TEST_TMPDIR/err" 3>&- <<<"$jobs" ||
        echo "exit code $?")
}

# The expression is true of line INDEX.
line_holds() { # INDEX JQ_EXPRESSION [JQ_OPTION...]
    answer=${lines[$1]}
    holds "${@:2}"
}

@test "the greeting comes before any job" {
    pipe '' --model tests/kit/marian_f16
    [ ${#lines[@]} -eq 1 ]
    line_holds 0 '.ready_seconds > 0 and (.kernels | test("portable|avx|neon")) and
        .dtype == "float16" and .version == $version' --arg version "$(<VERSION)"
}

@test "generate gives exactly the tokens that were asked for, as the daemon does" {
    local rows='[[14,11,18,18,21,3],[14,15,3],[19,20,24,11,20,13,20,14,3]]' i=1 beams
    pipe "$(for beams in 1 4; do
        echo "{\"kind\":\"generate\",\"rows\":$rows,\"new\":9,\"beams\":$beams,\"repeat\":3,
            \"want_tokens\":true}" | tr -d '\n'
        echo
    done)" --model models/g2p
    [ ${#lines[@]} -eq 3 ]
    daemon_start --model models/g2p
    for beams in 1 4; do
        ok /v1/generate "{\"input_ids\":$rows,\"parameters\":{\"num_beams\":$beams,
            \"max_new_tokens\":9,\"min_new_tokens\":9}}"
        local right
        right=$(value '[.outputs[].sequences[0].token_ids]')
        line_holds $i '.tokens == $right and (.tokens | map(length)) == [9, 9, 9] and
            .seconds > 0 and .cpu_seconds > 0 and .rss_mb > .anonymous_mb and
            (.tokens_per_second * .seconds - 27 | fabs) < 0.1' --argjson right "$right"
        i=$((i + 1))
    done
}

@test "encode takes rows; tokens are given only when they are wanted" {
    pipe '{"kind":"encode","rows":[[5,6,7],[8,9]],"repeat":2}
{"kind":"generate","rows":[[5,6,7]],"new":3}' --model tests/kit/vanilla_post --engine.workers 2
    line_holds 1 '.seconds > 0 and (.tokens_per_second * .seconds - 5 | fabs) < 0.1'
    line_holds 2 '.seconds > 0 and (has("tokens") | not)'
}

@test "more rows than a request may have over HTTP are one job" {
    pipe "$(jq -nc '{kind: "generate", new: 2, want_tokens: true,
        rows: [range(5000) | [5, 6 + . % 20, 7]]}')" --model tests/kit/vanilla_post
    line_holds 1 '.tokens | length == 5000 and all(.[]; length == 2)'
}

@test "a job that cannot be done is told, and the next is done" {
    pipe '{"kind":"generate","rows":[[5,6000]]}
nonsense
{"kind":"sing","rows":[[5]]}
{"rows":[[5]]}
{"kind":"encode"}
{"kind":"encode","rows":[[]]}
{"kind":"encode","rows":[[5]],"more":1}
{"kind":"generate","rows":[[5]],"new":0}
{"kind":"generate","rows":[[5]],"beams":17}
{"kind":"generate","rows":[[5]],"new":100000}

{"kind":"encode","rows":[[5,6]]}' --model tests/kit/vanilla_post
    local wanted=(6000 JSON sing kind rows empty more new num_beams max_new_tokens) i
    [ ${#lines[@]} -eq 12 ]
    for i in "${!wanted[@]}"; do
        line_holds $((i + 1)) '.error | contains($wanted)' --arg wanted "${wanted[i]}"
    done
    line_holds 11 '.seconds > 0'
}

@test "a model that only encodes is told to generate and says no" {
    pipe '{"kind":"generate","rows":[[5]]}' --model tests/kit/bert
    line_holds 1 '.error | contains("only encodes")'
}

@test "the built-in workloads print a line each" {
    code=0
    answer=$("$SEQD" bench --model tests/kit/vanilla_nopos 2>&1 3>&- </dev/null | jq -sc .)
    holds 'length == 7 and all(.[]; .tokens_per_second > 0 and .rows > 0 and .workers > 0 and
        .threads > 0 and .isa and .dtype == "float32" and .version) and
        (map(select(.new)) | length == 5 and all(.[]; .new == 64 and .ms_per_step > 0))'
}

@test "bench takes one model" {
    for options in '' '--model models/g2p --model a=models/g2p'; do
        code=0
        "$SEQD" bench $options >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- </dev/null || code=$?
        [ "$code" -eq 2 ] && grep -q 'one --model' "$BATS_TEST_TMPDIR/out"
    done
}
