#!/usr/bin/env bats
# POST /v1/generate with do_sample: seeds, streams of sequences, warpers.
load daemon

setup_file() { daemon_start --model tests/kit/vanilla_cosine; }
teardown_file() { daemon_stop; }

sample() { # PARAMETERS: besides do_sample and the lengths
    ok /v1/generate "{\"input_ids\":[[2,31,40,38,64,47,38,3]],\"parameters\":{\"do_sample\":true,
        \"max_new_tokens\":12,\"min_new_tokens\":12,$1}}"
}

greedy() {
    ok /v1/generate '{"input_ids":[[2,31,40,38,64,47,38,3]],
        "parameters":{"max_new_tokens":12,"min_new_tokens":12}}'
    greedy=$(value tokens)
}

@test "the same seed gives the same answer, another one another" {
    sample '"seed":7,"logprobs":2'
    holds '.outputs[0].seed == 7'
    local first
    first=$(value .outputs)
    sample '"seed":7,"logprobs":2'
    [ "$(value .outputs)" = "$first" ]
    sample '"seed":8,"logprobs":2'
    [ "$(value tokens)" != "$(jq -c '[.[0].sequences[0].token_ids]' <<<"$first")" ]
}

@test "a seed that was not given is told and repeats the answer" {
    sample '"num_return_sequences":2'
    local first seed
    first=$(value .outputs)
    seed=$(value '.outputs[0].seed')
    [ "$seed" -ge 0 ] && [ "$seed" -le 9007199254740991 ]
    sample "\"num_return_sequences\":2,\"seed\":$seed"
    [ "$(value .outputs)" = "$first" ]
    sample '"num_return_sequences":2'
    [ "$(value '.outputs[0].seed')" != "$seed" ]
}

@test "the greatest seed is one" {
    sample '"seed":9007199254740991'
    holds '.outputs[0].seed == 9007199254740991'
    sample '"seed":0'
    holds '.outputs[0].seed == 0'
}

@test "each sequence has a stream of its own" {
    sample '"seed":7,"num_return_sequences":6'
    holds 'tokens | length == 6 and (unique | length) > 3'
    local six
    six=$(value tokens)
    sample '"seed":7,"num_return_sequences":2'
    holds 'tokens == $six[:2]' --argjson six "$six"
}

@test "a seed gives the same beside other rows" {
    sample '"seed":7'
    local alone
    alone=$(value 'tokens[0]')
    ok /v1/generate '{"input_ids":[[5,6,7,3],[2,31,40,38,64,47,38,3],[9,3]],"parameters":{
        "do_sample":true,"max_new_tokens":12,"min_new_tokens":12,"seed":7}}'
    holds 'tokens[1] == $alone' --argjson alone "$alone"
}

@test "warpers that leave one token are greedy" {
    greedy
    for warper in '"top_k":1' '"top_p":0.000001' '"min_p":1.0' '"temperature":0.0001'; do
        sample "\"seed\":3,$warper"
        holds 'tokens == $greedy' --argjson greedy "$greedy"
    done
    sample '"seed":3,"top_k":0'
    holds 'tokens != $greedy' --argjson greedy "$greedy"
}

@test "top_k leaves so many candidates, and only they are drawn" {
    sample '"seed":1,"top_k":3,"num_return_sequences":8,"logprobs":10'
    holds '[.outputs[0].sequences[].top_logprobs[] | length] | all(. == 3)'
    holds '[.outputs[0].sequences[] | [.token_ids, .top_logprobs] | transpose[] |
        .[0] as $id | .[1] | map(.id) | index($id) != null] | length == 96 and all'
    holds '[.outputs[0].sequences[].top_logprobs[] | map(.logprob | exp) | add - 1 |
        fabs < 1e-4] | all'
}

@test "the log-probability is that of the warped distribution" {
    sample '"seed":1,"top_k":3,"temperature":0.7,"logprobs":3'
    holds '.outputs[0].sequences[0] | [.token_ids, .token_logprobs, .top_logprobs] | transpose |
        all(.[0] as $id | .[1] as $logprob | .[2] | any(.id == $id and .logprob == $logprob))'
    holds '.outputs[0].sequences[0] | near(.token_logprobs | add; .logprob; 1e-4)'
}

@test "draws follow the distribution" {
    # 2000 first tokens against their probabilities: chi-square with 4 degrees of freedom.
    ok /v1/generate "$(jq -nc '{input_ids: [range(100) | [2,31,40,38,64,47,38,3]], parameters:
        [range(100) | {do_sample: true, seed: ., top_k: 5, max_new_tokens: 1, logprobs: 5,
         num_return_sequences: 20}]}')"
    holds '[.outputs[].sequences[].token_ids[0]] as $drawn | ($drawn | length) == 2000 and
        (.outputs[0].sequences[0].top_logprobs[0] |
            map((.logprob | exp * 2000) as $expected | .id as $id |
                ([$drawn[] | select(. == $id)] | length) -
                $expected | . * . / $expected) | add < 23.5)'
}

@test "sampling with beams is refused, beams without sampling need no more sequences than beams" {
    refused 400 unsupported parameters.num_beams /v1/generate \
        '{"input_ids":[[5,3]],"parameters":{"do_sample":true,"num_beams":2}}'
    refused 400 out_of_range parameters.num_return_sequences /v1/generate \
        '{"input_ids":[[5,3]],"parameters":{"num_return_sequences":2}}'
    refused 400 out_of_range parameters.num_return_sequences /v1/generate \
        '{"input_ids":[[5,3]],"parameters":{"num_beams":2,"num_return_sequences":3}}'
}
