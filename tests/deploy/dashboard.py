#!/usr/bin/env python3
"""What no Grafana is needed for: the dashboard's form and its queries.

usage: dashboard.py lint DASHBOARD RULES     checks the form; writes the queries as recording rules
       dashboard.py live DASHBOARD PROMETHEUS DAEMON SECONDS   asks them all while there is load
       dashboard.py tested ALERTS TESTS      a test sees each alert fire
       dashboard.py named API DASHBOARD_OR_RULES...   every metric is one of the interface
Prints the faults; exit code 1 if there is one.
"""
import json
import math
import re
import sys
import time
import urllib.parse
import urllib.request

COLUMNS = 24
VARIABLES = {"$__rate_interval": "30s", "$job": "seqd", "$instance": ".*", "$model": ".*"}


def expanded(expression):
    """As Grafana asks it with every variable at All."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def queries(dashboard):
    """[(panel title, expression)], the variables' own questions among them."""
    found = [(panel["title"], target["expr"])
             for panel in dashboard["panels"] for target in panel.get("targets", [])]
    for variable in dashboard["templating"]["list"]:
        match = re.fullmatch(r"label_values\((.+), (\w+)\)", str(variable["query"]))
        if match:
            found.append(("variable " + variable["name"],
                          f'count by ({match[2]}) ({match[1]})'))
    return found


def form_faults(dashboard):
    """Ids, places, descriptions, data sources, and labels that Prometheus spells in two ways."""
    ids, cells = set(), set()
    for panel in dashboard["panels"]:
        title, place = panel["title"], panel["gridPos"]
        if panel["id"] in ids:
            yield f"{title}: a second panel has id {panel['id']}"
        ids.add(panel["id"])
        covered = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                   for y in range(place["y"], place["y"] + place["h"])}
        if cells & covered or place["x"] + place["w"] > COLUMNS:
            yield f"{title}: lies over another panel or beyond the right edge"
        cells |= covered
        if panel["type"] == "row":
            continue
        if not panel["targets"]:
            yield f"{title}: asks nothing"
        references = [target["refId"] for target in panel["targets"]]
        if len(set(references)) < len(references):
            yield f"{title}: two queries have one refId"
        for item in [panel] + panel["targets"]:
            if item["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
                yield f"{title}: a data source that the reader cannot choose"
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    for title, expression in queries(dashboard):
        for used in re.findall(r"\$\{?(\w+)", expression):
            if used not in names and not used.startswith("__"):
                yield f"{title}: no variable is called {used}"
        if "$" in expanded(expression):
            yield f"{title}: what is {expanded(expression)}?"
        # Prometheus 3 writes le="1.0" for le="1": who asks for one does not find the other.
        if re.search(r'\ble\s*=~?\s*"', expression):
            yield f"{title}: compares le"


def lint(path, rules_path):
    with open(path, encoding="utf-8") as file:
        dashboard = json.load(file)
    yield from form_faults(dashboard)
    # JSON is YAML.
    rules = [{"record": f"query:{i}", "expr": expanded(expression)}
             for i, (_, expression) in enumerate(queries(dashboard))]
    with open(rules_path, "w", encoding="utf-8") as file:
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def answered(prometheus, expression):
    """Whether a number, not only NaN, comes back."""
    query = urllib.parse.urlencode({"query": expanded(expression)})
    result = json.loads(get(f"{prometheus}/api/v1/query?{query}"))["data"]["result"]
    return any(math.isfinite(float(series["value"][1])) for series in result)


def samples(text):
    return {series: float(value) for series, value in
            (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}


def scrape_faults(before, now):
    """Of one scrape: buckets cumulative, the last one the count.  Of two: counters never fall."""
    below = {}
    for series, value in now.items():
        counter = re.search(r"(_total|_count|_bucket|_sum)(\{|$)", series)
        if counter and value < before.get(series, 0):
            yield f"{series} fell from {before[series]} to {value}"
        match = re.fullmatch(r'(.*)_bucket(\{.*?),?le="([^"]*)"\}', series)
        if match:
            name = match[1] + match[2] + "}"
            if value < below.get(name, 0):
                yield f"{series} is less than the bucket before"
            below[name] = value
            if match[3] == "+Inf" and now[match[1] + "_count" + match[2] + "}"] != value:
                yield f"{series} is not the count"


def live(path, prometheus, daemon, seconds):
    with open(path, encoding="utf-8") as file:
        waiting = queries(json.load(file))
    total, scrapes, before = len(waiting), 0, {}
    end = time.monotonic() + float(seconds)
    look = time.monotonic() + 5
    while time.monotonic() < end:
        now = samples(get(daemon + "/metrics"))
        yield from scrape_faults(before, now)
        before, scrapes = now, scrapes + 1
        if waiting and time.monotonic() > look:
            waiting = [(title, e) for title, e in waiting if not answered(prometheus, e)]
            look = time.monotonic() + 2
        time.sleep(0.02)
    for title, expression in waiting:
        yield f"{title}: no answer to {expanded(expression)}"
    if total < 40 or scrapes < 100:
        yield f"only {total} queries and {scrapes} scrapes"


def tested(alerts_path, tests_path):
    with open(alerts_path, encoding="utf-8") as alerts, open(tests_path, encoding="utf-8") as tests:
        names, text = re.findall(r"- alert: (\w+)", alerts.read()), tests.read()
    for name in names:
        if not re.search(rf"alertname: {name}\n\s+eval_time: \w+\n\s+exp_alerts:\n", text):
            yield f"no test sees {name} fire"
    if not names:
        yield "no alerts"


def named(api_path, *paths):
    """An alert on a misspelled metric never fires, and nobody sees it."""
    with open(api_path, encoding="utf-8") as file:
        known = set(re.findall(r"\b(seqd_[a-z_]+|process_[a-z_]+)", file.read()))
    for path in paths:
        with open(path, encoding="utf-8") as file:
            used = set(re.findall(r"(?<![:.\w])(seqd_[a-z_]+)(?!:)\b", file.read()))
        for name in sorted(used):
            if re.sub("_(bucket|sum|count)$", "", name) not in known:
                yield f"{path}: {name} is no metric of {api_path}"
        if not used:
            yield f"{path}: no metrics"


def main():
    tasks = {"lint": lint, "live": live, "tested": tested, "named": named}
    if len(sys.argv) < 4 or sys.argv[1] not in tasks:
        sys.exit(__doc__)
    faults = list(tasks[sys.argv[1]](*sys.argv[2:]))
    print("\n".join(faults[:20]), end="")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
