#!/usr/bin/env bash
# deploy/compose.yaml, brought up for real: seqd and Prometheus, which finds it by its name.
#   usage: tests/deploy/compose.sh
# No Grafana can be had here; prometheus.sh asks its dashboard's queries.
cd "$(dirname "$0")/../.."
. tests/docker/base.bash
. tests/docker/podman.bash

need netavark aardvark-dns iptables prometheus
need_python_tools
if [ -z "${IN_NAMESPACE-}" ]; then
    build_image
    podman tag "$image" localhost/seqd:latest
    # Debian's Prometheus, under the name and with the ways of the image that compose.yaml names.
    mkdir "$scratch/prometheus"
    cp /usr/bin/prometheus "$scratch/prometheus/"
    cat >"$scratch/prometheus/Dockerfile" <<DOCKERFILE
FROM $base
RUN install -d -o 65534 -g 65534 /prometheus
COPY prometheus /bin/prometheus
USER 65534:65534
VOLUME /prometheus
ENTRYPOINT ["/bin/prometheus"]
DOCKERFILE
    wanted=$(sed -n 's/^ *image: \(prom.*\)/\1/p' deploy/compose.yaml)
    build prometheus "localhost/$wanted" "$scratch/prometheus"
    rm -rf "$scratch"
    own_namespace
fi
ip link set lo up

compose() { podman-compose --in-pod=false -f deploy/compose.yaml "$@"; }
at_exit+=('compose down -t 75 -v')
compose up -d --no-build seqd prometheus >"$scratch/log" 2>&1 ||
    fail "compose up: $(tail -n 5 "$scratch/log")"
port=8080
await 15 answers /readyz || fail "seqd is ready on its published port: $(tail -n 5 "$scratch/log")"
step 'seqd is ready on its published port'
answers /v1/generate -H 'Content-Type: application/json' -d '{"inputs": "hello"}' >/dev/null ||
    fail 'seqd generates'
step 'seqd generates'

port=9090
value() { answers /api/v1/query --data-urlencode "query=$1" | jq -r '.data.result[].value[1]'; }
up() { [ "$(value 'up{job="seqd"} == 1')" = 1 ]; }
await 40 up || fail "Prometheus finds seqd by its name: $(answers /api/v1/targets | jq -c \
    '.data.activeTargets[] | [.scrapeUrl, .lastError]')"
step 'Prometheus finds seqd by its name'
rules=$(answers /api/v1/rules | jq '[.data.groups[].rules[]] | length')
[ "$rules" -eq "$(cat deploy/prometheus/{rules,alerts}.yaml | grep -Ec '^ +- (alert|record):')" ] ||
    fail "Prometheus has all rules: $rules"
step "Prometheus has all $rules rules"

container=$(podman ps --format '{{.Names}}' | grep seqd | grep -v prometheus | head -n 1)
[ "$(podman inspect "$container" | jq -c '.[0].HostConfig | [.ReadonlyRootfs, .Memory]')" = \
    "[true,$((2 << 30))]" ] || fail 'seqd is read-only and has a memory limit'
step 'seqd is read-only and has a memory limit'
compose stop -t 75 seqd >"$scratch/log" 2>&1 || fail "compose stop: $(tail -n 5 "$scratch/log")"
code=$(podman inspect "$container" | jq '.[0].State.ExitCode')
[ "$code" = 0 ] || fail "seqd stops with 0: $code"
step 'seqd stops with 0'
