# What both scripts of tests/docker share: a base image like Debian's slim one, made here since no
# image registry is needed for these tests, and requests.  Sourced from the top of the tree.
. tests/deploy/common.bash

base_tar=$state/base.tar
image_mb_max=145

# As the slim image is: no indexes, no manuals, and none from packages that come later.
make_base_tar() {
    [ -s "$base_tar" ] && return
    need debootstrap
    local root=$state/rootfs sources=/etc/apt/sources.list.d/debian.sources mirror
    mirror=$(awk '/^URIs:/ { print $2; exit }' "$sources")
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase bookworm "$root" "$mirror" >"$state/debootstrap.log" 2>&1 ||
        fail "debootstrap: $(tail -n 3 "$state/debootstrap.log")"
    rm -f "$root/etc/apt/sources.list"
    cp "$sources" "$root/etc/apt/sources.list.d/"
    cat >"$root/etc/apt/apt.conf.d/docker-clean" <<'CONF'
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
CONF
    printf 'path-exclude /usr/share/%s/*\n' doc man info locale >"$root/etc/dpkg/dpkg.cfg.d/docker"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/cache/apt/*.bin \
        "$root"/var/lib/apt/lists/* "$root"/var/log/*.log \
        "$root"/usr/share/{doc,man,info,locale}/* "${root:?}"/dev/*
    tar -C "$root" --numeric-owner -cf "$base_tar.tmp" . && mv "$base_tar.tmp" "$base_tar"
    rm -rf --one-file-system "$root"
}

small_enough() { # BYTES
    local mb=$(($1 / 1000000))
    [ $mb -le $image_mb_max ] || fail "the image has $mb MB, more than $image_mb_max"
    step "the image has $mb MB, at most $image_mb_max"
}

answers() { curl -fsS --max-time 90 "http://127.0.0.1:$port$1" "${@:2}"; }

# Waits until it answers, and compares with when the container was started.
ready_in_time() { # STARTED_AT
    local since now
    for _ in $(seq 300); do
        answers /readyz >/dev/null 2>&1 && break
        sleep 0.02
    done
    answers /readyz >/dev/null 2>&1 || return 1
    since=$(date -d "$1" +%s%N) now=$(date +%s%N)
    local ms=$(((now - since) / 1000000))
    [ $ms -lt 1000 ] || fail "it is ready within a second of its start: $ms ms"
    step "it is ready $ms ms after its start"
}

# A request of tests/kit/vanilla_nopos that takes about three seconds on this machine, as
# slow_request: found by asking, since machines differ by much.
find_slow_request() {
    local rows=1 tokens=250 begun took=0
    while :; do
        slow_request=$(jq -nc --argjson rows $rows --argjson tokens $tokens \
            '{input_ids: [range($rows) | [. % 40 + 5, 6, 7, 8, 9, 3]], parameters: {num_beams: 16,
                max_new_tokens: $tokens, min_new_tokens: $tokens}}')
        begun=$(date +%s%N)
        ask_slowly >/dev/null || fail 'the slow request is answered'
        took=$((($(date +%s%N) - begun) / 1000000))
        [ $took -lt 2500 ] || break
        if [ $tokens -lt 2000 ]; then tokens=$((tokens * 2)); else rows=$((rows * 2)); fi
    done
    step "a request of $rows rows and $tokens tokens takes $took ms"
}
ask_slowly() {
    answers /v1/generate -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' \
        -d "$slow_request"
}

# The request is at work when the container is told to stop, outlives the drain delay, and is
# answered.
survives() { # STOP_COMMAND...
    local log=$state/slow.$$ begun ended
    find_slow_request
    (
        ask_slowly >"$log" 2>&1 || true
        date +%s%N >"$log.ended"
    ) &
    for _ in $(seq 100); do
        answers /metrics | grep -E '^seqd_active_sequences\{.*\} [1-9]' >/dev/null && break
        sleep 0.02
    done
    begun=$(date +%s%N)
    "$@" >/dev/null 2>&1
    wait $!
    ended=$(<"$log.ended")
    [ "$(<"$log")" = 200 ] || fail "a request survives the stop: $(<"$log")"
    local ms=$(((ended - begun) / 1000000))
    [ $ms -gt 1000 ] || fail "the request was under way at the stop: it ended $ms ms after it"
    rm -f "$log" "$log.ended"
    step "a request is answered with 200, $ms ms after the stop began"
}
