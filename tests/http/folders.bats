#!/usr/bin/env bats
# What the files of a model folder decide: defaults of generation, the decoder's start, padding; and
# what ends the start of the daemon.
load daemon

setup() {
    folder=$BATS_TEST_TMPDIR/model
}
teardown() { daemon_stop; }

# A copy of a folder under tests/kit, its config.json changed.
copy() { # CASE JQ_EXPRESSION
    rm -rf "$folder"
    mkdir "$folder"
    cp "tests/kit/$1/"*.safetensors "$folder"
    jq "$2" "tests/kit/$1/config.json" >"$folder/config.json"
}

# What `seqd check` says about the folder, which it must refuse.
refused_folder() { # PATTERN
    local said
    if said=$("$SEQD" check --model "$folder" 2>&1 3>&-); then
        fail "not refused: $said"
    fi
    [[ $said == *$1* ]] || fail "\"$said\" does not say \"$1\""
}

row='"input_ids":[[5,6,7,8,9]],"attention_mask":[[1,1,1,1,1]]'

@test "generation_config.json hides the options of config.json, which count without it" {
    copy marian '. + {num_beams: 4, max_length: 7}'
    daemon_start --model "$folder"
    ok /v1/generate "{$row,\"parameters\":{\"min_length\":7}}"
    holds '.outputs[0].sequences[0] | .score != null and (.token_ids | length == 6)'
    daemon_stop
    echo '{"transformers_version": "4.40.0"}' >"$folder/generation_config.json"
    daemon_start --model "$folder"
    ok /v1/generate "{$row,\"parameters\":{\"min_length\":30}}"
    holds '.outputs[0].sequences[0] | .score == null and (.token_ids | length >= 29)'
    daemon_stop
    echo '{"num_beams": 3, "max_length": null}' >"$folder/generation_config.json"
    daemon_start --model "$folder"
    ok /v1/generate "{$row,\"parameters\":{\"min_length\":30}}"
    holds '.outputs[0].sequences[0] | .score != null and (.token_ids | length >= 29)'
}

@test "the decoder starts with what the files name" {
    local answer_7
    copy t5 '.decoder_start_token_id = 7'
    daemon_start --model "$folder"
    ok /v1/generate "{$row,\"parameters\":{\"logprobs\":0,\"max_new_tokens\":9}}"
    answer_7=$(value .outputs)
    ok /v1/generate "{$row,\"parameters\":{\"logprobs\":0,\"max_new_tokens\":9,
        \"decoder_start_token_id\":0}}"
    [ "$(value .outputs)" != "$answer_7" ]
    daemon_stop
    copy t5 'del(.decoder_start_token_id)'
    echo '{"decoder_start_token_id": 7, "eos_token_id": 1}' >"$folder/generation_config.json"
    daemon_start --model "$folder"
    ok /v1/generate "{$row,\"parameters\":{\"logprobs\":0,\"max_new_tokens\":9}}"
    [ "$(value .outputs)" = "$answer_7" ]
    daemon_stop
    copy t5 'del(.decoder_start_token_id) + {bos_token_id: 7}'
    daemon_start --model "$folder"
    ok /v1/generate "{$row,\"parameters\":{\"logprobs\":0,\"max_new_tokens\":9}}"
    [ "$(value .outputs)" = "$answer_7" ]
}

@test "a decoder without a start is refused by the name of the field" {
    copy t5 '.decoder_start_token_id = null | .bos_token_id = null'
    refused_folder decoder_start_token_id
}

@test "padding that is also an end is no padding" {
    copy t5 '.pad_token_id = 1'
    daemon_start --model "$folder"
    ok /v1/encode '{"input_ids":[[5,6,7,1,1]]}'
    holds '.data[0].tokens == 5'
    local all
    all=$(value .data)
    ok /v1/encode '{"input_ids":[[5,6,7,1,1]],"attention_mask":[[1,1,1,1,1]]}'
    [ "$(value .data)" = "$all" ]
}

@test "a configuration that does not fit the weights is refused by field or tensor" {
    copy bart '.d_model *= 2'
    refused_folder 'model.shared.weight*asks for'
    copy bart '.vocab_size += 1'
    refused_folder 'model.shared.weight*asks for'
    copy bart '.encoder_attention_heads = 3'
    refused_folder encoder_attention_heads
    copy t5 '.num_layers += 1'
    refused_folder 'encoder.block.2.layer.0.SelfAttention.q.weight*is missing'
    copy umt5 '.d_kv += 1'
    refused_folder 'encoder.block.0.layer.0.SelfAttention.q.weight*asks for'
    copy t5 '.model_type = "t6"'
    refused_folder t6
}

@test "a folder of an encoder alone encodes and says why it does not generate" {
    daemon_start --model tests/kit/bert
    ok /v1/encode '{"input_ids":[[5,6,7]]}'
    for route in generate score; do
        ask /v1/$route '{"input_ids":[[5,6,7]],"target_ids":[[5]]}'
        [ "$status" = 400 ]
    done
    refused 400 unsupported model /v1/generate '{"input_ids":[[5,6,7]]}'
}
