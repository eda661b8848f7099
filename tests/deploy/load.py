#!/usr/bin/env python3
"""Load for a daemon or for a proxy before several: a mix of routes and options, half of the clients
on kept connections, half on a new one for each request.  Every answer is compared with the first
one to the same question.

usage: load.py URL SECONDS [--clients N] [--bad] [--pause SECONDS]
Prints {"sent", "statuses", "lost", "slowest"}; exit code 1 if a good request was lost: no 200, or
another answer than the first.
"""
import argparse
import collections
import http.client
import json
import sys
import threading
import time
import urllib.parse

WORDS = ["hello", "read", "tomato", "wright", "orchestra", "pneumonia", "seven", "quartz"]


def questions():
    """(route, body) of requests that must be answered with 200."""
    asked = [("/v1/encode", {"inputs": WORDS, "pooling": "mean", "normalize": True})]
    for word in WORDS:
        asked += [
            ("/v1/generate", {"inputs": word}),
            ("/v1/generate", {"inputs": [word, "extra"], "parameters": {"num_beams": 4}}),
            ("/v1/encode", {"inputs": word}),
            ("/v1/score", {"inputs": word, "targets": "HH AH0 L OW1"}),
        ]
    return [(route, json.dumps(body)) for route, body in asked]


BAD = ("/v1/generate", '{"inputs": "hello", "parameters": {"num_beams": 0}}')


class Load:
    """Threads that ask until stop(); the counts may be read at any time."""

    def __init__(self, url, clients=8, bad=False, pause=0.0, timeout=90.0):
        at = urllib.parse.urlsplit(url)
        self.host, self.port, self.timeout, self.pause = at.hostname, at.port, timeout, pause
        self.questions, self.bad = questions(), bad
        self.first, self.statuses, self.lost = {}, collections.Counter(), []
        self.sent, self.slowest, self.stopping = 0, 0.0, False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.client, args=(i,)) for i in range(clients)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()

    def client(self, number):
        connection, turn = None, number
        while not self.stopping:
            if connection is None or number % 2:
                connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
            connection = self.ask(connection, turn)
            turn += len(self.threads) + 1
            time.sleep(self.pause)

    def ask(self, connection, turn):
        """The connection, or None if it must not be used again."""
        bad = self.bad and turn % 50 == 0
        route, body = BAD if bad else self.questions[turn % len(self.questions)]
        begun = time.monotonic()
        try:
            connection.request("POST", route, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            status, text, closing = answer.status, answer.read(), answer.will_close
        except (OSError, http.client.HTTPException) as error:
            status, text, closing = 0, repr(error).encode(), True
        self.count(turn, status, text, time.monotonic() - begun, bad)
        if closing:
            connection.close()
            return None
        return connection

    def count(self, turn, status, text, seconds, bad):
        with self.lock:
            self.sent += 1
            self.statuses[status] += 1
            self.slowest = max(self.slowest, seconds)
            if bad:
                fault = "" if status == 400 else "a bad request got " + str(status)
            elif status != 200:
                fault = text.decode(errors="replace")
            else:
                result = json.loads(text)
                result.pop("timing", None)
                same = self.first.setdefault(turn % len(self.questions), result) == result
                fault = "" if same else "another answer than the first: " + text.decode()
            if fault:
                self.lost.append({"status": status, "after": round(seconds, 3),
                                  "fault": fault[:300]})

    def report(self):
        with self.lock:
            return {"sent": self.sent, "statuses": dict(self.statuses), "lost": len(self.lost),
                    "slowest": round(self.slowest, 3), "examples": self.lost[:5]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--bad", action="store_true", help="now and then a request that is refused")
    parser.add_argument("--pause", type=float, default=0.01)
    args = parser.parse_args()
    load = Load(args.url, args.clients, args.bad, args.pause).start()
    time.sleep(args.seconds)
    load.stop()
    report = load.report()
    print(json.dumps(report))
    sys.exit(report["lost"] > 0 or report["sent"] == 0)


if __name__ == "__main__":
    main()
