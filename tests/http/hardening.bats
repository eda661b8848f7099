#!/usr/bin/env bats
# What src/hardening.mk asks for is in the program.
load daemon

setup() {
    command -v readelf >/dev/null || skip 'readelf is not here'
    if grep -aq '__[at]san_init' "$SEQD"; then skip 'sanitizers take its place'; fi
}

@test "the program is loaded at any address" {
    readelf -Wh "$SEQD" | grep -q 'Type: *DYN'
    readelf -Wd "$SEQD" | grep -q 'Flags:.*PIE'
}

@test "every function is found at start, and its table is read-only then" {
    readelf -Wl "$SEQD" | grep -q GNU_RELRO
    readelf -Wd "$SEQD" | grep -q 'FLAGS.*NOW'
}

@test "no page is both written and executed" {
    [ "$(readelf -Wl "$SEQD" | awk '$1 == "GNU_STACK" { print $7 }')" = RW ]
    ! readelf -Wl "$SEQD" | grep -q 'LOAD.* RWE '
}

@test "stacks and copies are guarded" {
    readelf -Ws "$SEQD" | grep -q '__stack_chk_fail'
    readelf -Ws "$SEQD" | grep -q '__vsnprintf_chk'
}

@test "jumps through pointers end at marked places" {
    [ "$(uname -m)" = x86_64 ] || skip 'x86 only'
    command -v objdump >/dev/null || skip 'objdump is not here'
    objdump -d --no-show-raw-insn --disassemble=engine_submit "$SEQD" | grep -q endbr64
}
