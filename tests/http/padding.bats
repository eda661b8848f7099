#!/usr/bin/env bats
# Padding and masks: a row's answer never depends on its neighbours, its padding or what is masked.
load daemon

setup_file() { daemon_start --model tests/kit/vanilla_post --model tests/kit/vanilla_nopos; }
teardown_file() { daemon_stop; }

@test "a row alone and beside a longer one gets the same bits" {
    for model in vanilla_post vanilla_nopos; do
        encode $model '[[5,6,7,3]]'
        local alone
        alone=$(value '.data[0].embedding')
        encode $model '[[5,6,7,3,0,0,0],[9,8,7,6,5,4,3]]' '[[1,1,1,1,0,0,0],[1,1,1,1,1,1,1]]'
        holds '.data[0].embedding[:4] == $alone' --argjson alone "$alone"
    done
}

@test "the same row at any place of a request gets the same bits" {
    encode vanilla_post "$(jq -nc '[range(16) | [5,6,7,3]] + [[5,6,7,8,9,3]] + [[5,6,7,3]]')"
    holds '[.data[:16][], .data[17] | .embedding] | unique | length == 1'
}

@test "without positions left, interior and right padding change nothing" {
    encode vanilla_nopos '[[5,6,7,3]]'
    local alone
    alone=$(value '.data[0].embedding')
    encode vanilla_nopos '[[0,0,5,6,7,3],[5,0,6,7,0,3],[5,6,7,3,0,0]]' \
        '[[0,0,1,1,1,1],[1,0,1,1,0,1],[1,1,1,1,0,0]]'
    holds '[.data[].embedding | map(select(any(. != 0)))] | all(. == $alone)' \
        --argjson alone "$alone"
    generate vanilla_nopos '[[5,6,7,3],[0,0,5,6,7,3],[5,0,6,7,0,3],[5,6,7,3,0,0]]' \
        '[[1,1,1,1],[0,0,1,1,1,1],[1,0,1,1,0,1],[1,1,1,1,0,0]]' '{"num_beams":3}'
    holds '[.outputs[].sequences] | unique | length == 1'
}

@test "masked places keep their positions" {
    encode vanilla_post '[[5,6,7,3]]'
    local alone
    alone=$(value '.data[0].embedding')
    encode vanilla_post '[[0,0,0,5,6,7,3],[5,6,7,3,0,0,0]]' '[[0,0,0,1,1,1,1],[1,1,1,1,0,0,0]]'
    holds 'near(.data[0].embedding[3:]; $alone; 0.01) | not' --argjson alone "$alone"
    holds '.data[1].embedding[:4] == $alone' --argjson alone "$alone"
}

@test "what is masked cannot matter" {
    encode vanilla_post '[[5,6,7,3]]' '[[1,0,1,1]]'
    local first=$answer
    encode vanilla_post '[[5,60,7,3]]' '[[1,0,1,1]]'
    [ "$answer" = "$first" ]
    encode vanilla_post '[[5,60,7,3]]' '[[1,1,1,1]]'
    [ "$answer" != "$first" ]
}

@test "an all-masked row is refused by its number and poisons nobody" {
    encode vanilla_post '[[5,6,7,3]]'
    local alone
    alone=$(value '.data[0].embedding')
    local rows='[[5,6,7,3],[0,0,0,0],[5,6,7,3]]' masks='[[1,1,1,1],[0,0,0,0],[1,1,1,1]]'
    for route in encode generate; do
        refused 400 empty_row 'input_ids[1]' /v1/$route \
            "{\"model\":\"vanilla_post\",\"input_ids\":$rows,\"attention_mask\":$masks}"
    done
    encode vanilla_post '[[5,6,7,3]]'
    holds '.data[0].embedding == $alone' --argjson alone "$alone"
}

@test "the decoder sees the source's mask at every step and beam" {
    for beams in 1 4; do
        local answers=()
        for padding in 0 1 12 60; do
            local row mask
            row=$(jq -nc "[5,6,7,3] + [range($padding) | 9]")
            mask=$(jq -nc "[1,1,1,1] + [range($padding) | 0]")
            generate vanilla_post "[$row]" "[$mask]" \
                "{\"num_beams\":$beams,\"max_new_tokens\":30,\"min_new_tokens\":20,\"logprobs\":0}"
            answers+=("$(value .outputs)")
        done
        [ "${answers[0]}" = "${answers[1]}" ]
        [ "${answers[0]}" = "${answers[2]}" ]
        [ "${answers[0]}" = "${answers[3]}" ]
    done
}

@test "without a mask the pads at the end are padding, others are tokens" {
    for model in vanilla_post vanilla_nopos; do
        encode $model '[[5,0,6,7,0,0]]'
        local inferred=$answer
        encode $model '[[5,0,6,7,0,0]]' '[[1,1,1,1,0,0]]'
        [ "$answer" = "$inferred" ]
        encode $model '[[5,0,6,7,0,0]]' '[[1,1,1,1,1,1]]'
        [ "$answer" != "$inferred" ]
        generate $model '[[5,6,7,0,0]]' '' '{}'
        inferred=$(value .outputs)
        generate $model '[[5,6,7,0,0]]' '[[1,1,1,0,0]]' '{}'
        [ "$(value .outputs)" = "$inferred" ]
    done
    refused 400 empty_row 'input_ids[0]' /v1/encode '{"model":"vanilla_post","input_ids":[[0,0]]}'
}

@test "a mask of booleans is a mask of numbers" {
    encode vanilla_post '[[5,6,7,3]]' '[[1,0,1,1]]'
    local numbers=$answer
    encode vanilla_post '[[5,6,7,3]]' '[[true,false,true,1]]'
    [ "$answer" = "$numbers" ]
}

@test "no work is spent on padding" {
    encode vanilla_post '[[5,6,7,3,0,0,0,0,0,0,0,0],[5,3]]'
    holds '.usage.prompt_tokens == 6'
    [ "$(metric 'seqd_padding_tokens_total{model="vanilla_post"}')" = 0 ]
    [ "$(metric 'seqd_padding_tokens_total{model="vanilla_nopos"}')" = 0 ]
}
