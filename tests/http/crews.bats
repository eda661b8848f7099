#!/usr/bin/env bats
# The same bits from any number of workers and threads, from folders in rows and packed.
load daemon

words='["banana", "a", "international", "hello", "rhythm", "quizzes", "of", "extraordinarily",
    "cat"]'

# Writes one request a file, ROUTE.NN: batches large enough for a team to share.
write_requests() { # DIRECTORY
    jq -nc --argjson words "$words" '
        [{logprobs: 2}, {num_beams: 4, num_return_sequences: 2, logprobs: 0}, {logprobs: false},
         {do_sample: true, seed: 5, num_return_sequences: 4, logprobs: 1},
         {do_sample: true, seed: 6, top_k: 7}] as $parameters |
        range(7) as $i | {inputs: [range($i % 3 * 4 + 1) as $row | $words[($row + $i) % 9]]} +
        if $i % 4 == 3 then {pooling: "none", encoding_format: "base64"}
        else {parameters: ($parameters[$i % 5] + {max_new_tokens: 9})} end' |
        split_requests "$1"
}

post() { # FILE DIRECTORY
    curl -s -m 120 -H 'Content-Type: application/json' --data-binary "@$1" \
        -o "$2/$(basename "$1")" "$url/v1/$(basename "$1" | cut -d. -f1)"
}

# All requests at once, and what may not differ of the answers.
answers_of() { # REQUESTS DIRECTORY DAEMON_OPTION...
    local requests=$1 directory=$2 request pids=()
    shift 2
    mkdir "$directory"
    daemon_start --model models/g2p "$@"
    for request in "$requests/"*; do
        post "$request" "$directory" 3>&- &
        pids+=($!)
    done
    wait "${pids[@]}"
    daemon_stop
    jq -c '[.data, .outputs, .error]' "$directory/"* >"$directory.txt"
}

@test "encode, greedy, beams and samples have the same bits with any crew, in rows and packed" {
    local work=$BATS_TEST_TMPDIR crew
    mkdir "$work/ask" "$work/cache"
    write_requests "$work/ask"
    answers_of "$work/ask" "$work/1x1" --engine.workers 1 --engine.threads 1
    [ "$(wc -l <"$work/1x1.txt")" -eq 7 ]
    jq -es 'all(.[2] == null and (.[0] != null or .[1] != null))' "$work/1x1.txt"
    for crew in 1x2 2x1 1x5; do
        answers_of "$work/ask" "$work/$crew" --engine.workers "${crew%x*}" \
            --engine.threads "${crew#*x}"
        cmp "$work/1x1.txt" "$work/$crew.txt"
    done
    answers_of "$work/ask" "$work/packed" --engine.cache_dir "$work/cache" \
        --engine.workers 2 --engine.threads 2
    cmp "$work/1x1.txt" "$work/packed.txt"
    answers_of "$work/ask" "$work/unscreened" --engine.cache_dir "$work/cache" \
        --engine.screening false
    cmp "$work/1x1.txt" "$work/unscreened.txt"
}
