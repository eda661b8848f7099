#!/usr/bin/env bats
# What make promises on a machine that has nothing yet.

@test "the compiler may come after make has started" {
    local late=$BATS_TEST_TMPDIR/late.mk
    printf '$(B)/flags: | come\ncome:\n\t@ln -s "%s" $(CC)\n' "$(command -v "${CC:-cc}")" >"$late"
    env -u MAKEFLAGS -u MFLAGS make -f Makefile -f "$late" V=1 B="$BATS_TEST_TMPDIR/build" \
        CC="$BATS_TEST_TMPDIR/compiler" "$BATS_TEST_TMPDIR/build/src/kernels/vectors_avx2.o" \
        >"$BATS_TEST_TMPDIR/log" 2>&1 || {
        cat "$BATS_TEST_TMPDIR/log"
        return 1
    }
    ! grep "$BATS_TEST_TMPDIR/compiler: No such file" "$BATS_TEST_TMPDIR/log"
}
