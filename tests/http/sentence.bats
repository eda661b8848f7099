#!/usr/bin/env bats
# /v1/encode on folders of sentence-transformers: what modules.json says, and what overrides it.
load daemon

# Numbers in bfloat16, little-endian: 1, 0.5, -0.25.
bf16=('\x80\x3f' '\x00\x3f' '\x80\xbe')

# A module's weight file: linear.weight, a row for each number, COLUMNS wide.
dense_weights() { # DIR COLUMNS NUMBER NUMBER NUMBER
    local header row i
    header="{\"linear.weight\":{\"dtype\":\"BF16\",\"shape\":[3,$2],"
    header+="\"data_offsets\":[0,$((6 * $2))]}}"
    {
        printf "\\x$(printf %02x ${#header})\0\0\0\0\0\0\0%s" "$header"
        for row in "${@:3}"; do
            for ((i = 0; i < $2; i++)); do printf "$row"; done
        done
    } >"$1/model.safetensors"
}

module() { # CLASS PATH
    printf '{"name":"%s","path":"%s","type":"sentence_transformers.models.%s"}' "$2" "$2" "$1"
}

# vanilla_post with [cls; max], a Dense 64 -> 3 with tanh, Normalize, and a limit of 6 tokens.
sentence_folder() { # DIR
    cp -r tests/kit/vanilla_post "$1"
    mkdir "$1/1_Pooling" "$1/2_Dense"
    echo "[$(module Transformer ''),$(module Pooling 1_Pooling),$(module Dense 2_Dense),$(
        module Normalize 3_Normalize)]" >"$1/modules.json"
    echo '{"word_embedding_dimension":32,"pooling_mode_cls_token":true,
        "pooling_mode_mean_tokens":false,"pooling_mode_max_tokens":true}' \
        >"$1/1_Pooling/config.json"
    echo '{"in_features":64,"out_features":3,"bias":false}' >"$1/2_Dense/config.json"
    echo '{"max_seq_length":6,"do_lower_case":false}' >"$1/sentence_bert_config.json"
    echo '{"prompts":{"query":"q: "},"default_prompt_name":"query"}' \
        >"$1/config_sentence_transformers.json"
    dense_weights "$1/2_Dense" 64 "${bf16[@]}"
}

# The same, joined only.
wide_folder() { # DIR
    sentence_folder "$1"
    echo "[$(module Transformer ''),$(module Pooling 1_Pooling)]" >"$1/modules.json"
}

# Weights so large that no vector is finite.
infinite_folder() { # DIR
    sentence_folder "$1"
    sed -i 's/"bias":false/&,"activation_function":"torch.nn.modules.linear.Identity"/' \
        "$1/2_Dense/config.json"
    dense_weights "$1/2_Dense" 64 '\x7f\x7f' '\x7f\x7f' '\x7f\x7f'
}

setup_file() {
    sentence_folder "$BATS_FILE_TMPDIR/sentence"
    wide_folder "$BATS_FILE_TMPDIR/wide"
    infinite_folder "$BATS_FILE_TMPDIR/infinite"
    daemon_start --model "$BATS_FILE_TMPDIR/sentence" --model "$BATS_FILE_TMPDIR/wide" \
        --model "$BATS_FILE_TMPDIR/infinite" --model tests/kit/vanilla_post \
        --limits.response_bytes 65536
}
teardown_file() { daemon_stop; }

encode() { # MODEL JSON_MEMBERS
    ok /v1/encode "{\"model\":\"$1\",$2}"
}

# `projected`: the vector of states, before Normalize.
jq_library+='
    def joined: .[0] + (transpose | map(max));
    def projected: (joined | add) as $sum | [$sum, $sum / 2, -$sum / 4] | map(tanh);
    def unit: (map(. * .) | add | sqrt) as $length | map(. / $length);
'

row='"input_ids":[[5,6,7,3],[40,41,3]]'

@test "a row gets the vector that the modules make of its states" {
    encode vanilla_post "$row"
    local states=$answer
    encode sentence "$row"
    holds '.dim == 3 and [.data[].embedding | shape] == [[3], [3]]'
    holds 'near(.data | map(.embedding); $states.data | map(.embedding | projected | unit); 1e-5)' \
        --argjson states "$states"
    encode wide "$row"
    holds '.dim == 64'
    holds 'near(.data | map(.embedding); $states.data | map(.embedding | joined); 1e-6)' \
        --argjson states "$states"
}

@test "a row's vector is the same alone and among others" {
    encode sentence "$row"
    local both=$answer
    encode sentence '"input_ids":[40,41,3]'
    holds '.data[0].embedding == $both.data[1].embedding' --argjson both "$both"
}

@test "padding at the end counts for nothing" {
    encode sentence '"input_ids":[[5,6,7,3,0,0]]'
    local padded=$answer
    encode sentence '"input_ids":[[5,6,7,3]]'
    holds '.data[0].embedding == $padded.data[0].embedding' --argjson padded "$padded"
}

@test "normalize false leaves the last Normalize out" {
    encode vanilla_post "$row"
    local states=$answer
    encode sentence "$row,\"normalize\":false"
    holds 'near(.data | map(.embedding); $states.data | map(.embedding | projected); 1e-5)' \
        --argjson states "$states"
}

@test "pooling none gives the states" {
    encode vanilla_post "$row"
    local states=$answer
    encode sentence "$row,\"pooling\":\"none\""
    holds '.dim == 32 and (.data | map(.embedding)) == ($states.data | map(.embedding))' \
        --argjson states "$states"
    refused 400 unsupported normalize /v1/encode \
        "{\"model\":\"sentence\",$row,\"pooling\":\"none\",\"normalize\":true}"
}

@test "a pooling of the request's is plain, and of length 1 if the folder's vectors are" {
    for pooling in mean max cls last; do
        encode vanilla_post "$row,\"pooling\":\"$pooling\",\"normalize\":true"
        local plain=$answer
        encode sentence "$row,\"pooling\":\"$pooling\""
        holds '.dim == 32 and .data == $plain.data' --argjson plain "$plain"
        encode wide "$row,\"pooling\":\"$pooling\""
        holds '.dim == 32 and ([.data[0].embedding[] | . * .] | add - 1 | fabs) > 0.01'
    done
}

@test "base64 has the vector's shape" {
    encode sentence "$row,\"encoding_format\":\"base64\""
    holds '[.data[].shape] == [[3], [3]] and (.data[0].embedding | length) == 16'
}

@test "truncate cuts where the folder says, and nothing else does" {
    encode sentence '"input_ids":[[5,6,7,8,9,10,11,12,3]],"truncate":true,"return_tokens":true'
    holds '.data[0] | .truncated == true and .token_ids == [5,6,7,8,9,3]'
    local cut=$answer
    encode sentence '"input_ids":[[5,6,7,8,9,3]]'
    holds '.data[0].embedding == $cut.data[0].embedding' --argjson cut "$cut"
    encode sentence '"input_ids":[[5,6,7,8,9,10,11,12,3]]'
    holds '.data[0] | .tokens == 9 and has("truncated") == false'
    ok /v1/generate '{"model":"sentence","input_ids":[[5,6,7,8,9,10,11,12,3]],"truncate":true}'
    holds '.usage.prompt_tokens == 9'
}

@test "the answer's size is reckoned with the length of its vectors" {
    local rows
    rows=$(jq -nc '[range(150) | [. % 70 + 5, 3]]')
    encode sentence "\"input_ids\":$rows"
    encode sentence "\"input_ids\":$rows,\"pooling\":\"cls\""
    refused 413 over_limit - /v1/encode "{\"model\":\"wide\",\"input_ids\":$rows}"
    encode wide "\"input_ids\":$rows,\"pooling\":\"cls\""
}

@test "a vector that is not finite is an error, its states are not" {
    for format in float base64; do
        refused 500 nonfinite_output - /v1/encode \
            "{\"model\":\"infinite\",$row,\"encoding_format\":\"$format\"}"
    done
    encode infinite "$row,\"pooling\":\"mean\""
}

@test "the models say what encode does" {
    ask /v1/models/sentence
    holds '.encode == {pooling: ["cls", "max"], normalize: true, dim: 3, max_seq_length: 6}'
    holds '.sizes.dim == 32'
    ask /v1/models/wide
    holds '.encode == {pooling: ["cls", "max"], normalize: false, dim: 64, max_seq_length: 6}'
    ask /v1/models/vanilla_post
    holds '.encode == {pooling: "none", normalize: false, dim: 32, max_seq_length: null}'
}

@test "a folder with a module that is not served does not start" {
    local folder=$BATS_TEST_TMPDIR/folder
    sentence_folder "$folder"
    sed -i 's/models.Dense/models.LSTM/' "$folder/modules.json"
    run "$SEQD" check --model "$folder"
    [ "$status" -ne 0 ]
    [[ $output == *'modules.json: module 2 is \"sentence_transformers.models.LSTM\"'* ]]
}
