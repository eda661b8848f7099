#!/usr/bin/env bash
# Builds the Dockerfile as it is, without a Docker engine and without an image registry, and runs
# the image as it would be run: read-only, no capabilities, a limit on memory.
#   usage: tests/docker/check.sh
# As root, on Debian; installs podman, buildah, runc and debootstrap.
# STATE= keeps the base image and the layers between runs (default: ~/.cache/seqd-docker-check).
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C.UTF-8

state=${STATE:-${XDG_CACHE_HOME:-$HOME/.cache}/seqd-docker-check}
base=localhost/seqd-base:bookworm
image=localhost/seqd:check
name=seqd-check-$$
mkdir -p "$state"

step() { printf 'ok - docker: %s\n' "$*"; }
fail() {
    printf 'not ok - docker: %s\n' "$*"
    exit 1
}

install_tools() {
    local missing=() tool
    for tool in podman buildah runc debootstrap curl jq; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    [ ${#missing[@]} -eq 0 ] && return
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
        >"$state/apt.log" 2>&1
}

# For machines without systemd, without unified cgroups and without the right to raise limits.
cat >"$state/containers.conf" <<'END'
[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
END
export CONTAINERS_CONF=$state/containers.conf
pod() {
    podman --root "$state/storage" --runroot "$state/run" --storage-driver "${DRIVER:-overlay}" "$@"
}

make_base() {
    pod image exists "$base" && return
    local root=$state/rootfs sources=/etc/apt/sources.list.d/debian.sources mirror
    mirror=$(awk '/^URIs:/ { print $2; exit }' "$sources")
    rm -rf "$root"
    debootstrap --variant=minbase bookworm "$root" "$mirror" >"$state/debootstrap.log" 2>&1
    rm -f "$root/etc/apt/sources.list"
    cp "$sources" "$root/etc/apt/sources.list.d/"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "${root:?}"/dev/*
    tar -C "$root" --numeric-owner -cf "$state/base.tar" .
    pod import -q --change 'CMD ["bash"]' "$state/base.tar" "$base" >/dev/null
    rm -rf --one-file-system "$root" "$state/base.tar"
}

# Docker's own format: the other one has no HEALTHCHECK.
build_image() {
    pod build -q --pull=never --isolation chroot --format docker --build-arg BASE=$base \
        -t $image . >"$state/build.log" 2>&1 ||
        { tail -n 40 "$state/build.log" && fail 'the image is built'; }
    step "the image is built: $(pod images --format '{{.Size}}' $image)"
}

config_is() { # JQ_FILTER WANTED
    local found
    found=$(pod inspect $image | jq -rc ".[0] | $1")
    [ "$found" = "$2" ] || fail "$1 is $found, not $2"
    step "$1 is $2"
}

answers() { curl -fsS --max-time 10 "http://127.0.0.1:$port$1" "${@:2}"; }

install_tools
make_base
build_image
config_is .Config.User 10001:10001
config_is .Config.StopSignal SIGTERM
config_is '(.HealthCheck // .Healthcheck // .Config.Healthcheck).Test' '["CMD","seqd","health"]'

port=$(jq -n "18000 + $$ % 1000")
trap 'pod rm -f $name >/dev/null 2>&1 || true' EXIT
pod run -d --name $name --network host --read-only --cap-drop all --memory 512m --pids-limit 128 \
    --security-opt no-new-privileges --health-interval=disable -e SEQD_LISTEN=127.0.0.1:$port \
    -e SEQD_SERVER_DRAIN_DELAY_MS=500 $image >/dev/null 2>"$state/run.log" ||
    { cat "$state/run.log" && fail 'the container starts'; }
for _ in $(seq 100); do
    answers /readyz >/dev/null 2>&1 && break
    sleep 0.1
done
answers /readyz >/dev/null || { pod logs $name && fail 'it is ready'; }
step 'it is ready'
answers /v1/encode -H 'Content-Type: application/json' -d '{"inputs": "hello", "pooling": "mean"}' |
    jq -e '.data[0].embedding | length > 0' >/dev/null || fail 'it encodes'
step 'it encodes with the bundled model'
pod healthcheck run $name >/dev/null || fail 'seqd health says that it is ready'
step 'seqd health says that it is ready'
pod stop -t 20 $name >/dev/null 2>&1
code=$(pod inspect $name | jq '.[0].State.ExitCode')
[ "$code" = 0 ] || fail "it stops on SIGTERM with 0 (was $code)"
step 'it stops on SIGTERM with 0'
