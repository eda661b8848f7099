#!/usr/bin/env python3
"""What several files of deploy/ say must agree, and with the daemon's defaults.

usage: agreement.py MANIFESTS COMPOSE UNIT DOCKERFILE SEQD_YAML ADAPTER PROGRAM MODEL
Prints the faults; exit code 1 if there is one.  Needs PyYAML.
"""
import json
import os
import re
import subprocess
import sys

import yaml

LAST_ANSWERS_S = 5
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def drain_seconds(environment, dockerfile, defaults):
    """Delay and timeout as a container has them: environment, else image, else the daemon's."""
    image = dict(re.findall(r"(SEQD_\w+)=(\S+)", dockerfile))
    delay = environment.get("SEQD_SERVER_DRAIN_DELAY_MS", image["SEQD_SERVER_DRAIN_DELAY_MS"])
    request = re.search(r"^  request_timeout_ms: (\d+)$", defaults, re.M)[1]
    timeout = environment.get("SEQD_SERVER_DRAIN_TIMEOUT_MS", request)
    return (int(delay) + int(timeout)) / 1000


def size(text):
    """Bytes: 1024, 256 MiB, 1Gi, 2g."""
    number, unit = re.fullmatch(r"(\d+) ?([kmg]?)(?:ib?)?", str(text).lower()).groups()
    return int(number) * UNITS[unit]


def memory_needed(environment, defaults, inspect):
    """The sum of deploy/README.md and a tenth."""
    def value(section, key):
        return size(environment.get(f"SEQD_{section}_{key}".upper(),
                                    yaml.safe_load(defaults)[section][key]))
    # One worker, whatever machine this is.
    shape = {"SEQD_ENGINE_WORKERS": "1", "SEQD_ENGINE_THREADS": "2"}
    model = json.loads(subprocess.run(inspect, env={**os.environ, **environment, **shape},
                                      check=True, capture_output=True).stdout)["memory"]["bytes"]
    requests = (40 * value("limits", "body_bytes") + (16 << 20)
                + 8 * value("limits", "bodies_bytes") + value("limits", "answers_bytes")
                + (256 << 10) * value("server", "connections"))
    return (model + requests) * 11 // 10


def memory_faults(what, environment, limit, defaults, inspect):
    needed = memory_needed(environment, defaults, inspect)
    if size(limit) < needed:
        yield f"{what}: a memory limit of {limit} is less than the {needed >> 20} MiB of the sum"


def pod_environment(documents):
    """Of the Deployment: its container's environment and memory limit."""
    for document in documents:
        if document["kind"] == "Deployment":
            container = document["spec"]["template"]["spec"]["containers"][0]
            return ({item["name"]: item["value"] for item in container["env"]},
                    container["resources"]["limits"]["memory"])
    return {}, 0


def kubernetes_faults(documents, dockerfile, defaults):
    kinds = {document["kind"]: document for document in documents}
    wanted = {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget",
              "NetworkPolicy", "ServiceMonitor"}
    if wanted - kinds.keys():
        yield f"not there: {wanted - kinds.keys()}"
        return
    deployment = kinds["Deployment"]["spec"]
    pod, labels = deployment["template"]["spec"], deployment["template"]["metadata"]["labels"]
    container = pod["containers"][0]
    environment, _ = pod_environment(documents)
    needed = drain_seconds(environment, dockerfile, defaults) + LAST_ANSWERS_S
    if pod["terminationGracePeriodSeconds"] < needed:
        yield f"terminationGracePeriodSeconds is less than {needed}"

    # An empty selector is every pod of the namespace.
    selectors = {"Deployment": deployment["selector"]["matchLabels"],
                 "Service": kinds["Service"]["spec"]["selector"],
                 "PodDisruptionBudget": kinds["PodDisruptionBudget"]["spec"]["selector"].get(
                     "matchLabels"),
                 "NetworkPolicy": kinds["NetworkPolicy"]["spec"]["podSelector"].get("matchLabels")}
    for kind, selector in selectors.items():
        if not selector or not selector.items() <= labels.items():
            yield f"{kind} does not select the pod: {selector}"
    monitored = kinds["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    if not monitored.items() <= kinds["Service"]["metadata"]["labels"].items():
        yield "ServiceMonitor does not select the Service"
    ports = {port["name"] for port in container["ports"]}
    probes = [container[probe]["httpGet"] for probe in
              ("startupProbe", "readinessProbe", "livenessProbe")]
    if {probe["port"] for probe in probes} - ports:
        yield "a probe asks a port that is none"
    if [probe["path"] for probe in probes] != ["/readyz", "/readyz", "/livez"]:
        yield "probes ask other paths"
    if kinds["Service"]["spec"]["ports"][0]["targetPort"] not in ports:
        yield "the Service's port is none of the pod"
    if kinds["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] != \
            kinds["Deployment"]["metadata"]["name"]:
        yield "the HPA scales something else"

    # Pod security standard "restricted", and a root that cannot be written to.
    secure = container["securityContext"]
    user = int(re.search(r"^USER (\d+)", dockerfile, re.M)[1])
    if not (pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == user
            and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            and secure["allowPrivilegeEscalation"] is False
            and secure["capabilities"] == {"drop": ["ALL"]}
            and secure["readOnlyRootFilesystem"] is True):
        yield "the pod is not restricted"


def metric_faults(documents, adapter):
    offered = {rule["name"]["as"]: rule["metricsQuery"] for rule in adapter["rules"]["external"]}
    for document in documents:
        if document["kind"] != "HorizontalPodAutoscaler":
            continue
        asked = {metric["external"]["metric"]["name"] for metric in document["spec"]["metrics"]}
        if asked != offered.keys():
            yield f"the adapter offers {set(offered)}, the HPA asks for {asked}"
        # Overload keeps the queue short: the daemon refuses what would wait too long.
        if "seqd_expected_wait_seconds" not in asked:
            yield "the HPA does not see overload"
    for name, query in offered.items():
        if not query.startswith("max by"):
            yield f"the adapter's {name} is no maximum"


def main():
    documents = list(yaml.safe_load_all(read(sys.argv[1])))
    compose, unit = yaml.safe_load(read(sys.argv[2])), read(sys.argv[3])
    dockerfile, defaults = read(sys.argv[4]), read(sys.argv[5])
    adapter = yaml.safe_load(read(sys.argv[6]))
    faults = list(kubernetes_faults(documents, dockerfile, defaults))
    faults += metric_faults(documents, adapter)
    inspect = [sys.argv[7], "inspect", "--json", sys.argv[8]]
    faults += memory_faults("the pod", *pod_environment(documents), defaults, inspect)
    service = compose["services"]["seqd"]
    faults += memory_faults("compose", service.get("environment", {}), service["mem_limit"],
                            defaults, inspect)
    needed = drain_seconds({}, dockerfile, defaults) + LAST_ANSWERS_S
    grace = service["stop_grace_period"]
    if int(grace.rstrip("s")) < needed:
        faults.append(f"compose's stop_grace_period is less than {needed} s")
    if int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)[1]) < needed:
        faults.append(f"TimeoutStopSec is less than {needed}")
    print("\n".join(faults), end="")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
