#!/usr/bin/env bash
# The image under a real Docker engine: Debian's, unpacked, not installed, started for this check
# on a socket of its own, without a bridge and without rules in the firewall.
#   usage: tests/docker/engine.sh
[ "${IN_NAMESPACE-}" ] || exec env IN_NAMESPACE=1 unshare -m "$0" "$@" # mounts end with it
cd "$(dirname "$0")/../.."
. tests/docker/base.bash

need curl jq
make_base_tar
engine=$state/engine
mkdir -p "$engine/root" "$engine/config"
if [ ! -x "$engine/root/usr/sbin/dockerd" ]; then
    # The package has the name of the registry, which nothing in this tree says.
    (cd "$engine" && apt-get download -q docker'.'io containerd runc >apt.log 2>&1 &&
        for package in *.deb; do dpkg -x "$package" root; done && rm -f -- *.deb) ||
        fail "the engine is unpacked: $(tail -n 3 "$engine/apt.log")"
fi

export PATH=$engine/root/usr/bin:$engine/root/usr/sbin:$PATH DOCKER_BUILDKIT=1
export DOCKER_HOST=unix://$engine/socket DOCKER_CONFIG=$engine/config
name=seqd-check-$$
dockerd --data-root "$engine/data" --exec-root "$engine/exec" -H "$DOCKER_HOST" -p "$engine/pid" \
    --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --bridge=none \
    --storage-driver overlay2 >"$engine/log" 2>&1 &
started+=($!)
at_exit+=("docker rm -f $name")
for _ in $(seq 120); do
    docker version >/dev/null 2>&1 && break
    sleep 0.25
done
docker version >/dev/null 2>&1 || fail "the engine starts: $(tail -n 5 "$engine/log")"
step "engine $(docker version --format '{{.Server.Version}}')"

docker image inspect seqd-base:bookworm >/dev/null 2>&1 ||
    docker import --change 'CMD ["bash"]' "$base_tar" seqd-base:bookworm >/dev/null
docker build --network host --progress plain --build-arg BASE=seqd-base:bookworm \
    --build-arg VERSION="$(<VERSION)" -t seqd:check . >"$engine/build.log" 2>&1 ||
    fail "the image is built: $(tail -n 30 "$engine/build.log")"
step 'the image is built'
small_enough "$(docker image inspect seqd:check -f '{{.Size}}')"

port=$(jq -n "19000 + $$ % 1000")
docker run -d --name $name --network host --read-only --cap-drop ALL --memory 512m \
    --security-opt no-new-privileges --pids-limit 128 -e SEQD_LISTEN=127.0.0.1:$port \
    -e SEQD_SERVER_DRAIN_DELAY_MS=500 -v "$PWD/tests/kit/vanilla_nopos:/model:ro" \
    seqd:check --model /model >/dev/null
ready_in_time "$(docker inspect $name -f '{{.State.StartedAt}}')" ||
    fail "it is ready: $(docker logs $name 2>&1 | tail -n 5)"
health() { docker inspect $name -f '{{.State.Health.Status}}'; }
for _ in $(seq 60); do
    [ "$(health)" = healthy ] && break
    sleep 0.5
done
[ "$(health)" = healthy ] || fail "its HEALTHCHECK makes it healthy: $(health)"
step 'its HEALTHCHECK makes it healthy'
survives docker stop -t 70 $name
code=$(docker inspect $name -f '{{.State.ExitCode}}')
[ "$code" = 0 ] || fail "docker stop ends it with 0: $code"
step 'docker stop ends it with 0'
