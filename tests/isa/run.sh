#!/usr/bin/env bash
# Runs the tests that kernels can change on each of the kernel sets that seqd says the machine has.
#   usage: tests/isa/run.sh BUILD_DIR [ISAS [KINDS]]    (all there are; unit kit http)
# A set that is named must be there.  The logs are kept in BUILD_DIR/tests/isa/ISA.
# The last line is `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/../.."

build=$1
isas=${2:-}
kinds=${3:-unit kit http}
export HTTP_SUITES='analytic batches bench cache crews crowds encode families g2p generate padding
    quantize refused_calls sampling score sentence'
passed=0
failed=0

has() { # ISA
    SEQD_ISA=$1 "$build/seqd" check --model models/g2p 2>/dev/null | grep -q "kernels $1,"
}

if [ -z "$isas" ]; then
    for isa in portable avx2 avx512 neon; do
        if has $isa; then isas+=" $isa"; else echo "ok - $isa # skip not of this machine"; fi
    done
fi
for isa in $isas; do
    if ! has "$isa"; then
        echo "not ok - $isa: seqd does not start with it"
        failed=$((failed + 1))
        continue
    fi
    echo "---- $isa"
    # shellcheck disable=SC2086 # a word each
    SEQD_ISA=$isa tests/run.sh "$build" $kinds | tee "$build/tests/sum" | sed '$d'
    read -r run_passed _ run_failed _ < <(tail -n 1 "$build/tests/sum")
    passed=$((passed + ${run_passed:-0}))
    failed=$((failed + ${run_failed:-1}))
    mkdir -p "$build/tests/isa/$isa"
    cp "$build"/tests/*.log "$build/tests/isa/$isa"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
