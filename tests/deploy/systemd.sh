#!/usr/bin/env bash
# deploy/seqd.service under a real systemd, which is process 1 of a container.
#   usage: tests/deploy/systemd.sh
cd "$(dirname "$0")/../.."
. tests/docker/base.bash
. tests/docker/podman.bash

build_image
cp deploy/seqd.service "$scratch/"
cat >"$scratch/seqd.yaml" <<'YAML'
models:
  - name: g2p
    path: /usr/local/share/seqd/g2p
server:
  listen: 127.0.0.1:8080
  drain_delay_ms: 300
engine:
  cache_dir: /var/cache/seqd
YAML
cat >"$scratch/Dockerfile" <<DOCKERFILE
FROM $image
USER 0
RUN apt-get update && apt-get install -y --no-install-recommends systemd procps curl \\
    && rm -rf /var/lib/apt/lists/*
COPY seqd.service /etc/systemd/system/
COPY seqd.yaml /etc/seqd/
HEALTHCHECK NONE
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT []
CMD ["/lib/systemd/systemd"]
DOCKERFILE
build systemd localhost/seqd-systemd:check "$scratch"

name=seqd-systemd-$$
at_exit+=("podman rm -f -t 0 $name")
# SYS_PTRACE: PrivateUsers= with ProtectProc= needs it of process 1, which has it outside of
# containers.
podman run -d --name $name --systemd=always --cap-add SYS_ADMIN,SYS_PTRACE --network none \
    localhost/seqd-systemd:check >/dev/null 2>"$scratch/log" || fail "$(cat "$scratch/log")"
inside() { podman exec $name "$@"; }
running() { [[ $(inside systemctl is-system-running) =~ running|degraded ]]; }
await 30 running || fail "systemd runs: $(podman logs $name 2>&1 | tail -n 5)"
show() { inside systemctl show --value -p "$1" seqd; }
of_process() { inside sed -n "s/^$1:\t*//p" "/proc/$(show MainPID)/status"; }
ready() { inside curl -fs -m 5 http://127.0.0.1:8080/readyz; }
is() { # NAME WANTED FOUND
    [ "$2" = "$3" ] || fail "$1 is $3, not $2: $(inside journalctl -u seqd | tail -n 8)"
    step "$1 is $2"
}

inside systemctl start seqd || fail "the unit starts: $(inside journalctl -u seqd | tail -n 8)"
# Type=notify: start returns when the daemon has said that it is ready.
ready >/dev/null || fail 'it is ready when systemctl start returns'
step 'it is ready when systemctl start returns'
is 'the state' active "$(show ActiveState)"
is 'the seccomp mode' 2 "$(of_process Seccomp)"
is 'NoNewPrivs' 1 "$(of_process NoNewPrivs)"
is 'the set of effective capabilities' 0000000000000000 "$(of_process CapEff)"
[ "$(of_process Uid | cut -f 1)" -gt 60000 ] || fail 'it has a user of its own'
step 'it has a user of its own'
inside curl -fs http://127.0.0.1:8080/v1/generate -H 'Content-Type: application/json' \
    -d '{"inputs": "hello"}' >/dev/null || fail 'it generates in its sandbox'
step 'it generates in its sandbox'
[ "$(inside sh -c 'ls /var/cache/private/seqd | wc -l')" -ge 1 ] ||
    fail 'it has packed the model in its cache folder'
step 'it has packed the model in its cache folder'

pid=$(show MainPID)
inside kill -KILL "$pid"
restarted() { ready && [ "$(show MainPID)" != "$pid" ]; }
await 15 restarted || fail 'it is started again when it was killed'
step 'it is started again when it was killed'

# The configuration of a reload, good and bad: reload returns, and it serves on.
pid=$(show MainPID)
inside sed -i 's/name: g2p/name: other/' /etc/seqd/seqd.yaml
inside systemctl reload seqd || fail 'systemctl reload returns'
model() { inside curl -fs http://127.0.0.1:8080/v1/models | jq -r '.data[0].id'; }
renamed() { [ "$(model)" = other ]; }
await 10 renamed || fail "a reload reads the configuration: $(model)"
inside sed -i 's/name: other/nome: third/' /etc/seqd/seqd.yaml
inside systemctl reload seqd || fail 'systemctl reload returns after a bad configuration'
is 'the model after a bad configuration' other "$(model)"
is 'the process after two reloads' "$pid" "$(show MainPID)"
inside sed -i 's/nome: third/name: g2p/' /etc/seqd/seqd.yaml

# A process that says nothing any more; three seconds stand for WatchdogSec.
inside mkdir -p /run/systemd/system/seqd.service.d
printf '[Service]\nWatchdogSec=3\n' |
    podman exec -i $name sh -c 'cat >/run/systemd/system/seqd.service.d/watchdog.conf'
inside systemctl daemon-reload
inside systemctl restart seqd
pid=$(show MainPID)
! await 5 restarted || fail 'a live process is left alone by the watchdog'
step 'a live process is left alone by the watchdog'
inside kill -STOP "$pid"
await 20 restarted || fail "a hanging process is started anew: $(show Result)"
step 'a hanging process is started anew'

inside systemctl stop seqd
is 'the result of a stop' success "$(show Result)"
is 'the exit code of a stop' 0 "$(show ExecMainStatus)"
