#!/usr/bin/env bats
# POST /v1/encode: states, pooled vectors, formats, attention weights.
load daemon

setup_file() { daemon_start --model tests/kit/vanilla_post --model tests/kit/vanilla_unbiased; }
teardown_file() { daemon_stop; }

encode() { # JSON_MEMBERS: besides the model
    ok /v1/encode "{\"model\":\"vanilla_post\",$1}"
}

# The numbers of a base64 embedding, one a line.
floats() { # JQ_EXPRESSION
    jq -r "$1" <<<"$answer" | base64 -d | od -An -v -w4 -t f4 | tr -d ' '
}

@test "a row gets a state for each token" {
    encode '"input_ids":[[5,6,7,3],[8,3]]'
    holds '.object == "list" and .model == "vanilla_post" and .dim == 32'
    holds '[.data[] | [.index, .tokens, (.embedding | shape)]] == [[0,4,[4,32]],[1,2,[2,32]]]'
    holds '[.data[].attentions] == [null, null]'
    holds '.usage == {prompt_tokens: 6, total_tokens: 6}'
}

@test "a flat row is one row" {
    encode '"input_ids":[5,6,7,3]'
    local flat=$answer
    encode '"input_ids":[[5,6,7,3]]'
    [ "$answer" = "$flat" ]
}

@test "the states are the reference's" {
    local case
    case=$(jq -c '.encode.batches[0]' tests/kit/vanilla_post/expected.json)
    ok /v1/encode "$(jq -c '{model: "vanilla_post", input_ids, attention_mask}' <<<"$case")"
    holds 'near(.data | map(.embedding); $case.last_hidden_state; 1e-4)' --argjson case "$case"
}

@test "mean, max, cls and last pool over the real tokens only" {
    local row='"input_ids":[[0,5,6,7,3,9]],"attention_mask":[[0,1,1,0,1,0]]'
    encode "$row"
    local states=$answer
    for pooling in mean max cls last; do
        encode "$row,\"pooling\":\"$pooling\""
        holds '.data[0] | .tokens == 3 and (.embedding | shape) == [32]'
        holds '($states.data[0].embedding | [.[1], .[2], .[4]]) as $real | {
            mean: ($real | transpose | map(add / 3)), max: ($real | transpose | map(max)),
            cls: $real[0], last: $real[2] }[$pooling] as $right |
            near(.data[0].embedding; $right; 1e-6)' \
            --argjson states "$states" --arg pooling "$pooling"
    done
}

@test "normalize scales the pooled vector to length 1 and leaves its direction" {
    encode '"input_ids":[[5,6,7,3]],"pooling":"mean"'
    local plain=$answer
    encode '"input_ids":[[5,6,7,3]],"pooling":"mean","normalize":true'
    holds '($plain.data[0].embedding | map(. * .) | add | sqrt) as $length |
        ($length - 1 | fabs) > 0.1 and
        near(.data[0].embedding; $plain.data[0].embedding | map(. / $length); 1e-6)' \
        --argjson plain "$plain"
}

@test "base64 carries the same numbers as float, with their shape" {
    for pooling in none mean; do
        encode "\"input_ids\":[[0,6,7,3]],\"attention_mask\":[[0,1,1,1]],\"pooling\":\"$pooling\""
        local numbers
        numbers=$(value '[.data[0].embedding | .. | numbers]')
        encode "\"input_ids\":[[0,6,7,3]],\"attention_mask\":[[0,1,1,1]],\"pooling\":\"$pooling\",
            \"encoding_format\":\"base64\""
        holds '.data[0].shape == (if $pooling == "none" then [4, 32] else [32] end)' \
            --arg pooling "$pooling"
        floats '.data[0].embedding' |
            jq -se --argjson numbers "$numbers" '. as $bytes | length == ($numbers | length) and
                all(range(length); ($bytes[.] - $numbers[.] | fabs) <= ($numbers[.] | fabs) * 1e-7)'
    done
}

@test "states of masked places are zero" {
    encode '"input_ids":[[9,5,6,9,3,9]],"attention_mask":[[0,1,1,0,1,0]]'
    holds '[.data[0].embedding[] | map(. == 0) | all] == [true,false,false,true,false,true]'
}

@test "attention rows sum to 1 and give masked places nothing" {
    encode '"input_ids":[[9,5,6,9,3]],"attention_mask":[[0,1,1,0,1]],"output_attentions":true'
    holds '.data[0].attentions | shape == [2, 8, 5, 5]'
    holds '[.data[0].attentions[][] | .[1, 2, 4] | add - 1 | fabs < 1e-5] | length == 48 and all'
    holds '[.data[0].attentions[][][] | .[0, 3] | . == 0] | length == 160 and all'
    holds '[.data[0].attentions[][] | .[1, 2, 4] | .[1, 2, 4] | . > 0] | all'
}

@test "attentions of a masked place's own row are zero" {
    encode '"input_ids":[[9,5,6,9,3]],"attention_mask":[[0,1,1,0,1]],"output_attentions":true'
    holds '[.data[0].attentions[][] | .[0, 3][] | . == 0] | length == 160 and all'
}

@test "return_tokens gives the row as sent" {
    encode '"input_ids":[[0,5,6,3,0],[7,3]],"attention_mask":[[0,1,1,1,0],[1,1]],"pooling":"cls",
        "return_tokens":true'
    holds '[.data[].token_ids] == [[0,5,6,3,0],[7,3]] and [.data[].tokens] == [3, 2]'
    encode '"input_ids":[[7,3]],"pooling":"cls"'
    holds '.data[0] | has("token_ids") | not'
}

@test "truncate cuts a row that is too long and keeps its end of sequence" {
    local row
    row=$(jq -nc '[range(130) | . % 70 + 5] + [3]')
    encode "\"input_ids\":[$row,[5,6,3]],\"pooling\":\"last\",\"truncate\":true,
        \"return_tokens\":true"
    holds '.data[0] | .truncated == true and .tokens == 100 and .token_ids == $row[:99] + [3]' \
        --argjson row "$row"
    holds '.data[1] | (.truncated // false) == false and .tokens == 3'
    local cut
    cut=$(value '.data[0].embedding')
    encode "\"input_ids\":[$(jq -c '.[:99] + [3]' <<<"$row")],\"pooling\":\"last\""
    holds '.data[0].embedding == $cut' --argjson cut "$cut"
}

@test "the longest row that the positions allow is served" {
    encode "\"input_ids\":[$(jq -nc '[range(100) | . % 70 + 5]')]"
    holds '.data[0].embedding | shape == [100, 32]'
}

@test "every model answers under its own name" {
    ok /v1/encode '{"model":"vanilla_unbiased","input_ids":[[5,6,3]]}'
    holds '.model == "vanilla_unbiased" and .dim == 28'
    refused 400 missing_field model /v1/encode '{"input_ids":[[5,6,3]]}'
    refused 404 model_not_found model /v1/encode '{"model":"vanilla","input_ids":[[5,6,3]]}'
}

@test "2048 rows are served in one request" {
    jq -nc '{model: "vanilla_post", pooling: "cls", encoding_format: "base64",
        input_ids: [range(2048) | [. % 70 + 5, . % 9 + 5, 3]]}' >"$BATS_TEST_TMPDIR/body"
    ok /v1/encode "@$BATS_TEST_TMPDIR/body"
    holds '[.data[].index] == [range(2048)]'
    holds '.data[17].embedding == .data[17 + 630].embedding and
        .data[17].embedding != .data[18].embedding'
}
