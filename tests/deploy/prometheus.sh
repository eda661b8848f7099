#!/usr/bin/env bash
# A real Prometheus, with the configuration of deploy/prometheus, scrapes a real daemon under load:
# its rules are tested, and every query of the dashboard must be answered.
#   usage: tests/deploy/prometheus.sh PROGRAM
# As root, on Debian; installs prometheus.  LOAD_SECONDS (40).
cd "$(dirname "$0")/../.."
. tests/deploy/common.bash

seqd=$(realpath "$1")
load_seconds=${LOAD_SECONDS:-40}
need prometheus curl jq

# promtool reads what is named in it relative to it.
conf=$scratch/conf
cp -r deploy/prometheus "$conf"
cp tests/deploy/rules_test.yaml "$conf/"

check() { # NAME COMMAND...
    local name=$1 output
    shift
    output=$("$@" 2>&1) || fail "$name: $output"
    step "$name"
}
check 'the configuration is valid' promtool check config "$conf/prometheus.yaml"
check 'the rules are valid' promtool check rules --lint-fatal "$conf/rules.yaml" "$conf/alerts.yaml"
check 'every alert fires when it must and not else' promtool test rules "$conf/rules_test.yaml"
check 'every alert has a test' python3 tests/deploy/dashboard.py tested "$conf/alerts.yaml" \
    "$conf/rules_test.yaml"
check 'every metric is one of the interface' python3 tests/deploy/dashboard.py named docs/api.md \
    "$conf/rules.yaml" "$conf/alerts.yaml" deploy/grafana/dashboards/seqd.json
check 'the dashboard is well-formed' python3 tests/deploy/dashboard.py lint \
    deploy/grafana/dashboards/seqd.json "$scratch/queries.yaml"
check 'its queries are PromQL' promtool check rules --lint=none "$scratch/queries.yaml"

# A broken rule must not pass.
sed 's/> 0.8/> 0.99/' deploy/prometheus/alerts.yaml >"$conf/alerts.yaml"
if promtool test rules "$conf/rules_test.yaml" >/dev/null 2>&1; then
    fail 'a changed threshold is seen (self-check)'
fi
step 'a changed threshold is seen (self-check)'
cp deploy/prometheus/alerts.yaml "$conf/"

daemon_port=$(free_port)
"$seqd" --model models/g2p --listen "127.0.0.1:$daemon_port" >"$scratch/seqd.log" 2>&1 &
started+=($!)
await 30 curl -fs "http://127.0.0.1:$daemon_port/readyz" || fail "ready: $(cat "$scratch/seqd.log")"
curl -fs "http://127.0.0.1:$daemon_port/metrics" >"$scratch/metrics"
check 'promtool finds no fault with /metrics' promtool check metrics <"$scratch/metrics"

# As deployed, but that the daemon is here and that the test has not fifteen seconds for each look.
sed -i 's/_interval: 15s/_interval: 1s/' "$conf/prometheus.yaml"
echo "- targets: ['127.0.0.1:$daemon_port']" >"$conf/targets.yaml"
prometheus_port=$(free_port)
prometheus --config.file="$conf/prometheus.yaml" --storage.tsdb.path="$scratch/data" \
    --web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn >"$scratch/prometheus.log" \
    2>&1 &
started+=($!)
prometheus=http://127.0.0.1:$prometheus_port
await 30 curl -fs "$prometheus/-/ready" || fail "prometheus: $(cat "$scratch/prometheus.log")"

answer() { # PROMQL: the values
    curl -fs "$prometheus/api/v1/query" --data-urlencode "query=$1" |
        jq -r '.data.result[].value[1]'
}
scraped() { [ "$(answer 'up{job="seqd"}')" = 1 ]; }
await 20 scraped || fail "it scrapes the daemon: $(cat "$scratch/prometheus.log")"
step 'it scrapes the daemon'
[ "$(answer 'seqd_queue_sequences') $(answer 'seqd_queue_limit_sequences')" = '0 4096' ] ||
    fail 'queue and limit are there before the first request'
step 'queue and limit are there before the first request'

python3 tests/deploy/load.py "http://127.0.0.1:$daemon_port" "$load_seconds" --bad \
    >"$scratch/load.json" &
load=$!
started+=($load)
check 'every query of the dashboard is answered, and no cumulative count is inconsistent' \
    python3 tests/deploy/dashboard.py live deploy/grafana/dashboards/seqd.json "$prometheus" \
    "http://127.0.0.1:$daemon_port" "$load_seconds"
wait $load || fail "no request is lost: $(cat "$scratch/load.json")"
step "no request is lost: $(jq -c '[.sent, .statuses]' "$scratch/load.json")"

# The HPA's metrics, as prometheus-adapter asks for them.
need_python_tools
scaled=$(python3 - <<'PYTHON'
import yaml
with open("deploy/kubernetes/prometheus-adapter.yaml", encoding="utf-8") as file:
    for rule in yaml.safe_load(file)["rules"]["external"]:
        print(rule["metricsQuery"].replace("<<.GroupBy>>", "job")
              .replace("<<.LabelMatchers>>", 'job="seqd"'))
PYTHON
)
while read -r query; do
    [[ $(answer "$query") =~ ^[0-9.e-]+$ ]] || fail "$query is answered: $(answer "$query")"
done <<<"$scaled"
step 'the metrics that scale are answered'

# What was asked is what PromQL says.
counted() {
    [ "$(answer 'sum(seqd_http_requests_total{route=~"/v1/.*"})')" -eq \
        "$(jq .sent "$scratch/load.json")" ]
}
await 20 counted || fail "Prometheus counts $(answer \
    'sum(seqd_http_requests_total{route=~"/v1/.*"})') requests of $(jq .sent "$scratch/load.json")"
step 'Prometheus counts each request'
firing=$(curl -fs "$prometheus/api/v1/rules" |
    jq -r '.data.groups[].rules[] | select(.health != "ok" or .state == "firing") | .name')
[ -z "$firing" ] || fail "no rule is at fault and no alert fires: $firing"
step 'no rule is at fault and no alert fires'

# An alert on the real thing; a second stands for the minutes.
kill "${started[0]}"
sed -i 's/for: .*m/for: 1s/' "$conf/alerts.yaml"
kill -HUP "${started[1]}"
down() { [ "$(answer 'ALERTS{alertname="SeqdDown",alertstate="firing"}')" = 1 ]; }
await 30 down || fail 'SeqdDown fires when the daemon is gone'
step 'SeqdDown fires when the daemon is gone'
