#!/usr/bin/env bash
# A guard against slow code that no clock can disturb: the instructions of a fixed job, counted by
# callgrind on the AVX2 kernels, against the committed figure.
#   usage: tests/instructions/run.sh SEQD [--update]
# ±3 % passes.  Other compilers and libraries give other figures; the committed one is Debian 12's,
# and elsewhere the guard is skipped.  --update writes the figure of now.
set -euo pipefail
cd "$(dirname "$0")/../.."

seqd=$1
file=tests/instructions/expected
percent=3

skip() {
    echo "ok - instructions: skipped, $1"
    exit 0
}
grep -qw avx2 /proc/cpuinfo || skip 'no AVX2 here'
command -v valgrind >/dev/null || skip 'no valgrind here'
compiler=$(cc -dumpfullversion)
[ "${2:-}" = --update ] || [ "$compiler" = "$(cut -d' ' -f2 "$file")" ] ||
    skip "the figure is of another compiler than $compiler"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job='{"kind":"generate","rows":[[5,6,7,8,9,10,11,12,13],[14,15,16,17],[6,8,5]],"new":24,"beams":2}
{"kind":"generate","rows":[[5,6,7,8,9,10,11,12,13]],"new":24}
{"kind":"encode","rows":[[5,6,7,8,9,10,11,12,13],[14,15,16,17]]}'
"$seqd" quantize models/g2p "$work/packed" --dtype float32 >/dev/null
count() { # FOLDER
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$seqd" bench --pipe --model "$1" \
        --engine.workers 1 --engine.threads 1 --engine.isa avx2 --log.level error \
        <<<"$job" >/dev/null 2>"$work/log"
    sed -n 's/.*Collected : //p' "$work/log"
}
now=$(($(count models/g2p) + $(count "$work/packed")))

if [ "${2:-}" = --update ]; then
    echo "$now $compiler" >"$file"
    exit 0
fi
expected=$(cut -d' ' -f1 "$file")
difference=$(((now - expected) * 1000 / expected))
verdict=ok
[ ${difference#-} -le $((percent * 10)) ] || verdict='not ok'
echo "$verdict - instructions: $now, expected $expected within $percent %"
[ "$verdict" = ok ]
