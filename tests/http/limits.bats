#!/usr/bin/env bats
# One request's limits: 413 names the limit and its value, whatever else is going on.
load daemon

setup_file() {
    daemon_start --model tests/kit/vanilla_post --limits.body_bytes 4KiB \
        --limits.bodies_bytes 12KiB --limits.sequences 4 \
        --limits.source_tokens 50 --limits.target_tokens 20 --limits.beams 4 \
        --limits.return_sequences 3 --limits.top_logprobs 2 --limits.option_tokens 3 \
        --limits.max_new_tokens 30 --limits.default_max_new_tokens 12 \
        --limits.response_bytes 20KiB --limits.queue_sequences 4 --limits.request_timeout_ms 20000
}
teardown_file() { daemon_stop; }

over() { # LIMIT PARAM ROUTE JSON: refused for the limit, named with its value
    local limit=$1 param=$2
    shift 2
    refused 413 over_limit "$param" "$@"
    holds '.error.message | contains($limit)' --arg limit "$limit"
}

# So many rows of so many tokens.
rows() { jq -nc "[range($1) | [range($2) | . % 60 + 5]]"; }

@test "body bytes, said or found while reading" {
    local body
    body=$(printf '%4097s' '{"input_ids":[[5]]}')
    over 'limits.body_bytes is 4096' - /v1/encode "$body"
    over 'limits.body_bytes, 4096' - /v1/encode "$body" -H 'Transfer-Encoding: chunked'
    ok /v1/encode "${body:1}"
    ok /v1/encode "${body:1}" -H 'Transfer-Encoding: chunked'
}

@test "a body far beyond the limit is answered and not read to the end" {
    head -c 4000000 /dev/zero | tr '\0' ' ' >"$BATS_TEST_TMPDIR/body"
    over 'limits.body_bytes is 4096' - /v1/encode "@$BATS_TEST_TMPDIR/body"
    [ "$(header connection)" = close ]
}

# Leaves a request open that has sent 3000 of 4000 bytes of its body.
begin_body() { # VARIABLE: of the descriptor
    exec {opened}<>"/dev/tcp/127.0.0.1/${url##*:}"
    printf 'POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n%3000s' '' \
        >&"$opened"
    printf -v "$1" %s "$opened"
}

no_room() { # for a body of 4000 bytes, of whose length nothing is said
    ask /v1/encode "$(printf '%4000s' '{"input_ids":[[5]]}')" -H 'Transfer-Encoding: chunked'
    [ "$status" = 429 ]
}

@test "all bodies together: who finds no room is told, short ones find it, room comes back" {
    local a b c opened before=$EPOCHREALTIME
    for name in a b c; do begin_body $name; done
    await 5 no_room
    holds '.error | .code == "queue_full" and (.message | contains("limits.bodies_bytes is 12288"))'
    [ "$(header retry-after)" = 1 ] && [ "$(metric seqd_http_bodies_refused_total)" -ge 1 ]
    awk -v from="$before" -v to="$EPOCHREALTIME" 'BEGIN { exit !(to - from < 5) }'
    ok /v1/encode "$(printf '%4000s' '{"input_ids":[[5]]}')"
    [ "$(status /readyz)" = 200 ]
    printf '%1000s' '{"input_ids":[[5]]}' >&"$a"
    [[ $(timeout 5 head -n 1 <&"$a") == 'HTTP/1.1 200'* ]]
    exec {b}>&- {c}>&- {a}>&-
    room_is_back() { ! no_room && [ "$status" = 200 ]; }
    await 5 room_is_back
}

@test "rows" {
    over 'limits.sequences is 4' input_ids /v1/encode "{\"input_ids\":$(rows 5 3)}"
}

@test "source tokens, masked ones too" {
    over 'limits.source_tokens is 50' 'input_ids[1]' /v1/encode \
        "{\"input_ids\":[[5],$(rows 1 51 | jq -c '.[0]')],\"pooling\":\"mean\"}"
    over 'limits.source_tokens is 50' 'input_ids[0]' /v1/encode \
        "{\"input_ids\":[$(jq -nc '[5] + [range(50) | 0]')],\"pooling\":\"mean\"}"
    ok /v1/encode "{\"input_ids\":$(rows 1 50),\"pooling\":\"mean\"}"
    ok /v1/encode "{\"input_ids\":$(rows 1 51),\"pooling\":\"mean\",\"truncate\":true}"
    holds '.data[0] | .tokens == 50 and .truncated'
}

@test "target tokens" {
    over 'limits.target_tokens is 20' 'target_ids[0]' /v1/score \
        "{\"input_ids\":[[5]],\"target_ids\":$(rows 1 21)}"
    over 'limits.target_tokens is 20' decoder_input_ids /v1/generate \
        "{\"input_ids\":[[5]],\"decoder_input_ids\":$(rows 1 21)}"
    ok /v1/score "{\"input_ids\":[[5]],\"target_ids\":$(rows 1 20)}"
}

@test "beams, sequences, log-probabilities and new tokens" {
    for case in num_beams:5:beams:4 num_return_sequences:4:return_sequences:3 \
        logprobs:3:top_logprobs:2 max_new_tokens:31:max_new_tokens:30 \
        max_length:32:max_new_tokens:30; do
        IFS=: read -r option given limit value <<<"$case"
        local more=''
        [ "$option" != num_return_sequences ] || more=',"do_sample":true'
        over "limits.$limit is $value" "parameters.$option" /v1/generate \
            "{\"input_ids\":[[5,3]],\"parameters\":{\"$option\":$given$more}}"
        ok /v1/generate "{\"input_ids\":[[5,3]],\"parameters\":{\"$option\":$((given - 1))$more}}"
    done
    over 'limits.top_logprobs is 2' logprobs /v1/score \
        '{"input_ids":[[5]],"target_ids":[[5]],"logprobs":3}'
}

@test "the token ids of a list among the options, words together" {
    for list in '"suppress_tokens":[4,5,6,7]' '"bad_words_ids":[[4,5],[6,7]]' \
        '"sequence_bias":[[[4,5],1],[[6,7],1]]'; do
        over 'limits.option_tokens is 3' "parameters.$(cut -d'"' -f2 <<<"$list")" /v1/generate \
            "{\"input_ids\":[[5,3]],\"parameters\":{$list}}"
    done
    ok /v1/generate '{"input_ids":[[5,3]],"parameters":{"bad_words_ids":[[4,5],[6]]}}'
}

@test "the size of the answer, before anything is computed" {
    local before=
    before=$(metric 'seqd_prompt_tokens_total{model="vanilla_post"}')
    over 'limits.response_bytes is 20480' - /v1/encode "{\"input_ids\":$(rows 3 45)}"
    over 'limits.response_bytes is 20480' - /v1/encode \
        "{\"input_ids\":$(rows 1 40),\"pooling\":\"mean\",\"output_attentions\":true}"
    over 'limits.response_bytes is 20480' - /v1/score "{\"input_ids\":$(rows 1 40),
        \"target_ids\":$(rows 1 20),\"output_attentions\":true}"
    over 'limits.response_bytes is 20480' - /v1/generate "{\"input_ids\":$(rows 1 40),
        \"parameters\":{\"output_attentions\":true,\"max_new_tokens\":30}}"
    [ "$(metric 'seqd_prompt_tokens_total{model="vanilla_post"}')" = "$before" ]
}

@test "a default length is the configured one and never beyond the limit" {
    ok /v1/generate '{"input_ids":[[5,6,7,3]],"parameters":{"max_length":null,"eos_token_id":null}}'
    holds '.outputs[0].sequences[0] | (.token_ids | length) == 12 and .finish_reason == "length"'
}

@test "a timeout beyond the configured one is refused" {
    refused 400 out_of_range timeout_ms /v1/encode '{"input_ids":[[5]],"timeout_ms":20001}'
    ok /v1/encode '{"input_ids":[[5]],"timeout_ms":20000}'
}

@test "every limit is told with the model" {
    ask /v1/models/vanilla_post
    holds '.limits == {body_bytes: 4096, bodies_bytes: 12288, response_bytes: 20480,
        answers_bytes: 1073741824, sequences: 4, source_tokens: 50, target_tokens: 20, beams: 4,
        return_sequences: 3, top_logprobs: 2, option_tokens: 3,
        default_max_new_tokens: 12, max_new_tokens: 30, queue_sequences: 4,
        request_timeout_ms: 20000}'
}
