#!/usr/bin/env bats
# Options of generation on a model whose answers can be worked out by hand (analytic.bash).
load daemon
load analytic

# p of `wide`: 5 is the likeliest, then the end, 2, then 6.  `sharp`: 5 nearly always.  `short`: the
# end nearly always.
setup_file() {
    analytic_folder "$BATS_FILE_TMPDIR/wide" .01 .01 .30 .01 .01 .40 .20 .06
    analytic_folder "$BATS_FILE_TMPDIR/sharp" .01 .01 .03 .01 .01 .90 .02 .01
    analytic_folder "$BATS_FILE_TMPDIR/short" .01 .01 .90 .01 .01 .03 .02 .01
    daemon_start --model "$BATS_FILE_TMPDIR/wide" --model "$BATS_FILE_TMPDIR/sharp" \
        --model "$BATS_FILE_TMPDIR/short"
}
teardown_file() { daemon_stop; }

body() { # MODEL PARAMETERS
    echo "{\"model\":\"$1\",\"input_ids\":[[0,5,6,2]],\"attention_mask\":[[1,1,1,1]],
        \"parameters\":$2}"
}

answers() { # MODEL PARAMETERS TOKENS_OF_THE_SEQUENCES [SCORES]
    ok /v1/generate "$(body "$1" "$2")"
    holds 'tokens == $wanted' --argjson wanted "$3"
    [ $# -lt 4 ] ||
        holds 'near([.outputs[0].sequences[].score]; $wanted; 2e-5)' --argjson wanted "$4"
}

scores() { # MODEL PARAMETERS SCORES: where several sequences share a score
    ok /v1/generate "$(body "$1" "$2")"
    holds 'near([.outputs[0].sequences[].score]; $wanted; 2e-5)' --argjson wanted "$3"
}

refuses() { # CODE PARAM MODEL PARAMETERS
    refused 400 "$1" "$2" /v1/generate "$(body "$3" "$4")"
}

@test "banned words are taken out behind the log-softmax, which is made anew only on demand" {
    local common='"num_beams":2,"num_return_sequences":2,"max_length":4,"length_penalty":0'
    scores wide "{$common,\"bad_words_ids\":[[5]]}" '[-1.20397,-2.81341]'
    scores wide "{$common,\"bad_words_ids\":[[5]],\"renormalize_logits\":true}" \
        '[-0.69315,-1.79176]'
    answers wide '{"bad_words_ids":[[5,5]],"max_length":6,"min_length":6}' '[[5,6,5,6,5]]'
}

@test "a forced first token scores 0" {
    answers wide '{"num_beams":2,"max_length":5,"forced_bos_token_id":3}' '[[3,2]]' '[-0.60199]'
}

@test "an end is forced into the last place only when the option says so" {
    answers sharp '{"max_length":5}' '[[5,5,5,5]]'
    holds '.outputs[0].sequences[0].finish_reason == "length"'
    answers sharp '{"max_length":5,"forced_eos_token_id":2}' '[[5,5,5,2]]'
    holds '.outputs[0].sequences[0].finish_reason == "eos"'
    answers sharp '{"max_length":5,"forced_eos_token_id":2,"num_beams":2}' '[[5,5,5,2]]' \
        '[-0.07902]'
}

@test "max_length counts the start, max_new_tokens does not and wins" {
    answers sharp '{"max_length":5}' '[[5,5,5,5]]'
    answers sharp '{"max_new_tokens":5}' '[[5,5,5,5,5]]'
    answers sharp '{"max_new_tokens":3,"max_length":10}' '[[5,5,5]]'
    answers sharp '{"max_new_tokens":10,"max_length":3}' '[[5,5,5,5,5,5,5,5,5,5]]'
    refuses out_of_range parameters.max_length sharp '{"max_length":1}'
    refuses out_of_range parameters.max_new_tokens sharp '{"max_new_tokens":0}'
    refuses out_of_range parameters.max_new_tokens sharp '{"max_new_tokens":-1}'
}

@test "without a limit the model's positions are the limit, and more is refused" {
    ok /v1/generate "$(body sharp '{}')"
    holds '.outputs[0].sequences[0] | (.token_ids | length == 31 and all(. == 5)) and
        .finish_reason == "length"'
    ok /v1/generate "$(body sharp '{"max_new_tokens":31}')"
    holds 'tokens[0] | length == 31'
    refuses out_of_range parameters.max_new_tokens sharp '{"max_new_tokens":32}'
    refuses out_of_range parameters.max_length sharp '{"max_length":33}'
}

@test "min_length counts the start, min_new_tokens does not" {
    answers short '{"min_length":4}' '[[5,5,5,2]]'
    answers short '{"min_new_tokens":4}' '[[5,5,5,5,2]]'
    answers wide '{"num_beams":2,"length_penalty":0,"max_length":6,"min_length":4}' '[[5,5,5,2]]' \
        '[-3.95285]'
}

@test "a score is the sum over the new tokens' number to the penalty" {
    local common='"num_beams":2,"max_length":7,"early_stopping":false'
    answers wide "{$common,\"length_penalty\":0}" '[[2]]' '[-1.20397]'
    answers wide "{$common,\"length_penalty\":1}" '[[5,5,5,5,5,5]]' '[-0.91629]'
    answers wide "{$common,\"length_penalty\":2}" '[[5,5,5,5,5,5]]' '[-0.15272]'
    answers wide "{$common,\"length_penalty\":-1,\"num_return_sequences\":2}" '[[2],[5,2]]' \
        '[-1.20397,-4.24053]'
}

@test "beams that cannot be are refused" {
    refuses out_of_range parameters.num_return_sequences wide \
        '{"num_beams":2,"num_return_sequences":3}'
    refuses out_of_range parameters.num_beams wide '{"num_beams":0}'
    refused 400 invalid_json - /v1/generate "$(body wide '{"num_beams":2,"length_penalty":NaN}')"
}

@test "any of several end ids ends" {
    answers wide '{"eos_token_id":[2,5]}' '[[5]]'
    holds '.outputs[0].sequences[0].finish_reason == "eos"'
    answers wide '{"eos_token_id":[7,2]}' "$(jq -nc '[[range(31) | 5]]')"
}

@test "a repetition penalty multiplies what is negative and counts the start" {
    answers wide '{"repetition_penalty":2,"max_length":5,"min_length":5}' '[[5,6,5,5]]'
    scores wide '{"repetition_penalty":2,"max_length":5,"min_length":5,"num_beams":2,
        "length_penalty":0}' '[-6.19089]'
    refuses out_of_range parameters.repetition_penalty wide '{"repetition_penalty":0}'
    refuses out_of_range parameters.repetition_penalty wide '{"repetition_penalty":-1}'
}

@test "a short answer beside a long one has no tail" {
    answers wide '{"num_beams":3,"num_return_sequences":3,"max_length":4,"length_penalty":0,
        "suppress_tokens":[0,1,3,4,6,7]}' '[[2],[5,2],[5,5,5]]'
    ok /v1/generate '{"model":"short","input_ids":[[5,2],[5,6,2]],
        "parameters":[{"max_new_tokens":5},{"max_new_tokens":5,"min_new_tokens":4}]}'
    holds 'tokens == [[2],[5,5,5,5,2]]'
}
