#!/usr/bin/env bats
# The same bits from any number of workers and threads, from folders in rows and packed.
load daemon

words='["banana", "a", "international", "hello", "rhythm", "quizzes", "of", "extraordinarily",
    "cat"]'

setup() { model=models/g2p; }
teardown() { daemon_stop; }

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
answers_of() { # REQUESTS DIRECTORY DAEMON_OPTION...: of $model
    local requests=$1 directory=$2 request pids=()
    shift 2
    mkdir "$directory"
    daemon_start --model "$model" "$@"
    for request in "$requests/"*; do
        post "$request" "$directory" 3>&- &
        pids+=($!)
    done
    wait "${pids[@]}"
    daemon_stop
    jq -c '[.data, .outputs, .error]' "$directory/"* >"$directory.txt"
}

# Makes $model of models/g2p: float32, and where a name ends as KEY does the numbers times FACTOR.
scale_model() { # DIRECTORY {KEY:FACTOR}
    local file=models/g2p/model.safetensors size header i
    size=$(od -An -t u8 -N 8 "$file")
    model=$1/scaled
    mkdir -p "$model"
    cp models/g2p/*.json "$model"
    tail -c +9 "$file" | head -c "$size" | jq 'del(.__metadata__)' >"$1/header"
    jq -r --argjson factors "$2" 'to_entries | sort_by(.value.data_offsets[0])[] |
        .key as $name | .value.data_offsets as [$from, $to] |
        ($factors | to_entries | map(.key as $key | select($name | endswith($key)).value)) as $own |
        "\(($to - $from) / 2) \($own[0] // 1)"' "$1/header" >"$1/spans"
    header=$(jq -c 'map_values(.dtype = "F32" | .data_offsets[] *= 2)' "$1/header")
    "${CC:-cc}" -o "$1/scale_halves" tests/http/scale_halves.c -lm
    {
        for i in {0..7}; do printf "\\x$(printf %x $((${#header} >> 8 * i & 255)))"; done
        printf %s "$header"
        tail -c +$((size + 9)) "$file" | "$1/scale_halves" "$1/spans"
    } >"$model/model.safetensors"
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

# Flushed to zero in any thread, numbers below 1e-38 would change its part of the answers.
@test "subnormal numbers count, with the same bits with any crew and through the pipe" {
    local work=$BATS_TEST_TMPDIR crew states tokens
    local rows='[[14,11,18,18,21,3],[14,15,3],[19,20,24,11,20,13,20,14,3]]'
    mkdir "$work/ask"
    write_requests "$work/ask"
    scale_model "$work" '{"fc2.weight": 0.1}'
    daemon_start --model "$model"
    encode scaled "$rows"
    states=$answer
    daemon_stop
    scale_model "$work" '{"fc1.weight": 1e-39, "fc1.bias": 1e-39, "fc2.weight": 1e38}'
    for crew in 1x1 4x1 1x4 4x4; do
        answers_of "$work/ask" "$work/$crew" --engine.workers "${crew%x*}" \
            --engine.threads "${crew#*x}"
        cmp "$work/1x1.txt" "$work/$crew.txt"
    done
    jq -es 'length == 7 and all(.[2] == null and (.[0] != null or .[1] != null))' "$work/1x1.txt"
    daemon_start --model "$model" --engine.threads 4
    encode scaled "$rows"
    holds 'near(.data; $states.data; 1e-3)' --argjson states "$states"
    generate scaled "$rows" '' '{"max_new_tokens":9,"min_new_tokens":9}'
    tokens=$(value '[.outputs[].sequences[0].token_ids]')
    jq -nc --argjson rows "$rows" '{kind: "generate", rows: $rows, new: 9, want_tokens: true}' |
        "$SEQD" bench --pipe --model "$model" 2>"$work/err" 3>&- | tail -n 1 >"$work/pipe"
    jq -e --argjson tokens "$tokens" '.tokens == $tokens' "$work/pipe"
}
