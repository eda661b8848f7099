#!/usr/bin/env bats
# The bundled model: English spelling to ARPAbet phonemes, texts in and out.
load daemon

setup_file() { daemon_start --model models/g2p; }
teardown_file() { daemon_stop; }

@test "hello is HH AH0 L OW1" {
    ok /v1/generate '{"inputs":"hello"}'
    holds '.model == "g2p" and .outputs[0].sequences[0].text == "HH AH0 L OW1" and
        .outputs[0].sequences[0].finish_reason == "eos"'
}

@test "of ten everyday words at least nine are right" {
    ok /v1/generate '{"inputs":["water","house","school","table","friend","morning","people",
        "garden","paper","window"],"parameters":{"num_beams":4}}'
    holds '[[.outputs[].sequences[0].text], ["W AO1 T ER0", "HH AW1 S", "S K UW1 L",
        "T EY1 B AH0 L", "F R EH1 N D", "M AO1 R N IH0 NG", "P IY1 P AH0 L",
        "G AA1 R D AH0 N", "P EY1 P ER0",
        "W IH1 N D OW0"]] | transpose | map(select(.[0] == .[1])) | length >= 9'
}

@test "a batch of texts answers as each alone" {
    local words=(a supercalifragilistic cat "don't" strength) alone=()
    for word in "${words[@]}"; do
        ok /v1/generate "{\"inputs\":[\"$word\"]}"
        alone+=("$(value '.outputs[0].sequences')")
    done
    ok /v1/generate "$(jq -nc '{inputs: $ARGS.positional}' --args "${words[@]}")"
    for i in "${!words[@]}"; do
        [ "$(value ".outputs[$i].sequences")" = "${alone[i]}" ]
    done
}

@test "return_tokens gives ids that answer as the text does" {
    ok /v1/generate '{"inputs":["hello","cat"],"return_tokens":true}'
    local texts ids
    texts=$(value '[.outputs[].sequences[0].text]')
    ids=$(value '[.outputs[].token_ids]')
    holds '[.outputs[].token_ids | length] | .[0] > .[1] and .[1] >= 3'
    ok /v1/generate "{\"input_ids\":$ids}"
    holds '[.outputs[].sequences[0].text] == $texts' --argjson texts "$texts"
}

@test "pooled vectors of texts have length 1 and differ" {
    ok /v1/encode '{"inputs":["night","knight","zebra"],"pooling":"mean","normalize":true}'
    holds '[.data[].embedding | map(. * .) | add - 1 | fabs < 1e-5] | all'
    holds '[.data[].embedding] | unique | length == 3'
}

@test "right phonemes score above wrong ones" {
    ok /v1/score '{"inputs":["cat","cat"],"targets":["K AE1 T","B IY1 Z"]}'
    holds '[.outputs[].logprob] | .[0] > .[1] + 5 and .[0] > -2'
}

@test "n-best texts differ, best first" {
    ok /v1/generate '{"inputs":"read","parameters":{"num_beams":5,"num_return_sequences":3}}'
    holds '.outputs[0].sequences | (map(.text) | unique | length == 3) and
        (map(-.score) | . == sort)'
}

@test "a text that gives no token, or too many, is refused by its place" {
    refused 400 too_long 'inputs[1]' /v1/generate \
        "$(jq -nc '{inputs: ["a", "ab" * 2000]}')"
    refused 400 wrong_type 'inputs[1]' /v1/generate '{"inputs":["a",5]}'
    ok /v1/generate "$(jq -nc '{inputs: ["ab" * 2000], truncate: true}')"
    holds '.outputs[0].truncated'
}

@test "the model says that it takes texts" {
    ask /v1/models/g2p
    holds '.tokenizer == true and .family == "transformer"'
}
