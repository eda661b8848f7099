#!/usr/bin/env bats
# POST /v1/score: log-probabilities of given targets, decoder attentions.
load daemon

setup_file() { daemon_start --model tests/kit/vanilla_post; }
teardown_file() { daemon_stop; }

score() { # SOURCES TARGETS [OTHER_MEMBERS]
    ok /v1/score "{\"input_ids\":$1,\"target_ids\":$2${3:+,$3}}"
}

@test "a greedy answer scores what generate said" {
    ok /v1/generate '{"input_ids":[[5,6,7,3],[9,8,3]],
        "parameters":{"logprobs":0,"max_new_tokens":20}}'
    local sequences
    sequences=$(value '[.outputs[].sequences[0]]')
    score '[[5,6,7,3],[9,8,3]]' "$(jq -c 'map(.token_ids)' <<<"$sequences")"
    holds '.object == "score" and .model == "vanilla_post" and [.outputs[].index] == [0, 1]'
    holds 'near(.outputs | map(.token_logprobs); $sequences | map(.token_logprobs); 1e-5) and
        near(.outputs | map(.logprob); $sequences | map(.logprob); 1e-4)' \
        --argjson sequences "$sequences"
    holds '.usage == {prompt_tokens: 7, target_tokens: $n, total_tokens: (7 + $n)}' \
        --argjson n "$(jq -c 'map(.token_ids[]) | length' <<<"$sequences")"
}

@test "a beam's sum is what its tokens score" {
    ok /v1/generate '{"input_ids":[[5,6,7,3]],
        "parameters":{"num_beams":4,"num_return_sequences":3}}'
    local sequences
    sequences=$(value '.outputs[0].sequences')
    score '[[5,6,7,3],[5,6,7,3],[5,6,7,3]]' "$(jq -c 'map(.token_ids)' <<<"$sequences")"
    holds 'near(.outputs | map(.logprob); $sequences | map(.logprob); 1e-4)' \
        --argjson sequences "$sequences"
}

@test "the row's log-probability is the sum of its tokens'" {
    score '[[5,6,7,3]]' '[[10,11,12,3]]'
    holds '.outputs[0] | (.token_logprobs | length == 4 and all(. < 0)) and
        near(.token_logprobs | add; .logprob; 1e-4)'
    holds '.outputs[0] | .decoder_attentions == null and .cross_attentions == null and
        (has("top_logprobs") | not)'
}

@test "the probabilities of all continuations sum to 1" {
    score "$(jq -nc '[range(85) | [5,6,7,3]]')" "$(jq -nc '[range(85) | [10, .]]')"
    holds '[.outputs[].token_logprobs[1] | exp] | add | . - 1 | fabs < 1e-4'
    holds '[.outputs[].token_logprobs[0]] | unique | length == 1'
}

@test "logprobs gives the best tokens of every place" {
    score '[[5,6,7,3]]' '[[10,11,3]]' '"logprobs":4'
    holds '.outputs[0].top_logprobs | map(length) == [4, 4, 4] and all(map(-.logprob) | . == sort)'
    local best
    best=$(value '.outputs[0].top_logprobs[2][0]')
    score '[[5,6,7,3]]' "[[10,11,$(jq .id <<<"$best")]]"
    holds 'near(.outputs[0].token_logprobs[2]; $best.logprob; 1e-6)' --argjson best "$best"
}

@test "decoder attentions see no later place, cross-attentions no masked one" {
    ok /v1/score '{"input_ids":[[5,6,7,3,0]],"attention_mask":[[1,0,1,1,0]],
        "target_ids":[[10,11,12,3]],"output_attentions":true}'
    holds '.outputs[0] | (.decoder_attentions | shape) == [3, 8, 4, 4] and
        (.cross_attentions | shape) == [3, 8, 4, 5]'
    holds '[.outputs[0] | .decoder_attentions[][][], .cross_attentions[][][] |
        add - 1 | fabs < 1e-5] | length == 192 and all'
    holds '[.outputs[0].decoder_attentions[][] | range(4) as $query | .[$query][$query + 1:][] |
        . == 0] | length == 144 and all'
    holds '[.outputs[0].decoder_attentions[][][3][0] | . > 0] | any'
    holds '[.outputs[0].cross_attentions[][][] | .[1] == 0 and .[4] == 0 and .[0] > 0] | all'
}

@test "generate's cross-attentions are those of score" {
    ok /v1/generate '{"input_ids":[[5,6,7,3]],"parameters":{"output_attentions":true}}'
    local sequence
    sequence=$(value '.outputs[0].sequences[0]')
    score '[[5,6,7,3]]' "[$(jq -c .token_ids <<<"$sequence")]" '"output_attentions":true'
    holds 'near(.outputs[0].cross_attentions; $sequence.cross_attentions; 1e-5)' \
        --argjson sequence "$sequence"
}

@test "padding, neighbours and a flat row change nothing" {
    score '[[5,6,7,3]]' '[[10,11,3]]'
    local alone
    alone=$(value '.outputs[0].token_logprobs')
    score '[[5,6,7,3,0,0],[9,8,7,6,5,3]]' '[[10,11,3],[10,11,12,13,14,15,16,3]]'
    holds '.outputs[0].token_logprobs == $alone' --argjson alone "$alone"
    score '[5,6,7,3]' '[10,11,3]'
    holds '.outputs[0].token_logprobs == $alone' --argjson alone "$alone"
}

@test "the decoder start may be another one" {
    score '[[5,6,7,3]]' '[[10,11,3]]'
    local alone
    alone=$(value '.outputs[0].token_logprobs')
    score '[[5,6,7,3]]' '[[10,11,3]]' '"decoder_start_token_id":2'
    holds '.outputs[0].token_logprobs == $alone' --argjson alone "$alone"
    score '[[5,6,7,3]]' '[[10,11,3]]' '"decoder_start_token_id":9'
    holds '.outputs[0].token_logprobs != $alone' --argjson alone "$alone"
}

@test "a target as long as the positions allow is served, a longer one is not" {
    score '[[5,3]]' "[$(jq -nc '[range(100) | . % 70 + 5]')]"
    holds '.outputs[0].token_logprobs | length == 100'
    refused 400 too_long 'target_ids[0]' /v1/score \
        "{\"input_ids\":[[5,3]],\"target_ids\":[$(jq -nc '[range(101) | . % 70 + 5]')]}"
}

@test "wrong targets are refused by name" {
    refused 400 missing_field target_ids /v1/score '{"input_ids":[[5,3]]}'
    refused 400 out_of_range target_ids /v1/score '{"input_ids":[[5,3]],"target_ids":[[5,3],[5,3]]}'
    refused 400 empty_row 'target_ids[1]' /v1/score \
        '{"input_ids":[[5,3],[5,3]],"target_ids":[[5,3],[]]}'
    refused 400 token_out_of_range 'target_ids[0][1]' /v1/score \
        '{"input_ids":[[5,3]],"target_ids":[[5,85]]}'
    refused 400 token_out_of_range 'target_ids[0][0]' /v1/score \
        '{"input_ids":[[5,3]],"target_ids":[[-1]]}'
    refused 400 wrong_type 'target_ids[0][0]' /v1/score '{"input_ids":[[5,3]],"target_ids":[[5.0]]}'
    refused 400 unsupported targets /v1/score '{"input_ids":[[5,3]],"targets":["a"]}'
    refused 400 unknown_field parameters /v1/score \
        '{"input_ids":[[5,3]],"target_ids":[[5]],"parameters":{}}'
}
