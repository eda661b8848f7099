#!/usr/bin/env bash
# Runs the tests of a build and counts them.
#   usage: tests/run.sh BUILD_DIR [unit|lint|kit|http]...        (all four when none is named)
# Every kind prints `ok` and `not ok` lines, kept in BUILD_DIR/tests/*.log; a log with a failure is
# shown.
# The last line is `N passed, N failed`.  KIT_CLIENTS: how many ask at once (8).  HTTP_SUITES: which
# of tests/http (all).
set -uo pipefail
cd "$(dirname "$0")/.."

build=$1
shift
kinds=${*:-unit lint kit http}
logs=$build/tests
mkdir -p "$logs"
rm -f "$logs"/*.log

# Configuration of whoever runs the tests must not reach the daemons; SEQD_ISA, which chooses the
# kernels, may.
for name in ${!SEQD_@}; do [ "$name" = SEQD_ISA ] || unset "$name"; done
export SEQD=$PWD/$build/seqd
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
export LC_ALL=C.UTF-8

# A program that ends badly or early, without saying so in a line, failed too.
run() { # NAME SECONDS COMMAND...
    local log=$logs/$1.log seconds=$2 rc planned counted
    local name=$1
    shift 2
    timeout -k 10 "$seconds" "$@" >"$log" 2>&1 </dev/null
    rc=$?
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$log" | head -n 1)
    counted=$(grep -Ec '^(not )?ok' "$log")
    if [ -n "$planned" ] && [ "$planned" -ne "$counted" ]; then
        printf '\nnot ok - %s: %s of %s tests ran\n' "$name" "$counted" "$planned" >>"$log"
    fi
    if [ $rc -ne 0 ] && ! grep -q '^not ok' "$log"; then
        printf '\nnot ok - %s: exit code %s\n' "$name" "$rc" >>"$log"
    fi
}

run_unit() {
    local source name
    for source in tests/unit/test_*.c; do
        name=$(basename "$source" .c)
        run "unit_$name" 600 env CMOCKA_MESSAGE_OUTPUT=TAP "$build/tests/unit/$name"
    done
}

run_lint() {
    local script
    for script in tests/lint/*.sh; do
        run "lint_$(basename "$script" .sh)" 300 "$script"
    done
}

run_kit() {
    local cases=(tests/kit/*/)
    run kit 1800 "$build/tests/kit/kit_runner" "$SEQD" tests/kit/unsupported "$logs" \
        "${KIT_CLIENTS:-8}" "${cases[@]%/}"
}

run_http() {
    local suite
    for suite in ${HTTP_SUITES:-$(basename -s .bats tests/http/*.bats)}; do
        run "http_$suite" 900 bats --tap "tests/http/$suite.bats"
    done
}

wanted() { case " $kinds " in *" $1 "*) return 0 ;; *) return 1 ;; esac }

# Two lanes, each of about half the time.
(for kind in unit kit; do wanted $kind && run_$kind; done) &
(for kind in lint http; do wanted $kind && run_$kind; done) &
wait

count() { # PATTERN LOG...: lines, skipped tests left out
    local pattern=$1
    shift
    cat "$@" /dev/null 2>/dev/null | grep -E "$pattern" | grep -Evc '# [Ss][Kk][Ii][Pp]'
}

shopt -s nullglob
all_passed=0
all_failed=0
for kind in $kinds; do
    kind_logs=("$logs/$kind"*.log)
    for log in "${kind_logs[@]}"; do
        grep -q '^not ok' "$log" || continue
        printf -- '---- %s\n' "$log"
        grep -Ev '^ok' "$log" | tail -n 60
    done
    passed=$(count '^ok' "${kind_logs[@]}")
    failed=$(count '^not ok' "${kind_logs[@]}")
    if [ $((passed + failed)) -eq 0 ]; then
        echo "not ok - no test of this kind ran: $kind"
        failed=1
    fi
    printf '%-5s %s passed, %s failed\n' "$kind" "$passed" "$failed"
    all_passed=$((all_passed + passed))
    all_failed=$((all_failed + failed))
done
echo "$all_passed passed, $all_failed failed"
[ "$all_failed" -eq 0 ]
