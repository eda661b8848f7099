#!/usr/bin/env bash
# Builds the Dockerfile as it is, without a Docker engine and without an image registry, and runs
# the image as it would be run: read-only, no capabilities, a limit on memory.
#   usage: tests/docker/check.sh
cd "$(dirname "$0")/../.."
. tests/docker/base.bash
. tests/docker/podman.bash

name=seqd-check-$$

build_image
small_enough "$(podman image inspect $image | jq '.[0].Size')"

config_is() { # JQ_FILTER WANTED
    local found
    found=$(podman inspect $image | jq -rc ".[0] | $1")
    [ "$found" = "$2" ] || fail "$1 is $found, not $2"
    step "$1 is $2"
}
config_is .Config.User 10001:10001
config_is .Config.StopSignal SIGTERM
config_is '(.HealthCheck // .Healthcheck // .Config.Healthcheck).Test' '["CMD","seqd","health"]'
config_is '.Config.Labels["org.opencontainers.image.version"]' "$(<VERSION)"
config_is '.Config.Labels["org.opencontainers.image.licenses"]' Apache-2.0

port=$(jq -n "18000 + $$ % 1000")
at_exit+=('podman rm -f -t 0 $name')
hardened=(--network host --read-only --read-only-tmpfs=false --cap-drop all --memory 512m
    --pids-limit 128 --security-opt no-new-privileges --health-interval=disable
    -e SEQD_LISTEN=127.0.0.1:$port -e SEQD_SERVER_DRAIN_DELAY_MS=500)
run() { # OPTION_OR_ARGUMENT...
    podman rm -f -t 0 $name >/dev/null 2>&1 || true
    podman run -d --name $name "${hardened[@]}" "$@" >/dev/null 2>"$state/run.log" ||
        { cat "$state/run.log" && fail 'the container starts'; }
    ready_in_time "$(podman inspect $name | jq -r '.[0].State.StartedAt')" ||
        { podman logs $name && fail 'it is ready'; }
}
stops_with_0() { # NAME OF THE STOP
    local code
    code=$(podman inspect $name | jq '.[0].State.ExitCode')
    [ "$code" = 0 ] || fail "$1: exit code $code"
    step "$1 ends it with 0"
}

run $image
answers /v1/encode -H 'Content-Type: application/json' -d '{"inputs": "hello", "pooling": "mean"}' |
    jq -e '.data[0].embedding | length > 0' >/dev/null || fail 'it encodes'
step 'it encodes with the bundled model'
podman healthcheck run $name >/dev/null || fail 'seqd health says that it is ready'
step 'seqd health says that it is ready'
for place in / /tmp /usr/local/share/seqd /var/tmp; do
    ! podman exec $name touch $place/written >/dev/null 2>&1 ||
        fail "nothing can be written: $place"
done
step 'nothing can be written'
# SIGHUP, SIGINT, SIGTERM: process 1 gets none that it has no handler for.
caught=$(podman exec $name sed -n 's/^SigCgt:\t//p' /proc/1/status)
(((0x$caught & 0x4003) == 0x4003)) || fail "process 1 handles its signals: $caught"
step 'process 1 handles its signals'
podman stop -t 20 $name >/dev/null 2>&1
stops_with_0 SIGTERM

# Somebody else's uid, a CPU quota.
run --user 12345:12345 --cpus 1 -e HOME= $image
budget=$(answers /metrics | sed -n 's/^seqd_cpu_budget_cores //p')
[ "$budget" = 1 ] || fail "a quota of one core is seen: $budget"
step 'any uid may run it, and a quota of one core is seen'
podman kill -s INT $name >/dev/null
podman wait $name >/dev/null
stops_with_0 SIGINT

run -v "$PWD/tests/kit/vanilla_nopos:/model:ro" $image --model /model
survives podman stop -t 70 $name
stops_with_0 'the stop during a request'
