#!/usr/bin/env bash
# The Kubernetes manifests, as kustomize makes them, run as a pod by podman.
#   usage: tests/deploy/kube.sh
cd "$(dirname "$0")/../.."
. tests/docker/base.bash
. tests/docker/podman.bash

# catatonit: what holds a pod's namespaces; netavark, aardvark-dns: its network.
need catatonit netavark aardvark-dns iptables
command -v kubectl >/dev/null || fail 'kubectl is here (Debian has no package of it)'
if [ -z "${IN_NAMESPACE-}" ]; then
    build_image
    rm -rf "$scratch"
    own_namespace
fi
ip link set lo up

# The manifests as they are, but for the image's name: there is no registry to have it from.
cp -r deploy/kubernetes "$scratch/"
mkdir "$scratch/kubernetes/here"
cat >"$scratch/kubernetes/here/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../base]
images:
  - {name: seqd, newName: ${image%:*}, newTag: ${image##*:}}
YAML
kubectl kustomize "$scratch/kubernetes/here" >"$scratch/seqd.yaml"
at_exit+=("podman kube down '$scratch/seqd.yaml'")
podman kube play "$scratch/seqd.yaml" >"$scratch/log" 2>&1 ||
    fail "the pod is played: $(tail -n 5 "$scratch/log")"
step 'the pod is played'
container=$(podman ps --format '{{.Names}}' --filter label=app.kubernetes.io/name=seqd |
    grep -v -- -infra | head -n 1)
[ -n "$container" ] || fail "a container runs: $(podman ps -a)"
port=8080
await 10 answers /readyz || fail "the pod is ready: $(podman logs "$container" 2>&1 | tail -n 5)"
step 'the pod is ready on its containerPort'
answers /v1/generate -H 'Content-Type: application/json' -d '{"inputs": "hello"}' |
    jq -e '.outputs[0].sequences[0].text | length > 0' >/dev/null || fail 'the pod generates'
step 'the pod generates'

is() { # NAME WANTED FOUND
    [ "$2" = "$3" ] || fail "$1 is $3, not $2"
    step "$1 is $2"
}
inspect() { podman inspect "$container" | jq -r ".[0] | $1"; }
is 'the user' 10001:10001 "$(inspect .Config.User)"
is 'the root file system, read-only,' true "$(inspect .HostConfig.ReadonlyRootfs)"
is 'the memory limit' $((1 << 30)) "$(inspect .HostConfig.Memory)"
is 'the CPU budget that the daemon sees' 2 \
    "$(answers /metrics | sed -n 's/^seqd_cpu_budget_cores //p')"
is 'the set of effective capabilities' 0000000000000000 \
    "$(podman exec "$container" sed -n 's/^CapEff:\t//p' /proc/1/status)"
podman stop -t 75 "$container" >/dev/null 2>&1
is 'the exit code after a stop' 0 "$(inspect .State.ExitCode)"
