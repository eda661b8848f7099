#!/usr/bin/env bash
# Everything of deploy/ that can be judged without being run, strictly.
#   usage: tests/deploy/lint.sh PROGRAM
cd "$(dirname "$0")/../.."
. tests/deploy/common.bash

seqd=$(realpath "$1")
need haproxy systemd jq
need_python_tools
command -v kubectl >/dev/null || fail 'kubectl is here (Debian has no package of it)'

check() { # NAME COMMAND...: no output, or it is shown
    local name=$1 output
    shift
    output=$("$@" 2>&1) || fail "$name: $output"
    step "$name"
}
refused() { # NAME COMMAND...: the checker does see faults
    local name=$1
    shift
    ! "$@" >/dev/null 2>&1 || fail "$name (self-check)"
    step "$name (self-check)"
}

# DL3008 wants versions of packages: those of a stable release only ever get fixes.
check 'Dockerfile' hadolint --ignore DL3008 Dockerfile

rules='{extends: default, rules: {document-start: disable, line-length: {max: 100},
    braces: {max-spaces-inside: 1}, truthy: {check-keys: false}, indentation: {spaces: 2},
    comments: {min-spaces-from-content: 1}}}'
mapfile -t yaml < <(find deploy -name '*.yaml')
check 'YAML' yamllint --strict -d "$rules" "${yaml[@]}"

check 'compose.yaml' check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
sed 's/read_only:/readonly:/' deploy/compose.yaml >"$scratch/compose.yaml"
refused 'an unknown key of compose' check-jsonschema --builtin-schema vendor.compose-spec \
    "$scratch/compose.yaml"

for overlay in base own-model; do
    kubectl kustomize "deploy/kubernetes/$overlay" >"$scratch/$overlay.yaml" ||
        fail "kubernetes/$overlay is built"
    check "kubernetes/$overlay" kubernetes-validate --strict "$scratch/$overlay.yaml"
done
sed 's/periodSeconds: 2/periodSeconds: two/' "$scratch/base.yaml" >"$scratch/wrong.yaml"
refused 'a word for a number' kubernetes-validate --strict "$scratch/wrong.yaml"
agree() { # MANIFESTS [COMPOSE]
    python3 tests/deploy/agreement.py "$1" "${2-deploy/compose.yaml}" deploy/seqd.service \
        Dockerfile config/seqd.yaml deploy/kubernetes/prometheus-adapter.yaml "$seqd" models/g2p
}
check 'manifests agree with each other and with the image' agree "$scratch/base.yaml"
sed 's/\(terminationGracePeriodSeconds\): .*/\1: 69/' "$scratch/base.yaml" >"$scratch/wrong.yaml"
refused 'a grace period shorter than the drain' agree "$scratch/wrong.yaml"
sed '/SEQD_LIMITS_BODIES_BYTES/,+1d' "$scratch/base.yaml" >"$scratch/wrong.yaml"
refused 'bodies that do not fit into the memory of the pod' agree "$scratch/wrong.yaml"
sed '/SEQD_LIMITS_BODIES_BYTES/d' deploy/compose.yaml >"$scratch/compose.yaml"
refused 'the same of compose' agree "$scratch/base.yaml" "$scratch/compose.yaml"
python3 - "$scratch/base.yaml" >"$scratch/wrong.yaml" <<'PYTHON'
import sys
import yaml
documents = list(yaml.safe_load_all(open(sys.argv[1], encoding="utf-8")))
for document in documents:
    if document["kind"] == "PodDisruptionBudget":
        document["spec"]["selector"] = {}
print(yaml.safe_dump_all(documents))
PYTHON
refused 'a selector of every pod' agree "$scratch/wrong.yaml"

check 'haproxy.cfg' haproxy -c -f deploy/haproxy/haproxy.cfg

sed "s|/usr/local/bin/seqd|$seqd|" deploy/seqd.service >"$scratch/seqd.service"
check 'seqd.service' systemd-analyze verify --man=no --recursive-errors=no "$scratch/seqd.service"
sed 's/^ProtectClock/ProtectedClock/' "$scratch/seqd.service" >"$scratch/wrong.service"
refused 'an unknown key of systemd' systemd-analyze verify --man=no --recursive-errors=no \
    "$scratch/wrong.service"
# The threshold is in tenths.
check 'the sandbox of seqd.service exposes at most 3.0' systemd-analyze security --offline=yes \
    --threshold=30 "$scratch/seqd.service"
systemd-analyze security --offline=yes "$scratch/seqd.service" | tail -n 1
