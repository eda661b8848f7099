#!/usr/bin/env bats
# seqd inspect: what it says of a folder, in both forms, and its exit code.
load daemon

# Runs seqd inspect; sets code, out and err.
inspect() {
    code=0
    timeout 20 "$SEQD" inspect "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- \
        </dev/null || code=$?
    out=$(<"$BATS_TEST_TMPDIR/out")
    err=$(<"$BATS_TEST_TMPDIR/err")
}

# The exit code, nothing on stderr, and what the JSON must fulfil.
found() { # CODE FOLDER JQ_EXPRESSION [OPTION...]
    local wanted=$1 folder=$2 expression=$3
    shift 3
    inspect "$folder" --json "$@"
    [ "$code" -eq "$wanted" ] && [ -z "$err" ] || fail "seqd inspect $folder: $code $err"
    jq -e "$expression" "$BATS_TEST_TMPDIR/out" >/dev/null || fail "not ($expression): $out"
}

# Each argument is in the page.
says() {
    local part
    for part in "$@"; do
        [[ $out == *"$part"* ]] || fail "not said: $part
$out"
    done
}

refused() { # TEXT ARGUMENT...
    local text=$1
    shift
    inspect "$@"
    [ "$code" -eq 2 ] && [ -z "$out" ] && [[ $err == *"$text"* ]] || fail "$*: $code $err"
}

# A folder of the kit to be spoilt; its path in folder.
take() { # NAME
    folder=$BATS_TEST_TMPDIR/$1
    rm -rf "$folder"
    mkdir "$folder"
    cp tests/kit/"$1"/*.* "$folder"
    chmod -R u+w "$folder"
}

change() { # FILE JQ_FILTER
    jq "$2" "$folder/$1" >"$BATS_TEST_TMPDIR/changed"
    mv "$BATS_TEST_TMPDIR/changed" "$folder/$1"
}

@test "every folder of the kit can be served, on a page of 50 lines and 100 columns" {
    local folder
    for folder in tests/kit/*/ models/g2p; do
        inspect "$folder"
        [ "$code" -eq 0 ] && [ -z "$err" ] || fail "$folder: $code $err"
        says 'can be served'
        [ "$(wc -l <"$BATS_TEST_TMPDIR/out")" -le 50 ] || fail "$folder: $out"
        [ "$(LC_ALL=C.UTF-8 wc -L <"$BATS_TEST_TMPDIR/out")" -le 100 ] || fail "$folder: $out"
    done
}

@test "the page walks from token ids to logits" {
    inspect models/g2p
    says 'models/g2p: transformer, encoder and decoder' 'texts and token ids to /v1/encode' \
        '3,153,792 float16' 'learned, 64 rows' 'decoder.embed_tokens (target, output)' \
        'q, k, v        [B, 4, S, 48]' 'weights        [B, 4, T, T]' \
        'cross weights  [B, 4, T, S]' 'logits           [B, T, 73]' 'max_length 64'
    inspect tests/kit/t5_v11
    says 'shared (source, target), lm_head (output)' 'RMS norm before each sublayer' \
        'relative bias, 8 buckets to distance 24' '(gelu_new(x·W1) * x·W3)·W2' \
        'context        [B, S, 72]           weights·v, heads joined, ·Wo to 24'
}

@test "sizes, parameters, tables and shapes are the folder's" {
    found 0 tests/kit/fsmt '.servable and .family == "fsmt" and .generates and
        .parameters == {float32: 46928} and .sizes.parameters == 46928 and
        .encoder == {layers: 3, heads: 2, key_width: 14, value_width: 14, inner_width: 48} and
        .decoder.heads == 7 and .default_options.num_beams == 5 and
        .tables == {source: "model.encoder.embed_tokens.weight",
            target: "model.decoder.embed_tokens.weight",
            output: "model.decoder.output_projection.weight"} and
        (.shapes | first.shape == ["B", "S"] and last.shape == ["B", "T", 86]) and
        (.shapes | map(select(.name == "cross k, v").shape) == [["B", 7, "S", 4]])'
    found 0 tests/kit/bart \
        '.tables | [.source, .target, .output] | unique == ["model.shared.weight"]'
    found 0 tests/kit/vanilla_additive '(.shapes | map(select(.name == "v").shape[3])) == [7, 7]'
}

@test "memory is what the configured limits make of it" {
    local memory='.memory.worker as $w | .memory.row as $r | .memory.bytes ==
        .memory.mapped_bytes + .memory.copied_bytes + .memory.workers * $w.bytes and '
    found 0 models/g2p "$memory .memory.workers == 3 and \$w.kv_cache_bytes == 20 * 1048576 and
        \$w.states_bytes == ((4096 + 256) * 4 + 2 * (256 + 256)) * 192 * 4 and
        \$w.logits_bytes == (256 + 256) * 73 * 4 and
        \$r.kv_cache_bytes_per_token == 3 * 4 * (48 + 48) * 4 and
        \$r.source_tokens_max == 64 and \$r.target_tokens_max == 64 and
        \$r.kv_cache_bytes_max == 128 * \$r.kv_cache_bytes_per_token" \
        --engine.workers 3 --engine.kv_cache_bytes 60MiB
    found 0 models/g2p '.memory.row | .source_tokens_max == 10 and .target_tokens_max == 20' \
        --limits.source_tokens 10 --limits.target_tokens 4 --limits.max_new_tokens 15
}

@test "an encoder has neither cache nor logits" {
    found 0 tests/kit/bert '.generates == false and .default_options == null and
        .memory.worker.kv_cache_bytes == 0 and .memory.worker.logits_bytes == 0 and
        all(.shapes[]; .part == "encoder") and (.encode.dim == .sizes.dim)'
    inspect tests/kit/bert
    says 'encoder only' 'to /v1/encode' 'token type 0, norm'
    [[ $out != *generate* && $out != *cache* && $out != *target* ]]
}

@test "all tensors that are missing, ill-shaped or unused are named, layers together" {
    take bart
    change config.json '.encoder_layers = 4 | .decoder_ffn_dim = 50 | .vocab_size = 110'
    found 1 "$folder" '.servable == false and .family == "bart" and
        (.problems | length) == 2 * 16 + 2 * 3 + 1 + 1 and
        all(.problems[]; .tensor and .message) and
        any(.problems[]; .tensor == "model.encoder.layers.3.fc2.bias" and .message == "is missing")'
    inspect "$folder"
    [ "$code" -eq 1 ]
    says 'cannot be served; 40 problems' \
        'model.encoder.layers.{2,3}.self_attn.q_proj.weight is missing' \
        'model.decoder.layers.{0,1}.fc1.weight is [48, 20]; config.json asks for [50, 20]' \
        'model.shared.weight is [109, 20]; config.json asks for [110, 20]'
    take bart
    change config.json '.encoder_layers = 1'
    found 0 "$folder" '(.warnings | length) == 16 and
        any(.warnings[];
            .tensor == "model.encoder.layers.1.fc1.bias" and .message == "is not used")'
    inspect "$folder"
    says warnings 'model.encoder.layers.1.fc1.bias is not used' 'and 8 more, which --json names'
}

@test "the daemon names the first tensor at fault and counts the others" {
    take bart
    change config.json '.encoder_layers = 4'
    ! timeout 20 "$SEQD" --model "$folder" --listen 127.0.0.1:0 2>"$BATS_TEST_TMPDIR/err" ||
        fail 'it started'
    grep -q 'layers.2.self_attn.q_proj.weight\\" is missing; 31 more are missing or wrong' \
        "$BATS_TEST_TMPDIR/err"
}

@test "every default that is not served is named" {
    take bart
    change generation_config.json '.num_beam_groups = 2 | .penalty_alpha = 0.6 | .num_beams = 0'
    found 1 "$folder" '(.problems | map(.message) | length == 3 and
        (map(select(test("num_beam_groups is not supported|penalty_alpha is not|num_beams is 0")))
            | length) == 3) and (has("default_options") | not)'
}

@test "what else keeps a folder from being served is told" {
    take marian
    mv "$folder/model.safetensors" "$folder/pytorch_model.bin"
    inspect "$folder"
    [ "$code" -eq 1 ]
    says 'tools/to_safetensors.py' 'unknown without the weights' '[B, T, 78]'
    take bart
    change config.json '.model_type = "gpt2"'
    found 1 "$folder" '(.problems | length) == 1 and (.problems[0].message | test("gpt2")) and
        (has("family") | not)'
    found 1 "$BATS_TEST_TMPDIR/nowhere" '.problems[0].message | test("nowhere: no such folder")'
    mkdir -p "$BATS_TEST_TMPDIR/cache/snapshots"
    found 1 "$BATS_TEST_TMPDIR/cache" '.problems[0].message | test("cache/snapshots/REVISION")'
    take vanilla_post
    echo '{"type": "nonsense"}' >"$folder/vocab.json"
    found 1 "$folder" '.problems[0].message | test("vocab.json")'
    take vanilla_post
    change config.json '.nonsense = 1'
    found 0 "$folder" '.warnings == [{tensor: null, message: .warnings[0].message}] and
        (.warnings[0].message | test("nonsense"))'
}

@test "a folder's texts cannot write to the terminal" {
    take vanilla_post
    change config.json '.["\u001b[2J\u009b\n"] = 1'
    inspect "$folder"
    says 'unknown field'
    if LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]\\|\xc2\x9b' "$BATS_TEST_TMPDIR/out"; then
        fail "$(cat -v "$BATS_TEST_TMPDIR/out")"
    fi
    [[ $out == *'"?[2J??"'* ]]
}

@test "usage and configuration are told and end with 2" {
    refused 'seqd inspect DIR'
    refused 'seqd inspect DIR' --json
    refused 'unknown argument b' models/g2p b
    refused --nonsense models/g2p --nonsense 1
    refused limits.beams models/g2p --limits.beams 0
    refused limits.queue_sequences models/g2p --limits.queue_sequences 1
    refused vax models/g2p --isa vax
    "$SEQD" --help | grep -q 'seqd inspect DIR'
    ! "$SEQD" check --json 2>"$BATS_TEST_TMPDIR/err" || fail 'check took --json'
}
