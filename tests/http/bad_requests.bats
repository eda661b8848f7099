#!/usr/bin/env bats
# What is wrong with a request is answered by status, code and place; the daemon goes on.
load daemon

setup_file() { daemon_start --model tests/kit/vanilla_learned; }
teardown_file() { daemon_stop; }

# After each of them a good request is answered as before.
teardown() {
    ok /v1/encode '{"input_ids":[[5,6,7,3]],"pooling":"mean"}'
    holds '.data[0].tokens == 4'
}

bad_encode() { # STATUS CODE PARAM JSON
    refused "$1" "$2" "$3" /v1/encode "$4"
}

bad_generate() { # STATUS CODE OPTION PARAMETERS
    refused "$1" "$2" "parameters.$3" /v1/generate "{\"input_ids\":[[5,3]],\"parameters\":$4}"
}

@test "malformed JSON is refused with line and column" {
    for body in '{' '{"input_ids":[[5]' '{"input_ids":[[5,]]}' "{'input_ids':[[5]]}" 'x' \
        '{"input_ids":[[05]]}' '{"input_ids":[[5]]}}' '{"input_ids":[[5]]} {}' '"a"' '5' 'null'; do
        bad_encode 400 invalid_json - "$body"
    done
    bad_encode 400 invalid_json - $'{\n"input_ids":\n[[5 6]]}'
    holds '.error.message | test("line 3") and test("column [0-9]+")'
    bad_encode 400 wrong_type - '[[5]]'
}

@test "an empty body is malformed JSON" {
    refused 400 invalid_json - /v1/encode '' -X POST -H 'Content-Type: application/json'
    bad_encode 400 invalid_json - ' '
}

@test "a key given twice is refused at any depth" {
    bad_encode 400 invalid_json - '{"input_ids":[[5]],"input_ids":[[6]]}'
    refused 400 invalid_json - /v1/generate \
        '{"input_ids":[[5]],"parameters":{"num_beams":1,"num_beams":2}}'
}

@test "deep nesting is refused, however deep" {
    for depth in 100 2047 2049 100000; do
        printf '%*s' $depth '' | tr ' ' '[' >"$BATS_TEST_TMPDIR/open"
        bad_encode 400 invalid_json - "@$BATS_TEST_TMPDIR/open"
        (printf '{"input_ids":' && cat "$BATS_TEST_TMPDIR/open" && printf '5' &&
            tr '[' ']' <"$BATS_TEST_TMPDIR/open" && printf '}') >"$BATS_TEST_TMPDIR/nested"
        ask /v1/encode "@$BATS_TEST_TMPDIR/nested"
        [ "$status" = 400 ]
        holds '.error.code == "invalid_json" or .error.code == "wrong_type"'
    done
}

@test "ids must be integers that JSON can carry" {
    bad_encode 400 wrong_type 'input_ids[0][1]' '{"input_ids":[[5,5.0]]}'
    bad_encode 400 wrong_type 'input_ids[0][1]' '{"input_ids":[[5,5e0]]}'
    bad_encode 400 wrong_type 'input_ids[0][0]' '{"input_ids":[["5"]]}'
    bad_encode 400 wrong_type 'input_ids[0][0]' '{"input_ids":[[true]]}'
    bad_encode 400 wrong_type 'input_ids[0][0]' '{"input_ids":[[null]]}'
    bad_encode 400 wrong_type 'input_ids[1]' '{"input_ids":[[5],6]}'
    bad_encode 400 wrong_type 'input_ids[1]' '{"input_ids":[5,[6]]}'
    bad_encode 400 wrong_type 'input_ids[0][0]' '{"input_ids":[[[5]]]}'
    for number in 9223372036854775808 -9223372036854775809 99999999999999999999999 1e400 NaN \
        Infinity -Infinity; do
        bad_encode 400 invalid_json - "{\"input_ids\":[[$number]]}"
    done
    ok /v1/encode '{"input_ids":[[-0]],"attention_mask":[[1]]}'
}

@test "ids outside the vocabulary are refused by their place" {
    bad_encode 400 token_out_of_range 'input_ids[1][2]' '{"input_ids":[[5,3],[5,6,67]]}'
    holds '.error.message == "input_ids[1][2] is 67; this model'"'"'s source vocabulary is 0..66"'
    for id in -1 67 2147483647 2147483648 4294967296 9223372036854775807; do
        bad_encode 400 token_out_of_range 'input_ids[0][0]' "{\"input_ids\":[[$id]]}"
    done
    ok /v1/encode '{"input_ids":[[66]]}'
    bad_encode 400 token_out_of_range 'input_ids[1]' '{"input_ids":[5,67]}'
    refused 400 token_out_of_range 'decoder_input_ids[0][1]' /v1/generate \
        '{"input_ids":[[5]],"decoder_input_ids":[[5,75]]}'
    ok /v1/generate '{"input_ids":[[5]],"decoder_input_ids":[[5,74]]}'
}

@test "text that is no UTF-8 is refused, and the answer is UTF-8" {
    for text in '\xff' '\xc3' '\xed\xa0\x80' '\xc0\xaf'; do
        printf '{"input_ids":[[5]],"model":"a%b"}' "$text" >"$BATS_TEST_TMPDIR/body"
        bad_encode 400 invalid_json - "@$BATS_TEST_TMPDIR/body"
        iconv -f UTF-8 -t UTF-8 <<<"$answer" >/dev/null
    done
    printf '\xef\xbb\xbf{"input_ids":[[5]]}' >"$BATS_TEST_TMPDIR/body"
    bad_encode 400 invalid_json - "@$BATS_TEST_TMPDIR/body"
    printf '{"input_ids":[[5]]}\0' >"$BATS_TEST_TMPDIR/body"
    bad_encode 400 invalid_json - "@$BATS_TEST_TMPDIR/body"
    bad_encode 400 invalid_json - '{"input_ids":[[5]],"model":"a\u0000b"}'
    bad_encode 400 invalid_json - '{"input_ids":[[5]],"model":"\ud800"}'
    bad_encode 404 model_not_found model '{"input_ids":[[5]],"model":"ü\n\u0001"}'
    holds '.error.message | test("ü\n\u0001")'
}

@test "an unknown field is refused by its name, wherever it is" {
    bad_encode 400 unknown_field input '{"input_ids":[[5]],"input":[[5]]}'
    bad_encode 400 unknown_field parameters '{"input_ids":[[5]],"parameters":{}}'
    bad_encode 400 unknown_field target_ids '{"input_ids":[[5]],"target_ids":[[5]]}'
    refused 400 unknown_field pooling /v1/generate '{"input_ids":[[5]],"pooling":"mean"}'
    refused 400 unknown_field num_beams /v1/generate '{"input_ids":[[5]],"num_beams":2}'
    bad_generate 400 unknown_field beams '{"beams":2}'
    bad_generate 400 unknown_field '' '{"":2}'
    refused 400 unknown_field 'parameters[1].beams' /v1/generate \
        '{"input_ids":[[5],[5]],"parameters":[{},{"beams":2}]}'
}

@test "missing and contradictory inputs are refused" {
    bad_encode 400 missing_field input_ids '{}'
    bad_encode 400 missing_field input_ids '{"pooling":"mean"}'
    bad_encode 400 unsupported inputs '{"input_ids":[[5]],"inputs":"a"}'
    bad_encode 400 unsupported inputs '{"inputs":["a"]}'
    bad_encode 400 wrong_type input_ids '{"input_ids":"5 6"}'
    bad_encode 400 wrong_type input_ids '{"input_ids":null}'
    bad_encode 400 wrong_type input_ids '{"input_ids":{"a":[5]}}'
    bad_encode 400 wrong_type model '{"input_ids":[[5]],"model":5}'
}

@test "empty and all-masked rows are refused by their number" {
    bad_encode 400 empty_row input_ids '{"input_ids":[]}'
    bad_encode 400 empty_row 'input_ids[0]' '{"input_ids":[[]]}'
    bad_encode 400 empty_row 'input_ids[1]' '{"input_ids":[[5],[],[5]]}'
    bad_encode 400 empty_row 'input_ids[1]' '{"input_ids":[[5],[5]],"attention_mask":[[1],[0]]}'
    bad_encode 400 empty_row input_ids '{"input_ids":[5],"attention_mask":[0]}'
    refused 400 empty_row 'input_ids[0]' /v1/generate \
        '{"input_ids":[[5,6]],"attention_mask":[[0,0]]}'
}

@test "a mask of another shape or with other values is refused" {
    bad_encode 400 mask_shape 'attention_mask[0]' '{"input_ids":[[5,6]],"attention_mask":[[1]]}'
    bad_encode 400 mask_shape 'attention_mask[1]' \
        '{"input_ids":[[5],[6]],"attention_mask":[[1],[1,1]]}'
    bad_encode 400 mask_shape attention_mask '{"input_ids":[[5],[6]],"attention_mask":[[1]]}'
    bad_encode 400 mask_shape attention_mask '{"input_ids":[[5]],"attention_mask":[1]}'
    bad_encode 400 out_of_range 'attention_mask[0][1]' \
        '{"input_ids":[[5,6]],"attention_mask":[[1,2]]}'
    bad_encode 400 out_of_range 'attention_mask[0][0]' '{"input_ids":[[5]],"attention_mask":[[-1]]}'
    bad_encode 400 out_of_range 'attention_mask[0][0]' \
        '{"input_ids":[[5]],"attention_mask":[[1.0]]}'
    bad_encode 400 wrong_type 'attention_mask' '{"input_ids":[[5]],"attention_mask":true}'
}

@test "rows beyond the model's positions are refused with both lengths" {
    bad_encode 400 too_long 'input_ids[1]' \
        "{\"input_ids\":[[5],$(jq -nc '[range(101) | 5]')]}"
    holds '.error.message | test("101") and test("100")'
    refused 400 too_long 'decoder_input_ids' /v1/generate \
        "{\"input_ids\":[[5]],\"decoder_input_ids\":[$(jq -nc '[range(100) | 5]')]}"
    bad_generate 400 out_of_range max_new_tokens '{"max_new_tokens":100}'
    bad_generate 400 out_of_range max_length '{"max_length":101}'
    ok /v1/generate '{"input_ids":[[5,3]],"parameters":{"max_length":100}}'
}

@test "fields of the wrong type or range are refused" {
    bad_encode 400 out_of_range pooling '{"input_ids":[[5]],"pooling":"sum"}'
    bad_encode 400 wrong_type pooling '{"input_ids":[[5]],"pooling":1}'
    bad_encode 400 wrong_type normalize '{"input_ids":[[5]],"normalize":1}'
    bad_encode 400 unsupported normalize '{"input_ids":[[5]],"normalize":true}'
    bad_encode 400 out_of_range encoding_format '{"input_ids":[[5]],"encoding_format":"hex"}'
    bad_encode 400 wrong_type truncate '{"input_ids":[[5]],"truncate":"yes"}'
    bad_encode 400 out_of_range timeout_ms '{"input_ids":[[5]],"timeout_ms":0}'
    bad_encode 400 out_of_range timeout_ms '{"input_ids":[[5]],"timeout_ms":60001}'
    bad_encode 400 wrong_type timeout_ms '{"input_ids":[[5]],"timeout_ms":1.5}'
    refused 400 unsupported stream /v1/generate '{"input_ids":[[5]],"stream":true}'
    refused 400 wrong_type partial /v1/generate '{"input_ids":[[5]],"partial":1}'
}

@test "options out of range are refused by name" {
    bad_generate 400 out_of_range num_beams '{"num_beams":0}'
    bad_generate 400 out_of_range num_return_sequences '{"num_return_sequences":0}'
    bad_generate 400 out_of_range max_new_tokens '{"max_new_tokens":0}'
    bad_generate 400 out_of_range max_new_tokens '{"max_new_tokens":-1}'
    bad_generate 400 out_of_range max_length '{"max_length":1}'
    bad_generate 400 out_of_range temperature '{"do_sample":true,"temperature":0}'
    bad_generate 400 out_of_range top_p '{"do_sample":true,"top_p":1.1}'
    bad_generate 400 out_of_range top_k '{"do_sample":true,"top_k":-1}'
    bad_generate 400 out_of_range min_p '{"do_sample":true,"min_p":-0.1}'
    bad_generate 400 out_of_range repetition_penalty '{"repetition_penalty":0}'
    bad_generate 400 out_of_range repetition_penalty '{"repetition_penalty":-1}'
    bad_generate 400 out_of_range seed '{"do_sample":true,"seed":9007199254740992}'
    bad_generate 400 out_of_range seed '{"do_sample":true,"seed":-1}'
    bad_generate 400 out_of_range logprobs '{"logprobs":-1}'
    for id in -1 75 2147483648; do
        bad_generate 400 token_out_of_range forced_bos_token_id "{\"forced_bos_token_id\":$id}"
        bad_generate 400 token_out_of_range decoder_start_token_id \
            "{\"decoder_start_token_id\":$id}"
    done
    bad_generate 400 token_out_of_range 'eos_token_id[1]' '{"eos_token_id":[3,75]}'
}

@test "options of the wrong type are refused by name" {
    bad_generate 400 wrong_type num_beams '{"num_beams":2.0}'
    bad_generate 400 wrong_type num_beams '{"num_beams":"2"}'
    bad_generate 400 wrong_type do_sample '{"do_sample":1}'
    bad_generate 400 wrong_type early_stopping '{"early_stopping":"always"}'
    bad_generate 400 wrong_type temperature '{"temperature":"hot"}'
    bad_generate 400 wrong_type logprobs '{"logprobs":true}'
    bad_generate 400 wrong_type 'eos_token_id[0]' '{"eos_token_id":[[3]]}'
    refused 400 wrong_type parameters /v1/generate '{"input_ids":[[5]],"parameters":5}'
    refused 400 wrong_type parameters /v1/generate '{"input_ids":[[5]],"parameters":null}'
    refused 400 out_of_range parameters /v1/generate '{"input_ids":[[5]],"parameters":[{},{}]}'
    refused 400 out_of_range decoder_input_ids /v1/generate \
        '{"input_ids":[[5]],"decoder_input_ids":[[5],[5]]}'
}

@test "options that are not built are refused, never ignored" {
    for option in '"stop":["a"]' '"target_lang":"de"' '"num_beam_groups":2' '"penalty_alpha":0.6' \
        '"guidance_scale":1.5' '"max_time":1.0'; do
        local name=${option%%:*}
        bad_generate 400 unsupported "${name//\"/}" "{$option}"
    done
}

@test "lists among the options are refused at the place that is wrong" {
    bad_generate 400 wrong_type 'bad_words_ids[0]' '{"bad_words_ids":[5]}'
    bad_generate 400 out_of_range 'bad_words_ids[1]' '{"bad_words_ids":[[5],[]]}'
    bad_generate 400 token_out_of_range 'bad_words_ids[0][1]' '{"bad_words_ids":[[5,70000]]}'
    holds '.error.message | test("is 70000; this model.s target vocabulary is 0[.][.][0-9]+$")'
    bad_generate 400 wrong_type 'sequence_bias[0][1]' '{"sequence_bias":[[[5],"1"]]}'
    bad_generate 400 out_of_range 'exponential_decay_length_penalty[1]' \
        '{"exponential_decay_length_penalty":[3,-1]}'
    bad_generate 400 out_of_range suppress_tokens '{"suppress_tokens":[5],"forced_bos_token_id":5}'
    holds '.error.message | contains("forced_bos_token_id")'
    bad_generate 400 out_of_range allowed_token_ids '{"allowed_token_ids":[]}'
    refused 400 token_out_of_range 'parameters[1].suppress_tokens[1]' /v1/generate \
        '{"input_ids":[[5],[5]],"parameters":[{},{"suppress_tokens":[5,70000]}]}'
}

@test "any content type but JSON is refused and told which to send" {
    for type in text/plain application/x-www-form-urlencoded application/jsonx \
        'multipart/form-data; boundary=x' 'application/json; charset=latin1' \
        'application/json;x=y;Charset=utf-16' 'application/json; charset="utf-8' \
        'application/json; charset='; do
        refused 415 unsupported_media_type Content-Type /v1/encode '' -d '{"input_ids":[[5]]}' \
            -H "Content-Type: $type"
        holds '.error.message | test("Content-Type: application/json")'
    done
    for type in application/json 'Application/JSON; charset=utf-8' 'application/json;' \
        'application/json;charset="UTF-8" ; profile=x' 'application/json; charset=utf8'; do
        ask /v1/encode '' -d '{"input_ids":[[5]]}' -H "Content-Type: $type"
        [ "$status" = 200 ]
    done
    ask /v1/encode '' -d '{"input_ids":[[5]]}' -H 'Content-Type:'
    [ "$status" = 200 ]
    refused 400 unsupported Content-Type /v1/encode '{"input_ids":[[5]]}' \
        -H 'Content-Type: text/plain'
}

@test "a multipart form is refused unparsed" {
    refused 415 unsupported_media_type Content-Type /v1/encode '' -F 'input_ids=[[5]]'
}

@test "a compressed body is refused" {
    gzip -c <<<'{"input_ids":[[5]]}' >"$BATS_TEST_TMPDIR/body.gz"
    refused 415 unsupported_media_type Content-Encoding /v1/encode "@$BATS_TEST_TMPDIR/body.gz" \
        -H 'Content-Encoding: gzip'
    ok /v1/encode '{"input_ids":[[5]]}' -H 'Content-Encoding: identity'
}
