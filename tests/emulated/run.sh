#!/usr/bin/env bash
# Runs the tests of the kernels on CPUs that the machine need not have, and the daemon on old ones.
#   usage: tests/emulated/run.sh BUILD_DIR [x86|arm|old]...        (all three when none is named)
#
#   x86  Bochs 3.0 or later (Debian 13: bochs, bochs-term; BOCHS names the program) is given a CPU
#        with AVX-512, VNNI, bfloat16 or without them, and boots a static test program on the bare
#        machine: rom.S, image.S, machine.c.  2.7 (Debian 12) has all but bfloat16.
#   arm  aarch64-linux-gnu-gcc and qemu-aarch64 (gcc-aarch64-linux-gnu, qemu-user)
#   old  qemu-x86_64 (qemu-user) runs BUILD_DIR/seqd
#
# Prints `ok` and `not ok` lines; what is not installed is skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."

mkdir -p "$1"
build=$(cd "$1" && pwd)
shift
kinds=${*:-x86 arm old}
here=tests/emulated
bochs=${BOCHS:-bochs}
out=$build/emulated
mkdir -p "$out"
failed=0

# Tests that need nothing but the kernels.
tests=(kernels panels int8 products product_bounds narrow_bf16 cpu_features
    vector_loops vector_bounds attention_kernels)

result() { # NAME LOG: `ok` if every test that the log plans is ok
    local planned passed
    planned=$(sed -n 's/^1\.\.\([0-9]*\)\r*$/\1/p' "$2" | head -n 1)
    passed=$(grep -c '^ok' "$2")
    if [ -n "$planned" ] && [ "$planned" -eq "$passed" ] && ! grep -q '^not ok' "$2"; then
        echo "ok - $1: $passed tests"
    else
        echo "not ok - $1: $passed of ${planned:-?} tests"
        tail -n 5 "$2"
        failed=1
    fi
}

compile() { # CC DIR FLAGS...: a static DIR/test_* for each of the tests
    local cc=$1 dir=$2 sources objects programs test
    shift 2
    sources=(src/kernels/*.c src/base/error.c)
    objects=("${sources[@]/%.c/.o}")
    objects=("${objects[@]/#/$dir/}")
    programs=("${tests[@]/#/$dir/tests/unit/test_}")
    make CC="$cc" B="$dir" CFLAGS="-I$here" "${objects[@]}" "${programs[@]/%/.o}" >"$dir.log" ||
        return 1
    for test in "${tests[@]/#/test_}"; do
        "$cc" -static -s "$@" "$dir/tests/unit/$test.o" "${objects[@]}" -lm \
            -o "$dir/$test" || return 1
    done
}

# A disk with the program, and a ROM that reads it.
make_machine() { # PROGRAM XCR0 OSXSAVE
    local flags=(-m64 -O2 -ffreestanding -mgeneral-regs-only -fno-stack-protector -fno-pic -fno-pie
        -fcf-protection=none) bytes cylinders cylinder=516096
    gcc "${flags[@]}" -c $here/machine.c -o "$out/machine.o" &&
        gcc -c -DXCR0="$2" -DOSXSAVE="$3" -DPROGRAM="\"$1\"" $here/image.S -o "$out/image.o" &&
        ld -Ttext=0x100000 -e start --oformat binary "$out/image.o" "$out/machine.o" \
            -o "$out/disk" || return 1
    bytes=$(stat -c %s "$out/disk")
    cylinders=$(((bytes + 65536 + cylinder - 1) / cylinder))
    truncate -s $((cylinders * cylinder)) "$out/disk"
    gcc -c -DSECTORS=$((cylinders * 1008 / 128 * 128)) $here/rom.S -o "$out/rom.o" &&
        ld -Ttext=0xffff0000 --oformat binary -e 0xffff0000 "$out/rom.o" -o "$out/rom"
}

boot() { # MODEL LOG
    cat >"$out/bochsrc" <<END
display_library: term
megs: 512
romimage: file=$out/rom, address=0xffff0000
vgaromimage: file=$out/vga_rom
cpu: model=$1, ips=100000000, reset_on_triple_fault=0
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, path=$out/disk, mode=flat, cylinders=0
com1: enabled=1, mode=file, dev=$2
log: $out/bochs.log
panic: action=fatal
END
    local command="$bochs -q -f $out/bochsrc"
    # With Debian's debugger built in it waits to be told to begin.
    if grep -q -- '-rc ' <<<"$usage"; then
        echo c >"$out/begin"
        command+=" -rc $out/begin"
    fi
    rm -f "$2" "$out/disk.lock" # of a run that was killed
    truncate -s 32768 "$out/vga_rom" # it must be there; nothing calls it
    TERM=xterm timeout -k 10 1200 script -qc "$command" /dev/null </dev/null >"$out/screen.log" 2>&1
    [ -e "$2" ] || cp "$out/bochs.log" "$2"
}

x86_one() { # MODEL XCR0 OSXSAVE SET INT8 TEST...
    local model=$1 xcr0=$2 osxsave=$3 set=$4 int8=$5 test log
    shift 5
    if ! grep -qx "$model" <<<"$models"; then
        echo "ok - x86 $model # skip $bochs does not have it"
        return
    fi
    for test in "$@"; do
        log=$out/x86_${model}_${xcr0}_$test.log
        make_machine "$out/x86/test_$test" "$xcr0" "$osxsave" && boot "$model" "$log"
        result "x86 $model, XCR0 $xcr0, $test" "$log"
        [ "$test" = kernels ] || continue
        if [ "$(grep '^# .*, own' "$log" | tail -n 1)" = "# $set, int8 by $int8, own" ]; then
            echo "ok - x86 $model, XCR0 $xcr0: the best set is $set"
        else
            echo "not ok - x86 $model, XCR0 $xcr0: the best set is not $set"
            failed=1
        fi
    done
}

run_x86() {
    local save=0x40000 best=sapphire_rapids # CR4.OSXSAVE; a CPU with everything
    if ! command -v "$bochs" >/dev/null || ! command -v script >/dev/null; then
        echo "ok - x86 # skip $bochs or script is not here"
        return
    fi
    models=$("$bochs" --help cpu 2>&1 </dev/null)
    usage=$("$bochs" --help 2>&1 </dev/null)
    grep -qx $best <<<"$models" || best=corei7_icelake_u
    compile gcc "$out/x86" -no-pie -Wl,-Ttext-segment=0x4000000 || return 1
    x86_one core2_penryn_t9600 0 0 portable portable kernels
    x86_one corei7_sandy_bridge_2600k 0x07 $save portable portable kernels # AVX only
    x86_one corei7_haswell_4770 0x07 $save avx2 avx2 kernels
    x86_one corei7_skylake_x 0xe7 $save avx512 avx512 kernels int8 products
    x86_one corei7_icelake_u 0xe7 $save avx512 avx512vnni kernels int8
    # What the CPU has but the system does not save.
    x86_one $best 0 0 portable portable kernels
    x86_one $best 0x03 $save portable portable kernels
    x86_one $best 0x07 $save avx2 avx2 kernels
    x86_one $best 0xe7 $save avx512 avx512vnni "${tests[@]}"
}

run_arm() {
    local cpu test log
    if ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
        echo "ok - arm # skip qemu-aarch64 or aarch64-linux-gnu-gcc is not here"
        return
    fi
    compile aarch64-linux-gnu-gcc "$out/arm" || return 1
    for cpu in cortex-a53 neoverse-n1; do # without and with products of bytes
        for test in "${tests[@]}"; do
            log=$out/arm_${cpu}_$test.log
            timeout 1200 qemu-aarch64 -cpu $cpu "$out/arm/test_$test" >"$log" 2>&1
            result "arm $cpu, $test" "$log"
        done
    done
    if grep -q 'int8 by neon,' "$out/arm_cortex-a53_kernels.log" &&
        grep -q 'int8 by neondot,' "$out/arm_neoverse-n1_kernels.log"; then
        echo 'ok - arm: products of bytes where the CPU has them'
    else
        echo 'not ok - arm: products of bytes where the CPU has them'
        failed=1
    fi
}

run_old() {
    local cpu report
    if ! command -v qemu-x86_64 >/dev/null; then
        echo "ok - old # skip qemu-x86_64 is not here"
        return
    fi
    for cpu in Nehalem:portable SandyBridge:portable Haswell:avx2; do
        report=$(qemu-x86_64 -cpu "${cpu%:*}" "$build/seqd" check --model models/g2p 2>&1)
        if grep -q "kernels ${cpu#*:}," <<<"$report"; then
            echo "ok - old: seqd starts on ${cpu%:*} and names its kernels"
        else
            echo "not ok - old: seqd does not start on ${cpu%:*}"
            failed=1
        fi
    done
}

for kind in $kinds; do
    "run_$kind" || { echo "not ok - $kind: it does not compile"; failed=1; }
done
exit $failed
