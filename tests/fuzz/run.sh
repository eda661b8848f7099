#!/usr/bin/env bash
# Builds the fuzzers with clang and runs them one after the other: tests/fuzz/run.sh [TARGET]...
# FUZZ_SECONDS: how long each runs (60).  CLANG: the compiler; Debian's needs libclang-rt-14-dev.
# What they learn stays in build/fuzz/corpus; an input that crashes one is kept in
# build/fuzz/crashes and named.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/fuzz
clang=${CLANG:-clang}
sanitizers=address,undefined
libs='-lmicrohttpd -lgnutls -ljansson -lyaml -lpcre2-8 -lutf8proc -lxxhash -lm'

# How deep the stack is tells nothing but how deep some JSON is.
flags=-fno-sanitize-coverage=stack-depth

command -v "$clang" >/dev/null || {
    echo "no $clang here: apt-get install clang-14 libclang-rt-14-dev, and CLANG=clang-14" >&2
    exit 1
}
make --no-print-directory B=$build CC="$clang" CFLAGS=$flags \
    SAN=fuzzer-no-link,$sanitizers $build/libseqd.a
mkdir -p $build/crashes
TMPDIR=$(mktemp -d /dev/shm/seqd-fuzz.XXXXXX 2>/dev/null || mktemp -d) # files cost least there
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# Words that a target's readers look for, as JSON has them.
words_of() {
    local sources='src/model/*.c src/search/*.c'
    case $1 in
    request) sources='src/http/*.c src/search/*.c' ;;
    vocabulary) sources='src/text/*.c' ;;
    settings | keys) return ;;
    esac
    # shellcheck disable=SC2086
    grep -ohE '"[A-Za-z][A-Za-z0-9_.]{2,}"' $sources | sort -u | sed 's/"/\\"/g; s/.*/"&"/'
}

[ $# -gt 0 ] || set -- safetensors shard_index config model packed request settings keys vocabulary
for target; do
    "$clang" -std=c17 -D_GNU_SOURCE -Iinclude -g -O1 -pthread $flags \
        -fsanitize=fuzzer,$sanitizers -fno-sanitize-recover=all "tests/fuzz/fuzz_$target.c" \
        $build/libseqd.a $libs -o "$build/fuzz_$target"
    mkdir -p "$build/corpus/$target"
    words=tests/fuzz/$target.dict
    [ -e "$words" ] || words=tests/fuzz/words.dict
    { cat "$words" && words_of "$target"; } >"$build/$target.dict"
    echo "fuzz_$target: ${FUZZ_SECONDS:-60} s"
    "$build/fuzz_$target" -max_total_time="${FUZZ_SECONDS:-60}" -max_len=16384 -timeout=5 \
        -dict="$build/$target.dict" -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$build/crashes/$target-" "$build/corpus/$target" \
        "tests/fuzz/corpus/$target"
done
