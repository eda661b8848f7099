#!/usr/bin/env bats
# POST /v1/generate: greedy, beams, lengths, log-probabilities, attentions, prefixes.
load daemon

setup_file() { daemon_start --model tests/kit/vanilla_cosine; }
teardown_file() { daemon_stop; }

row='[2,31,40,38,64,47,38,3]' # the reference continues it with 8 tokens

# Of one row, with one set of parameters.
generate() { # PARAMETERS [OTHER_MEMBERS]
    ok /v1/generate "{\"input_ids\":[$row],\"parameters\":$1${2:+,$2}}"
}

greedy() {
    generate '{"max_new_tokens":14,"logprobs":0}'
    greedy=$(value '.outputs[0].sequences[0]')
}

@test "greedy and beam answers are the reference's" {
    local case
    for name in greedy_single beam4 beam_num_return greedy_repetition_penalty; do
        case=$(jq -c ".generate[] | select(.name == \"$name\")" \
            tests/kit/vanilla_cosine/expected.json)
        ok /v1/generate "$(jq -c '.request | {input_ids, attention_mask} +
            {parameters: (.options + {num_return_sequences: $n})}' \
            --argjson n "$(jq .num_return_sequences <<<"$case")" <<<"$case")"
        holds 'tokens == $case.generated and
            [.outputs[].sequences[].finish_reason] == $case.finish_reason' --argjson case "$case"
        [ "$(jq 'has("sequences_scores")' <<<"$case")" = false ] ||
            holds 'near([.outputs[].sequences[].score]; $case.sequences_scores; 1e-3)' \
                --argjson case "$case"
    done
}

@test "a greedy answer carries ids, log-probability, usage and timing and no more" {
    generate '{"max_new_tokens":14}'
    holds '.object == "generation" and .model == "vanilla_cosine"'
    holds '.outputs[0].sequences | length == 1 and (.[0] | .token_ids[-1] == 3 and
        .score == null and .text == null and .logprob < 0 and .finish_reason == "eos" and
        .token_logprobs == null and .cross_attentions == null and (has("top_logprobs") | not))'
    holds '.outputs[0].sequences[0].token_ids | all(. != 2 and . != 0)'
    holds '.usage == {prompt_tokens: 8, completion_tokens: 8, total_tokens: 16}'
    holds '.timing | keys == ["decode_ms", "encode_ms", "queue_ms"] and all(. >= 0)'
    holds '.outputs[0] | has("seed") | not'
}

@test "beams come best first, differ, and score their sum over length to the penalty" {
    for penalty in 0.0 1.0 2.0; do
        generate "{\"num_beams\":5,\"num_return_sequences\":4,\"length_penalty\":$penalty,
            \"max_new_tokens\":14,\"logprobs\":0}"
        holds '.outputs[0].sequences | length == 4 and
            (map(.score) | . == (sort | reverse)) and (map(.token_ids) | unique | length == 4)'
        holds '.outputs[0].sequences | all(
            (.token_logprobs | add) as $sum | near($sum; .logprob; 1e-4) and
            near(.score; $sum / pow(.token_ids | length; $penalty); 1e-4))' \
            --argjson penalty $penalty
    done
}

@test "one beam is greedy and more beams never find a worse sum" {
    greedy
    generate '{"num_beams":1,"num_return_sequences":1,"max_new_tokens":14}'
    holds '.outputs[0].sequences[0].token_ids == $greedy.token_ids' --argjson greedy "$greedy"
    generate '{"num_beams":16,"length_penalty":0.0,"max_new_tokens":14}'
    holds '.outputs[0].sequences[0].logprob >= $greedy.logprob - 1e-4' --argjson greedy "$greedy"
}

@test "early stopping takes all its three values" {
    for early in true false '"never"'; do
        generate "{\"num_beams\":3,\"early_stopping\":$early,\"max_new_tokens\":14}"
        holds '.outputs[0].sequences[0].finish_reason == "eos"'
    done
}

@test "lengths: new tokens, whole length, both, least" {
    generate '{"max_new_tokens":3}'
    holds '.outputs[0].sequences[0] | (.token_ids | length) == 3 and .finish_reason == "length"'
    generate '{"max_length":4}'
    holds 'tokens[0] | length == 3'
    generate '{"max_new_tokens":5,"max_length":3}'
    holds 'tokens[0] | length == 5'
    generate '{"max_new_tokens":14,"min_new_tokens":11}'
    holds 'tokens[0] | length >= 11 and (.[:10] | all(. != 3))'
    generate '{"max_new_tokens":14,"min_length":11}'
    holds 'tokens[0] | length >= 11 and (.[:10] | all(. != 3))'
    generate '{"max_new_tokens":9,"min_new_tokens":9}'
    holds 'tokens[0] | length == 9'
    generate '{"num_beams":4,"max_new_tokens":1}'
    holds '.outputs[0].sequences[0] | (.token_ids | length) == 1 and .finish_reason == "length"'
}

@test "without any length the model's own holds, and null switches it off" {
    generate '{"min_new_tokens":99}'
    holds 'tokens[0] | length == 15'
    generate '{"max_length":null,"eos_token_id":null}'
    holds '.outputs[0].sequences[0] | (.token_ids | length) == 99 and .finish_reason == "length"'
}

@test "the end of sequence may be another id or several" {
    greedy
    local second
    second=$(jq '.token_ids[1]' <<<"$greedy")
    for ids in "$second" "[3,$second]"; do
        generate "{\"eos_token_id\":$ids,\"max_new_tokens\":14}"
        holds '.outputs[0].sequences[0] | .token_ids == $greedy.token_ids[:2] and
            .finish_reason == "eos"' --argjson greedy "$greedy"
    done
}

@test "forced first and last tokens are there and cost nothing" {
    generate '{"forced_bos_token_id":50,"forced_eos_token_id":3,"max_new_tokens":6,
        "min_new_tokens":6,"logprobs":0}'
    holds '.outputs[0].sequences[0] | .token_ids[0] == 50 and (.token_ids | length) == 6 and
        .token_ids[5] == 3 and .token_logprobs[0] == 0 and .token_logprobs[5] == 0 and
        .finish_reason == "eos" and (.token_logprobs[1:5] | all(. < 0))'
    generate '{"forced_bos_token_id":50,"num_beams":3,"max_new_tokens":6}'
    holds 'tokens[0][0] == 50'
}

@test "no_repeat_ngram_size leaves no pair twice" {
    generate '{"eos_token_id":null,"max_new_tokens":60}'
    holds 'tokens[0] | [range(59) as $i | [.[$i], .[$i + 1]]] | length > (unique | length)'
    generate '{"eos_token_id":null,"max_new_tokens":60,"no_repeat_ngram_size":2}'
    holds 'tokens[0] | [range(59) as $i | [.[$i], .[$i + 1]]] | length == (unique | length)'
}

@test "token log-probabilities are below 0 and sum to the sequence's" {
    greedy
    jq -e "$jq_library"'(.token_logprobs | length) == (.token_ids | length) and
        (.token_logprobs | all(. < 0)) and near(.token_logprobs | add; .logprob; 1e-4)' <<<"$greedy"
}

@test "top log-probabilities are so many, best first, and begin with the greedy token" {
    generate '{"max_new_tokens":14,"logprobs":3}'
    holds '.outputs[0].sequences[0] | (.token_ids | length) as $n |
        (.top_logprobs | map(length)) == [range($n) | 3] and
        (.top_logprobs | map(.[0].id)) == .token_ids and
        (.top_logprobs | map(.[0].logprob)) == .token_logprobs and
        (.top_logprobs | all(map(-.logprob) | . == sort))'
    holds '.outputs[0].sequences[0].top_logprobs[0] | all(keys == ["id", "logprob"])'
}

@test "top log-probabilities leave out what the rules removed" {
    generate '{"max_new_tokens":4,"min_new_tokens":4,"logprobs":20}'
    holds '[.outputs[0].sequences[0].top_logprobs[][].id] | all(. != 3)'
    generate '{"max_new_tokens":4,"forced_bos_token_id":50,"logprobs":5}'
    holds '.outputs[0].sequences[0].top_logprobs[0] == [{id: 50, logprob: 0}]'
}

@test "cross-attentions cover every place and give masked sources nothing" {
    ok /v1/generate '{"input_ids":[[2,31,40,38,64,3,0]],"attention_mask":[[1,1,0,1,1,1,0]],
        "parameters":{"num_beams":2,"num_return_sequences":2,"max_new_tokens":9,
        "output_attentions":true}}'
    holds '.outputs[0].sequences |
        all((.cross_attentions | shape) == [2, 2, (.token_ids | length), 7])'
    holds '[.outputs[].sequences[].cross_attentions[][][] | (add - 1 | fabs < 1e-5) and
        .[2] == 0 and .[6] == 0 and .[0] > 0] | length > 8 and all'
}

@test "a prefix is continued, with the decoder start before it or without" {
    greedy
    local rest prefix
    prefix=$(jq -c '.token_ids[:3]' <<<"$greedy")
    rest=$(jq -c '.token_ids[3:]' <<<"$greedy")
    for ids in "$prefix" "$(jq -c '[2] + .' <<<"$prefix")"; do
        generate '{"max_new_tokens":14}' "\"decoder_input_ids\":[$ids]"
        holds 'tokens[0] == $rest' --argjson rest "$rest"
    done
    generate '{"max_length":6}' "\"decoder_input_ids\":[$prefix]"
    holds 'tokens[0] == $rest[:2]' --argjson rest "$rest"
}

@test "prefixes of several rows may differ in length" {
    greedy
    ok /v1/generate "{\"input_ids\":[$row,$row,$row],\"parameters\":{\"max_new_tokens\":14},
        \"decoder_input_ids\":$(jq -c '[.token_ids[:1], .token_ids[:4], [2]]' <<<"$greedy")}"
    holds 'tokens == ($greedy.token_ids | [.[1:], .[4:], .])' --argjson greedy "$greedy"
}

@test "another decoder start gives another answer, the model's own the same" {
    greedy
    generate '{"max_new_tokens":14,"decoder_start_token_id":2}'
    holds 'tokens[0] == $greedy.token_ids' --argjson greedy "$greedy"
    generate '{"max_new_tokens":14,"decoder_start_token_id":9,"logprobs":0}'
    holds '.outputs[0].sequences[0].token_logprobs[0] != $greedy.token_logprobs[0]' \
        --argjson greedy "$greedy"
}

@test "every row may have parameters of its own" {
    local two='{"num_beams":3,"num_return_sequences":2,"max_new_tokens":9}'
    local three='{"do_sample":true,"seed":5,"max_new_tokens":7}'
    local alone=()
    for parameters in '{}' "$two" "$three"; do
        generate "$parameters"
        alone+=("$(value '.outputs[0].sequences')")
    done
    ok /v1/generate \
        "{\"input_ids\":[$row,$row,$row],\"parameters\":[{},$two,$three]}"
    for i in 0 1 2; do
        [ "$(value ".outputs[$i].sequences")" = "${alone[i]}" ]
    done
    holds '[.outputs[] | .seed] == [null, null, 5]'
}

@test "rows come back in their order with their index" {
    ok /v1/generate '{"input_ids":[[9,8,7,6,5,4,3],[5,3],[60,61,62,3]]}'
    local together
    together=$(value '[.outputs[].sequences]')
    holds '[.outputs[].index] == [0, 1, 2]'
    local i=0
    for other in '[9,8,7,6,5,4,3]' '[5,3]' '[60,61,62,3]'; do
        ok /v1/generate "{\"input_ids\":[$other]}"
        holds '.outputs[0].sequences == $together[$i]' --argjson together "$together" --argjson i $i
        i=$((i + 1))
    done
}

@test "return_tokens gives the source as sent" {
    generate '{}' '"return_tokens":true'
    holds ".outputs[0].token_ids == $row"
}

@test "only allowed tokens are generated, whatever the row wishes" {
    generate '{"allowed_token_ids":[5,6,9],"max_new_tokens":8}'
    holds 'tokens[0] | length > 0 and all(. == 5 or . == 6 or . == 9 or . == 3)'
    generate '{"allowed_token_ids":[5,6,9],"max_new_tokens":8,"num_beams":3,"logprobs":20}'
    holds '[.outputs[0].sequences[0].top_logprobs[][].id] | unique - [3, 5, 6, 9] == []'
}

@test "an array of parameters gives each row its own options" {
    ask /v1/generate "{\"input_ids\":[$row,$row,$row],\"parameters\":[{\"max_new_tokens\":3},
        {\"num_beams\":2,\"num_return_sequences\":2,\"logprobs\":0},
        {\"suppress_tokens\":[$(jq -n "$row[1]")],\"do_sample\":true,\"seed\":5}]}"
    [ "$status" = 200 ]
    holds '[.outputs[] | .sequences | length] == [1, 2, 1]'
    holds '[.outputs[] | .sequences[0].score != null] == [false, true, false]'
    holds '[.outputs[] | .sequences[0].token_logprobs != null] == [false, true, false]'
    holds '[.outputs[] | .seed] == [null, null, 5]'
}

@test "an option at its neutral value is no error, whatever it does" {
    generate '{"typical_p":1.0,"bad_words_ids":null,"suppress_tokens":[],"top_k":50,
        "temperature":1.0,"num_beams":null,"repetition_penalty":null,"max_new_tokens":14}'
    local neutral
    neutral=$(value tokens)
    greedy
    holds 'tokens == $neutral' --argjson neutral "$neutral"
}
