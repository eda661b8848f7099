#!/usr/bin/env python3
"""Three replicas behind HAProxy, as deploy/haproxy configures it, under load: one is killed,
one is drained, all are restarted in turn, and no request may be lost.  Replicas of one host share
one copy of the weights.  Who leaves the proxy leaves its replica, and metrics stay behind it.

usage: scale_out.py PROGRAM MODEL
Prints `ok - ` and `not ok - ` lines; exit code 1 at the first fault.
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from load import Load

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRAIN_DELAY_MS = 5000  # that of the image
REPLICAS = 3


def ok(text):
    print("ok - scale_out: " + text, flush=True)


def fail(text):
    print("not ok - scale_out: " + text, flush=True)
    sys.exit(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def await_true(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.05)
    fail(f"{what} within {seconds} s")


class Replica:
    def __init__(self, program, model, logs, number):
        self.port, self.process = free_port(), None
        self.name, self.log = f"replica{number}", logs / f"replica{number}.log"
        # One worker each: three replicas and the load share the machine.
        self.command = [program, "--model", model, "--listen", f"127.0.0.1:{self.port}",
                        "--server.drain_delay_ms", str(DRAIN_DELAY_MS), "--engine.workers", "1",
                        "--engine.threads", "1"]

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        await_true(f"{self.name} is ready", lambda: self.process.poll() is None and
                   get(f"http://127.0.0.1:{self.port}/readyz"))

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(timeout=90)

    def mapped(self, field, file_name):
        """Kilobytes of a field of smaps, of the mappings of a file."""
        total, inside = 0, False
        for line in pathlib.Path(f"/proc/{self.process.pid}/smaps").read_text().splitlines():
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                inside = line.endswith(file_name)
            elif inside and line.startswith(field + ":"):
                total += int(line.split()[1])
        return total


class Proxy:
    def __init__(self, replicas, logs):
        self.port, self.stats = free_port(), free_port()
        config = str(ROOT / "deploy/haproxy/haproxy.cfg")
        environment = dict(os.environ, SEQD_BIND=f"127.0.0.1:{self.port}",
                           SEQD_STATS_BIND=f"127.0.0.1:{self.stats}")
        for number, replica in enumerate(replicas, 1):
            environment[f"SEQD_REPLICA_{number}"] = f"127.0.0.1:{replica.port}"
        self.log = logs / "haproxy.log"
        with open(self.log, "ab") as log:
            checked = subprocess.run(["haproxy", "-c", "-V", "-f", config], env=environment,
                                     capture_output=True, text=True, check=False)
            if checked.returncode or "WARNING" in checked.stderr + checked.stdout:
                fail("the configuration is without warnings: " + checked.stderr)
            self.process = subprocess.Popen(["haproxy", "-db", "-f", config], env=environment,
                                            stdout=log, stderr=log)

    def table(self):
        """{replica: its row of the statistics}"""
        lines = get(f"http://127.0.0.1:{self.stats}/;csv").lstrip("# ").splitlines()
        rows = [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
        return {row["svname"]: row for row in rows if row["pxname"] == "seqd_replicas"}

    def up(self):
        return [name for name, row in self.table().items()
                if name.startswith("replica") and row["status"].startswith("UP")]

    def served(self, replica):
        return int(self.table()[replica.name]["hrsp_2xx"])


def unharmed(load, what, proxy):
    """Nothing was lost so far, and not because nothing was asked."""
    report = load.report()
    if report["lost"]:
        fail(f"{what}: {report}")
    table = proxy.table()["BACKEND"]
    ok(f"{what}: 0 of {report['sent']} requests lost (slowest {report['slowest']} s, "
       f"retried {table['wretr']}, sent elsewhere {table['wredis']})")


def kill_one(load, proxy, victim):
    await_true("the victim serves", lambda: proxy.served(victim) > 20)
    for _ in range(3):  # a request is in flight more surely in one of three tries
        victim.end(signal.SIGKILL)
        await_true("the proxy sees it", lambda: victim.name not in proxy.up())
        victim.start()
        await_true("the proxy takes it back", lambda: victim.name in proxy.up())
    unharmed(load, "one killed with SIGKILL, three times", proxy)


def drain_one(load, proxy, replica):
    begun = time.monotonic()
    replica.process.send_signal(signal.SIGTERM)
    await_true("the proxy sees the drain", lambda: replica.name not in proxy.up(), 5)
    seen = time.monotonic() - begun
    code = replica.process.wait(timeout=90)
    took = time.monotonic() - begun
    if code != 0 or took < DRAIN_DELAY_MS / 1000 or seen > DRAIN_DELAY_MS / 1000:
        fail(f"a drained replica ends with 0 after its delay: code {code}, {took:.1f} s")
    unharmed(load, f"one drained, seen by the proxy after {seen:.1f} s, ended with 0 after "
             f"{took:.1f} s", proxy)
    replica.start()
    await_true("the proxy takes it back", lambda: len(proxy.up()) == REPLICAS)


def restart_all(load, proxy, replicas):
    for replica in replicas:
        if replica.end(signal.SIGTERM) != 0:
            fail(f"{replica.name} ends with 0")
        replica.start()
        await_true("the proxy takes it back", lambda: len(proxy.up()) == REPLICAS)
    before = {replica.name: proxy.served(replica) for replica in replicas}
    await_true("all serve again", lambda: all(
        proxy.served(replica) > before[replica.name] + 20 for replica in replicas))
    unharmed(load, "all restarted in turn", proxy)


def long_body(proxy):
    """Longer than the proxy's buffer, which cannot keep it for a second try but must let it pass."""
    body = json.dumps({"inputs": ["extraordinary" * 4] * 2000, "pooling": "mean"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{proxy.port}/v1/encode", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        rows = len(json.loads(answer.read())["data"])
    if rows != 2000 or len(body) <= 65536:
        fail(f"a body of {len(body)} bytes is answered: {rows} rows")
    ok(f"a body of {len(body)} bytes is answered")


def raw(proxy, text):
    """A connection on which that was sent."""
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=30)
    connection.sendall(text.encode())
    return connection


def leave(proxy, replicas):
    """A client that gives up must not keep rows at work: its replica has to hear of it."""
    body = json.dumps({"inputs": ["extraordinary"] * 2000, "parameters": {"num_beams": 16}})
    connection = raw(proxy, "POST /v1/generate HTTP/1.1\r\nHost: localhost\r\n"
                     "X-Request-Id: leaver\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}")
    time.sleep(0.5)
    connection.close()

    def seen():
        lines = [json.loads(line) for replica in replicas
                 for line in replica.log.read_text().splitlines() if '"leaver"' in line]
        return [line for line in lines if "status" in line]
    await_true("a replica ends the request of a client that left", seen)
    status, after = seen()[0]["status"], seen()[0]["ms"]
    if status != 499:
        fail(f"a replica hears that a client left: status {status} after {after} ms")
    ok(f"a replica hears that a client left: 499 after {after} ms")


def metrics_stay_behind(proxy):
    for target in ("/metrics", "/metrics?x", "/%6detrics", "/%6D%65trics",
                   "http://localhost/metrics", "http://localhost/%6detrics"):
        with raw(proxy, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n") as connection:
            answer = connection.recv(4096).decode()
        if not answer.startswith("HTTP/1.1 404 "):
            fail(f"the proxy does not show {target}: {answer.splitlines()[0]}")
    ok("the proxy does not show /metrics, however it is written")


def one_copy(replicas, model):
    """Proportional set size: a page that three processes map counts a third in each."""
    weights = max(pathlib.Path(model).iterdir(), key=lambda file: file.stat().st_size)
    size = weights.stat().st_size / 1024
    resident = sum(replica.mapped("Rss", str(weights)) for replica in replicas)
    shared = sum(replica.mapped("Pss", str(weights)) for replica in replicas)
    text = (f"weights of {size / 1024:.1f} MiB, {REPLICAS} replicas: resident together "
            f"{resident / 1024:.1f} MiB, of the machine's memory {shared / 1024:.1f} MiB")
    # Resident in each, or the sum of shares would say nothing.
    if resident < 0.5 * REPLICAS * size or shared > 1.05 * size:
        fail("the weights are in memory once: " + text)
    ok("the weights are in memory once: " + text)


def main():
    program, model = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
    with tempfile.TemporaryDirectory() as logs:
        replicas = [Replica(program, model, pathlib.Path(logs), i + 1) for i in range(REPLICAS)]
        processes = []
        try:
            for replica in replicas:
                replica.start()
            proxy = Proxy(replicas, pathlib.Path(logs))
            processes.append(proxy)
            await_true("the proxy sees three replicas", lambda: len(proxy.up()) == REPLICAS)
            load = Load(f"http://127.0.0.1:{proxy.port}", clients=12, pause=0.005).start()
            try:
                kill_one(load, proxy, replicas[0])
                drain_one(load, proxy, replicas[1])
                restart_all(load, proxy, replicas)
                one_copy(replicas, model)
            finally:
                load.stop()
            unharmed(load, "in the end", proxy)
            long_body(proxy)
            leave(proxy, replicas)
            metrics_stay_behind(proxy)
        finally:
            for one in processes + replicas:
                if one.process and one.process.poll() is None:
                    one.process.kill()
                    one.process.wait()


if __name__ == "__main__":
    main()
