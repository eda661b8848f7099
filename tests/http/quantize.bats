#!/usr/bin/env bats
# seqd quantize: what it makes, that it is served, and that nothing is left when it fails.
load daemon

setup() { out=$BATS_TEST_TMPDIR/out; }
teardown() { daemon_stop; }

# Runs seqd quantize; sets code and said.
quantize() { # ARGUMENT...
    code=0
    said=$("$SEQD" quantize "$@" 2>&1 3>&- </dev/null) || code=$?
}

made() { # ARGUMENT...
    quantize "$@"
    [ "$code" -eq 0 ] || fail "seqd quantize $*: $code $said"
}

ends() { # CODE TEXT ARGUMENT...
    local wanted=$1 text=$2
    shift 2
    quantize "$@"
    [ "$code" -eq "$wanted" ] && [[ $said == *"$text"* ]] || fail "seqd quantize $*: $code $said"
}

listing() { (cd "$1" && find . -mindepth 1 | sort | tr '\n' ' '); }

question='{"inputs":["hello","strength"],"parameters":{"num_beams":3,"num_return_sequences":2}}'
answer_of() { # MODEL: without what differs from one run to another
    ok /v1/generate "$(jq -c --arg model "$1" '. + {model: $model}' <<<"$question")"
    value 'del(.timing, .model)'
}

@test "the bundled model is packed in each dtype and served" {
    local dtype plain
    for dtype in float32 bfloat16 int8; do
        made models/g2p "$out-$dtype" --dtype $dtype
        [[ $said == *"models/g2p: float16, 6.3 MB"*"$out-$dtype: $dtype, "* ]] || fail "$said"
        [ "$(listing "$out-$dtype")" = "$(listing models/g2p | sed s/safetensors/packed/)" ]
        cmp models/g2p/config.json "$out-$dtype/config.json"
    done
    [ "$(stat -c %s "$out-int8/model.packed")" -lt 3500000 ]
    daemon_start --model models/g2p --model float32="$out-float32" \
        --model bfloat16="$out-bfloat16" --model int8="$out-int8"
    plain=$(answer_of g2p)
    [ "$(answer_of float32)" = "$plain" ]
    for dtype in bfloat16 int8; do
        answer_of $dtype
        holds '.outputs[0].sequences[0].text == "HH AH0 L OW1"'
        ask /v1/models/$dtype
        holds '.dtype == $dtype' --arg dtype $dtype
    done
}

@test "a packed folder is used without a warning and looks whole to inspect" {
    made tests/kit/t5 "$out" --dtype=int8
    [[ $said == *'stays float32: '*'.wo.weight'* ]]
    daemon_start --model "$out"
    [ -z "$(log_lines 'select(.level != "info") | .message')" ]
    "$SEQD" inspect "$out" 3>&-
}

@test "without a dtype, or with another, the three are told" {
    local three='float32, bfloat16 or int8'
    ends 2 "$three" models/g2p "$out"
    ends 2 "$three" models/g2p "$out" --dtype int4
    ends 2 "$three" models/g2p --dtype int8
    ends 2 'needs a value' models/g2p "$out" --dtype
    ends 2 'unknown argument' models/g2p "$out" third --dtype int8
    [ ! -e "$out" ]
}

@test "a folder that is not empty stays as it is; an empty one is filled" {
    mkdir "$out"
    echo mine >"$out/config.json"
    ends 1 "$out is not empty" models/g2p "$out" --dtype int8
    [ "$(listing "$out")" = './config.json ' ] && [ "$(<"$out/config.json")" = mine ]
    rm "$out/config.json"
    made models/g2p "$out" --dtype int8
    [ -e "$out/model.packed" ]
    ends 1 'packed already' "$out" "$out-again" --dtype int8
    [ ! -e "$out-again" ]
    echo >"$out-file"
    ends 1 "$out-file" models/g2p "$out-file" --dtype int8
    ends 1 "$out/none/new" models/g2p "$out/none/new" --dtype int8
    ends 1 "$BATS_TEST_TMPDIR/nowhere" "$BATS_TEST_TMPDIR/nowhere" "$out-again" --dtype int8
}

@test "the new folder does not lie in the model folder" {
    cp -r models/g2p "$BATS_TEST_TMPDIR/model"
    ends 1 'lies in' "$BATS_TEST_TMPDIR/model" "$BATS_TEST_TMPDIR/model/1_int8" --dtype int8
    [ "$(listing models/g2p)" = "$(listing "$BATS_TEST_TMPDIR/model")" ]
}

@test "when a file cannot be written nothing is left and the file is named" {
    ulimit -f 1000
    ends 1 "$out/model.packed" models/g2p "$out" --dtype int8
    [[ $said == *'File too large'* ]]
    [ ! -e "$out" ]
    ulimit -f 1
    mkdir "$out"
    ends 1 "$out/" models/g2p "$out" --dtype int8
    [ -z "$(listing "$out")" ]
}

# A program that runs seqd with a disk of SIZE at FOLDER, which nobody else sees.
on_small_disk() { # FOLDER SIZE
    mkdir "$1"
    unshare -rm mount -t tmpfs tmpfs "$1" 2>/dev/null || skip 'tmpfs is not allowed here'
    printf '#!/bin/sh\nexec unshare -rm sh -c '\''mount -t tmpfs -o size=%s tmpfs "%s" &&
        "%s" "$@"; code=$?; ls -A "%s"; exit $code'\'' sh "$@"\n' "$2" "$1" "$SEQD" "$1" \
        >"$BATS_TEST_TMPDIR/seqd"
    chmod +x "$BATS_TEST_TMPDIR/seqd"
    SEQD=$BATS_TEST_TMPDIR/seqd
}

@test "when the disk is full nothing is left and the file is named" {
    on_small_disk "$BATS_TEST_TMPDIR/disk" 1m
    ends 1 'No space left on device"}' models/g2p "$BATS_TEST_TMPDIR/disk/out" --dtype int8
    [[ $said == *"$BATS_TEST_TMPDIR/disk/out/model.packed"* ]]
    [[ $said != *$'\n'* ]] # nothing is listed
}

@test "a snapshot of a hub cache is copied without its links" {
    local hub=$BATS_TEST_TMPDIR/models--a--b file
    mkdir -p "$hub/blobs" "$hub/snapshots/0123"
    for file in models/g2p/*; do
        cp "$file" "$hub/blobs/blob-${file##*/}"
        ln -s "../../blobs/blob-${file##*/}" "$hub/snapshots/0123/${file##*/}"
    done
    made "$hub/snapshots/0123" "$out" --dtype bfloat16
    [ -z "$(find "$out" -type l)" ]
    cmp models/g2p/vocab.json "$out/vocab.json"
}

@test "nothing outside of the model folder is read" {
    local model=$BATS_TEST_TMPDIR/model
    echo secret >"$BATS_TEST_TMPDIR/secret"
    mkdir -p "$BATS_TEST_TMPDIR/outside"
    echo secret >"$BATS_TEST_TMPDIR/outside/config.json"
    cp -r models/g2p "$model"
    ln -s ../secret "$model/notes.txt"
    ends 1 "$model/notes.txt leads out" "$model" "$out" --dtype int8
    [ ! -e "$out" ]
    rm "$model/notes.txt"
    ln -s ../outside "$model/1_Pooling"
    ends 1 "$model/1_Pooling is a link to a folder" "$model" "$out" --dtype int8
    rm "$model/1_Pooling"
    mkdir "$model/1_Pooling"
    ln -s ../../secret "$model/1_Pooling/config.json"
    ends 1 "$model/1_Pooling/config.json leads out" "$model" "$out" --dtype int8
    [ ! -e "$out" ]
}

@test "weights of other formats and other folders stay behind, modules come along" {
    local model=$BATS_TEST_TMPDIR/model name
    cp -r tests/kit/vanilla_post "$model"
    for name in pytorch_model.bin pytorch_model-00001-of-00002.bin tf_model.h5 rust_model.ot \
        flax_model.msgpack old.packed model.safetensors.index.json.bak other.safetensors .hidden; do
        echo x >"$model/$name"
    done
    rm "$model/model.safetensors.index.json.bak"
    mkdir -p "$model/onnx" "$model/1_Pooling" "$model/2_Dense/deep"
    echo '{"word_embedding_dimension":32}' >"$model/1_Pooling/config.json"
    echo x >"$model/2_Dense/deep/pytorch_model.bin"
    echo '[{"path":"","type":"sentence_transformers.models.Transformer"},
        {"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]' >"$model/modules.json"
    made "$model" "$out" --dtype float32
    [[ $said == *'not copied: onnx'* ]]
    [ ! -e "$out/onnx" ] && [ ! -e "$out/.hidden" ]
    [ -z "$(find "$out" -maxdepth 1 -name '*model*.bin' -o -maxdepth 1 -name '*.h5' \
        -o -maxdepth 1 -name '*.ot' -o -maxdepth 1 -name '*.msgpack' \
        -o -maxdepth 1 -name '*.safetensors' -o -maxdepth 1 -name 'old.packed')" ]
    cmp "$model/1_Pooling/config.json" "$out/1_Pooling/config.json"
    cmp "$model/2_Dense/deep/pytorch_model.bin" "$out/2_Dense/deep/pytorch_model.bin"
    daemon_start --model plain="$model" --model packed="$out"
    ok /v1/encode '{"model":"plain","input_ids":[[5,6,7,3]]}'
    name=$(value '.data')
    ok /v1/encode '{"model":"packed","input_ids":[[5,6,7,3]]}'
    [ "$(value '.data')" = "$name" ]
}

@test "a module's folder of another name is missed before anybody serves without it" {
    local model=$BATS_TEST_TMPDIR/model
    cp -r tests/kit/vanilla_post "$model"
    mkdir "$model/pooling"
    echo '{"word_embedding_dimension":32}' >"$model/pooling/config.json"
    echo '[{"path":"","type":"sentence_transformers.models.Transformer"},
        {"path":"pooling","type":"sentence_transformers.models.Pooling"}]' >"$model/modules.json"
    ends 1 "pooling/config.json" "$model" "$out" --dtype float32
    [ ! -e "$out" ]
}
