#!/usr/bin/env bats
# The program's words, options, files and exit codes.
load daemon

model=tests/kit/vanilla_post

teardown() { daemon_stop; }

# Runs seqd with the arguments; sets code, out and err.
seqd() {
    code=0
    timeout 20 "$SEQD" "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- </dev/null ||
        code=$?
    out=$(<"$BATS_TEST_TMPDIR/out")
    err=$(<"$BATS_TEST_TMPDIR/err")
}

ends() { # CODE TEXT_IN_THE_ERROR ARGUMENT...
    local wanted=$1 text=$2
    shift 2
    seqd "$@"
    [ "$code" -eq "$wanted" ] && [[ $err == *"$text"* ]] || fail "seqd $*: $code $err"
}

# A configuration file; its path in file.
write_config() { # TEXT
    file=$BATS_TEST_TMPDIR/seqd.yaml
    printf '%s\n' "$1" >"$file"
}

@test "--version and --help print and end with 0" {
    seqd --version
    [ "$code" -eq 0 ] && [[ $out == "seqd $(<VERSION) ("* ]]
    seqd --help
    [ "$code" -eq 0 ] && [[ $out == *--model*--listen*--config* ]]
    local help=$out
    seqd -h
    [ "$code" -eq 0 ] && [ "$out" = "$help" ]
}

@test "--help-config prints the file that is in the repository" {
    seqd --help-config
    [ "$code" -eq 0 ]
    diff "$BATS_TEST_TMPDIR/out" config/seqd.yaml
}

@test "unknown options, words and missing values are told and end with 2" {
    ends 2 --nonsense --nonsense 1
    ends 2 --limits.nonsense --model $model --limits.nonsense 1
    ends 2 serve serve
    ends 2 '--listen needs a value' --listen
    ends 2 -x -x
}

@test "values out of range or of the wrong kind are told and end with 2" {
    ends 2 limits.beams --model $model --limits.beams 0
    ends 2 limits.beams --model $model --limits.beams many
    ends 2 limits.body_bytes --model $model --limits.body_bytes 4GB
    ends 2 log.level --model $model --log.level loud
    ends 2 metrics.enabled --model $model --metrics.enabled yes
    ends 2 server.listen --model $model --listen nowhere
    ends 2 engine.isa --model $model --isa vax
}

@test "limits that contradict each other are told and end with 2" {
    ends 2 limits.queue_sequences --model $model --limits.queue_sequences 10
    ends 2 limits.bodies_bytes --model $model --limits.bodies_bytes 1MiB
    ends 2 limits.answers_bytes --model $model --limits.answers_bytes 1MiB
    ends 2 engine.batch_tokens --model $model --engine.batch_tokens 100
    ends 2 engine.batch_sequences --model $model --engine.batch_sequences 8
}

@test "no model, or one that cannot be, ends the start" {
    ends 2 'no model to serve'
    ends 1 "$BATS_TEST_TMPDIR/nowhere" --model "$BATS_TEST_TMPDIR/nowhere" --listen 127.0.0.1:0
    mkdir "$BATS_TEST_TMPDIR/empty"
    ends 1 config.json --model "$BATS_TEST_TMPDIR/empty" --listen 127.0.0.1:0
    cp -r $model "$BATS_TEST_TMPDIR/cut"
    truncate -s -1 "$BATS_TEST_TMPDIR/cut/model.safetensors"
    ends 1 model.safetensors --model "$BATS_TEST_TMPDIR/cut" --listen 127.0.0.1:0
    ends 2 vanilla_post --model $model --model $model
}

@test "listening beyond loopback without keys must be allowed" {
    ends 2 allow_unauthenticated --model $model --listen 0.0.0.0:0
}

@test "a configuration file's mistakes are told with file and line, and end with 2" {
    write_config $'limits:\n  beams: 4\n  nonsense: 1'
    ends 2 "$file:3" --model $model --config "$file"
    write_config $'limits:\n  beams: many'
    ends 2 "$file:2" --model $model --config "$file"
    write_config $'limits:\n  beams: 4\n  beams: 5'
    ends 2 "$file:3" --model $model --config "$file"
    write_config $'metrics:\n  enabled: no'
    ends 2 "$file:2" --model $model --config "$file"
    write_config $'limits: &a\n  beams: 4'
    ends 2 "$file:1" --model $model --config "$file"
    write_config $'limits:\n  <<: *a\n  beams: 4'
    ends 2 "$file:2" --model $model --config "$file"
    write_config $'limits:\n  beams: [4'
    ends 2 "$file:" --model $model --config "$file"
    ends 2 "$BATS_TEST_TMPDIR/none.yaml" --model $model --config "$BATS_TEST_TMPDIR/none.yaml"
}

@test "check says what it found and ends with 0, or what is wrong" {
    seqd check --model $model
    [ "$code" -eq 0 ] && [[ $out == *'model vanilla_post'*transformer*57280* ]]
    ends 1 "$BATS_TEST_TMPDIR/nowhere" check --model "$BATS_TEST_TMPDIR/nowhere"
    ends 2 limits.beams check --model $model --limits.beams 0
    ends 0 'no packed copy' check --model $model --engine.cache_dir /proc/none
    code=0
    "$SEQD" check --model $model >/dev/full || code=$?
    [ "$code" -eq 1 ]
}

@test "file, environment and command line win in this order" {
    write_config $'models:\n  - name: no\n    path: tests/kit/vanilla_post\nlimits:\n  beams: 3
  sequences: 7\n  target_tokens: 9'
    SEQD_LIMITS_BEAMS=5 SEQD_LIMITS_SEQUENCES=6 daemon_start --config "$file" --limits.beams 2
    ask /v1/models/no
    holds '.id == "no" and (.limits | .beams == 2 and .sequences == 6 and .target_tokens == 9)'
}

@test "SEQD_MODEL and SEQD_CONFIG are read" {
    write_config $'limits:\n  beams: 3'
    SEQD_CONFIG=$file SEQD_MODEL=a=$model,b=$model daemon_start
    ask /v1/models
    holds '(.data | map(.id)) == ["a", "b"] and .data[0].limits.beams == 3'
}

@test "a port in use ends the start with 1 and is named" {
    daemon_start --model $model
    local port=${url##*:}
    ends 1 "$port" --model $model --listen "127.0.0.1:$port"
}

@test "health ends with 0 when the daemon is ready, else with 1" {
    daemon_start --model $model
    local port=${url##*:}
    ends 0 '' health --listen "127.0.0.1:$port"
    daemon_stop
    ends 1 "$port" health --listen "127.0.0.1:$port"
    ends 1 'port 0' health --listen 127.0.0.1:0
    ends 1 --nonsense health --nonsense 1
}

@test "IPv6 loopback is served" {
    grep -q '^0*1 ' /proc/net/if_inet6 || skip 'this machine has no IPv6'
    daemon_start --model $model --listen '[::1]:0'
    [[ $url == 'http://[::1]:'* ]]
    ok /v1/encode '{"input_ids":[[5,6,3]]}'
    ends 0 '' health --listen "[::1]:${url##*:}"
}

@test "metrics can be switched off" {
    daemon_start --model $model --metrics.enabled false
    refused 404 route_not_found - /metrics
}

@test "a name in server.hosts is a host" {
    daemon_start --model $model --server.hosts models.example
    [ "$(status /v1/models -H 'Host: models.example:80')" = 200 ]
    [ "$(status /v1/models -H 'Host: other.example')" = 403 ]
}
