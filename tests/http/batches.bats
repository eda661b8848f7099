#!/usr/bin/env bats
# The same answers alone and inside whatever batches other requests make.
load daemon

setup_file() {
    daemon_start --model tests/kit/vanilla_post --model tests/kit/vanilla_cosine \
        --model tests/kit/vanilla_unbiased --limits.return_sequences 16 --limits.source_tokens 100 \
        --engine.batch_sequences 24 --engine.batch_tokens 100 --engine.step_tokens 40 \
        --engine.encode_ms 0
}
teardown_file() { daemon_stop; }

# Writes one request a file, ROUTE.NN: rows of 2 to 64 tokens, of all modes and models.
write_requests() { # DIRECTORY
    jq -nc '
        ["vanilla_post", "vanilla_cosine", "vanilla_unbiased"] as $models |
        ["none", "mean", "max", "cls", "last"] as $poolings |
        [2, 5, 61, 9, 33, 17, 3, 48] as $sizes |
        [{max_new_tokens: 40, min_new_tokens: 30, logprobs: 2},
         {num_beams: 4, num_return_sequences: 2, max_new_tokens: 25, logprobs: 0},
         {do_sample: true, seed: 11, num_return_sequences: 3, max_new_tokens: 30, logprobs: 1},
         {num_beams: 9, max_new_tokens: 40, min_new_tokens: 30, length_penalty: 0.5},
         {no_repeat_ngram_size: 2, repetition_penalty: 1.3, max_new_tokens: 90,
          eos_token_id: null}] as $parameters |
        range(24) as $i | {
            model: $models[$i % 3],
            input_ids: [range($i % 4 + 1) as $row | [range($sizes[$i % 8] + $row) |
                (. * 7 + $i * 11 + $row) % 58 + 5] + [3]] } +
        if ($i / 3 | floor) % 3 == 0
        then {pooling: $poolings[$i % 5], encoding_format: "base64",
              output_attentions: ($i % 4 == 0)}
        else {parameters: $parameters[$i % 5]} end' |
        split_requests "$1"
}

answers() { # DIRECTORY: what may not differ of every answer
    jq -c '[.data, .outputs, .error]' "$1/"*
}

@test "24 requests get the same bits alone and all at once, three times over" {
    local work=$BATS_TEST_TMPDIR
    mkdir "$work/ask" "$work/alone"
    write_requests "$work/ask"
    # Called as one program for all, so that xargs can run it.
    cat >"$work/post" <<'POST'
#!/usr/bin/env bash
curl -s -m 60 -H 'Content-Type: application/json' --data-binary "@$1" \
    -o "$2/$(basename "$1")" "$url/v1/$(basename "$1" | cut -d. -f1)"
POST
    chmod +x "$work/post"
    for request in "$work/ask/"*; do "$work/post" "$request" "$work/alone"; done
    answers "$work/alone" >"$work/alone.txt"
    [ "$(wc -l <"$work/alone.txt")" -eq 24 ]
    jq -es 'all(.[2] == null and (.[0] != null or .[1] != null))' "$work/alone.txt"
    for round in 1 2 3; do
        mkdir "$work/round$round"
        printf '%s\n' "$work/ask/"* | shuf --random-source=<(yes "$round") |
            xargs -P 16 -I '{}' "$work/post" '{}' "$work/round$round"
        answers "$work/round$round" >"$work/round$round.txt"
        cmp "$work/alone.txt" "$work/round$round.txt"
    done
}

# No request has more than 4 rows.
@test "batches were made of several requests" {
    curl -s "$url/metrics" | awk '
        /^seqd_batch_sequences_bucket.*phase="decode".*le="4"/ { small += $2 }
        /^seqd_batch_sequences_count.*phase="decode"/ { count += $2 }
        END { exit !(small > 0 && count > small) }'
}

@test "a refused request beside good ones changes none of them" {
    ok /v1/encode '{"model":"vanilla_post","input_ids":[[5,6,7,3]],"encoding_format":"base64"}'
    local alone=$answer pids=() work=$BATS_TEST_TMPDIR
    for i in $(seq 12); do
        curl -s -H 'Content-Type: application/json' -o "$work/good$i" "$url/v1/encode" -d \
            '{"model":"vanilla_post","input_ids":[[5,6,7,3]],"encoding_format":"base64"}' &
        pids+=($!)
        curl -s -H 'Content-Type: application/json' -o "$work/bad$i" "$url/v1/encode" -d \
            '{"model":"vanilla_post","input_ids":[[5,6,7,3],[5,9999]],"encoding_format":"base64"}' &
        pids+=($!)
    done
    wait "${pids[@]}"
    for i in $(seq 12); do
        [ "$(<"$work/good$i")" = "$alone" ]
        grep -q token_out_of_range "$work/bad$i"
    done
}
