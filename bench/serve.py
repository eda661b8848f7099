#!/usr/bin/env python3
"""The daemon against its peers behind FastAPI, over HTTP; one JSON line a cell.

    bench/serve.py --seqd build/release/seqd --models build/bench/models --out serve.jsonl

clients   closed loop of 1, 8, 32 and 128 clients, a request one source of 5 to 80 tokens and 32 new
          tokens: tokens per second, p50, p95 and p99 of the latency
overload  open loop at a half, one, two and ten times what 32 clients were served; goodput is
          what comes within the deadline, twice the median latency of the 32 clients
beside    a short request's p99 alone, and while one client asks for long rows without a pause

Every cell has a server of its own, on a free port of 127.0.0.1; cells take turns like those of
bench/peers.py.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import load
from common import (HERE, PRECISIONS, Foreign, Results, add_arguments, clean_environment, median,
                    memory_mb, models, names, parsed, percentile, say, seqd_folder,
                    wait_for_quiet)

CONTESTANTS = "seqd-f32 seqd-bf16 seqd-int8 ct2-f32 ct2-int8 ort-f32 ort-int8".split()
TESTS = "clients overload beside".split()
SOURCES, NEW = 256, 32
CAPACITY_CLIENTS = 32
LOADS = (0.5, 1.0, 2.0, 10.0)
SHORT_TOKENS, SHORT_NEW, SHORT_COUNT = 8, 8, 200
LONG_TOKENS, LONG_NEW = 500, 400


class Server:
    """A contestant: `mode` is how a peer serves, empty for seqd."""

    def __init__(self, name, mode, model, asked):
        self.name, self.mode, self.model = name, mode, model
        library, _, form = name.partition("-")
        self.is_seqd, self.precision = library == "seqd", PRECISIONS[form]
        if self.is_seqd:
            self.command = [asked.seqd, "--model", seqd_folder(asked.seqd, model, form),
                            "--log.level", "warning", *asked.seqd_options, "--listen"]
        else:
            self.command = [sys.executable, os.path.join(HERE, "serve_peers.py"), name,
                            model.folder, "--mode", mode, "--cores", str(asked.cores), "--port"]

    def request(self, row, new, deadline=None):
        if not self.is_seqd:
            return load.post("/generate", {"input_ids": [row], "max_new_tokens": new})
        body = {"input_ids": [row], "parameters": {"min_new_tokens": new, "max_new_tokens": new}}
        if deadline:
            body["timeout_ms"] = max(1, round(1000 * deadline))
        return load.post("/v1/generate", body)

    def tokens(self, body):
        outputs = json.loads(body)["outputs"]
        return outputs[0]["sequences"][0]["token_ids"] if self.is_seqd else outputs[0]

    @contextlib.contextmanager
    def running(self):
        """(port, process) of a server that is ready; it ends by its own id."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        place = f"127.0.0.1:{port}" if self.is_seqd else str(port)
        with tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen([*self.command, place], stdout=log, stderr=log,
                                       env=clean_environment())
            try:
                wait_until_ready(port, process, log)
                yield port, process
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(3)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def wait_until_ready(port, process, log, seconds=120):
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return
        if process.poll() is not None or time.monotonic() > end:
            log.seek(0)
            raise RuntimeError(f"does not serve: {log.read().strip()[-400:]}")
        time.sleep(0.01)


class Bench:
    """Runs one test of one server, and keeps what later tests need to know."""

    def __init__(self, asked, results):
        self.asked, self.results = asked, results
        self.clients = collections.defaultdict(list)  # by server and number of clients
        self.first = {}  # tokens of the first server, by model

    def measure(self, server, work):
        """`work(port)` gives the answers of a load; what else is told is about the server."""
        with server.running() as (port, process):
            self.compare(server, port)
            wait_for_quiet(self.asked.quiet)
            own = time.process_time()
            with Foreign(process.pid) as foreign:
                answers = asyncio.run(work(port))
            found = {
                "foreign_cores": round(foreign.load, 2), **memory_mb(process.pid),
                "generator_cores": round((time.process_time() - own) / foreign.seconds, 3),
                "statuses": {str(k): n for k, n in sorted(answers.statuses.items(), key=str)}}
        return answers, found

    def compare(self, server, port):
        """A few answers, against those of the first server of the model."""
        rows = server.model.rows(4, 5, 80, seed=3)
        requests = [server.request(row, NEW) for row in rows]

        async def ask():
            connection = await load.connect(port)
            replies = [await connection.ask(request) for request in requests]
            connection.close()
            return replies

        replies = asyncio.run(ask())
        if any(status != 200 for status, _ in replies):
            raise RuntimeError(f"answers {replies[0][0]}: {replies[0][1][:200]}")
        tokens = [server.tokens(body) for _, body in replies]
        if any(len(row) != NEW for row in tokens):
            raise RuntimeError(f"answers rows of {[len(row) for row in tokens]} tokens")
        first = self.first.setdefault(server.model.name, tokens)
        equal = [a == b for row, own in zip(first, tokens) for a, b in zip(row, own)]
        server.equal = round(sum(equal) / len(equal), 4)

    def write(self, server, test, **what):
        self.results.write({
            "record": "serve", "model": server.model.name, "test": test,
            "contestant": server.name, "mode": server.mode, "precision": server.precision,
            "tokens_equal": server.equal, **what})
        short = {k: v for k, v in what.items() if not isinstance(v, (dict, list))}
        say(f"{server.model.name} {server.name} {server.mode}", test, short)

    def closed(self, server, clients):
        requests = [server.request(row, NEW) for row in server.model.rows(SOURCES, 5, 80)]
        answers, found = self.measure(server, lambda port: load.closed_loop(
            port, requests, clients, self.asked.seconds, rounds=2, limit=self.asked.limit))
        if not answers.latencies:
            raise RuntimeError(f"{clients} clients got nothing: {found['statuses']}")
        self.clients[server, clients].append((answers, found))

    def tell_closed(self, server, clients):
        """One line of all rounds: the median throughput, the latencies together."""
        rounds = self.clients.get((server, clients))
        if not rounds:
            return
        latencies = [1000 * s for answers, _ in rounds for s in answers.latencies]
        speeds = [NEW * len(a.latencies) / a.seconds for a, _ in rounds]
        self.write(
            server, "clients", clients=clients, tokens_per_second=round(median(speeds), 1),
            tokens_per_second_all=[round(speed, 1) for speed in speeds],
            **{f"p{n}_ms": round(percentile(latencies, n / 100), 1) for n in (50, 95, 99)},
            requests=len(latencies),
            seconds=round(sum(answers.seconds for answers, _ in rounds), 1),
            **max((found for _, found in rounds), key=lambda f: f["foreign_cores"]))

    def overload(self, server):
        if not self.clients.get((server, CAPACITY_CLIENTS)):
            self.closed(server, CAPACITY_CLIENTS)
        measured = [answers for answers, _ in self.clients[server, CAPACITY_CLIENTS]]
        capacity = median([len(a.latencies) / a.seconds for a in measured])
        deadline = 2 * percentile([s for a in measured for s in a.latencies], 0.5)
        rows = server.model.rows(SOURCES, 5, 80)
        requests = [server.request(row, NEW, deadline) for row in rows]
        goodput, told = {}, {}
        for times in LOADS:
            rate = times * capacity
            answers, found = self.measure(server, lambda port: load.open_loop(
                port, requests, rate, deadline, self.asked.seconds))
            goodput[times] = len(answers.latencies) / answers.seconds
            told[str(times)] = {
                "offered_per_second": round(rate, 1),
                "goodput_per_second": round(goodput[times], 2), "generator_late_seconds":
                round(answers.late, 2), **found}
        self.write(server, "overload", deadline_ms=round(1000 * deadline),
                   capacity_per_second=round(capacity, 2), loads=told,
                   goodput_peak=round(max(goodput.values()), 2),
                   goodput_overloaded=round(goodput[LOADS[-1]], 2),
                   share=round(goodput[LOADS[-1]] / max(max(goodput.values()), 1e-9), 3))

    def beside(self, server):
        short = [server.request(row, SHORT_NEW)
                 for row in server.model.rows(64, SHORT_TOKENS)]
        row = server.model.rows(1, LONG_TOKENS)[0]
        told = {}
        for case, background in (("alone", None), ("beside", server.request(row, LONG_NEW))):
            answers, found = self.measure(server, lambda port: load.one_by_one(
                port, short, self.asked.limit, SHORT_COUNT, background))
            latencies = [1000 * s for s in answers.latencies]
            if not latencies:
                raise RuntimeError(f"short requests {case}: {found['statuses']}")
            told |= {f"{case}_p50_ms": round(percentile(latencies, 0.5), 2),
                     f"{case}_p99_ms": round(percentile(latencies, 0.99), 2),
                     f"{case}_requests": len(latencies), f"{case}_server": found}
        self.write(server, "beside", **told,
                   ratio_p99=round(told["beside_p99_ms"] / told["alone_p99_ms"], 2))


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--model", type=names, default="marian-base")
    parser.add_argument("--contestants", type=names, default=",".join(CONTESTANTS),
                        help="also seqd-plain (default: %(default)s)")
    parser.add_argument("--modes", type=names, default="pool,queue,team",
                        help="of the peers: see bench/serve_peers.py")
    parser.add_argument("--tests", type=names, default=",".join(TESTS))
    parser.add_argument("--clients", type=names, default="1,8,32,128")
    parser.add_argument("--rounds", type=int, default=2, help="of the test with clients")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a load, at least")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a load, at most")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    return parsed(parser)


def contestants(model, asked, missing):
    for name in asked.contestants:
        for mode in [""] if name.startswith("seqd") else asked.modes:
            try:
                yield Server(name, mode, model, asked)
            except (RuntimeError, OSError) as why:
                missing(name, mode, why)


def run_model(model, bench, asked):
    def missing(name, mode, why):
        bench.results.write({"record": "missing", "model": model.name, "contestant": name,
                             "mode": mode, "why": str(why)})
        say(f"{model.name} {name} {mode}: {why}")

    def attempt(work, server, *words):
        try:
            work(server, *words)
        except (RuntimeError, OSError) as why:
            missing(server.name, server.mode, why)

    servers = list(contestants(model, asked, missing))
    counts = list(map(int, asked.clients))
    if "clients" in asked.tests:
        for _ in range(asked.rounds):
            for clients in counts:
                for server in servers:
                    attempt(bench.closed, server, clients)
        for server in servers:
            for clients in counts:
                bench.tell_closed(server, clients)
    for test, work in (("overload", bench.overload), ("beside", bench.beside)):
        for server in servers if test in asked.tests else ():
            attempt(work, server)


def main():
    asked = arguments()
    folders = models(asked.models, asked.model)
    bench = Bench(asked, Results(asked.out, asked.seqd))
    for model in folders:
        run_model(model, bench, asked)


if __name__ == "__main__":
    main()
