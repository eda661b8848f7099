#!/usr/bin/env python3
"""What bfloat16 and int8 change: answers of packed folders against those of the folder they were made of.

    bench/quality.py --seqd build/release/seqd --model models/g2p [--sources 200]

For each precision, over random sources of the model's vocabulary: the least cosine between encoder
states, how often the first greedy token is the same, how many of the first 16 are, and the largest
difference of a target's log-probability under /v1/score.  One JSON line a precision.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import urllib.request

from common import clean_environment

PART = 25


class Daemon:
    def __init__(self, seqd, folder):
        self.process = subprocess.Popen([seqd, "--model", folder, "--listen", "127.0.0.1:0"],
                                        stderr=subprocess.PIPE, text=True, env=clean_environment())
        for line in self.process.stderr:
            entry = json.loads(line)
            if entry["message"] == "ready":
                self.url = f"http://127.0.0.1:{entry['port']}"
                return
        raise RuntimeError(f"seqd does not serve {folder}")

    def ask(self, route, body):
        request = urllib.request.Request(self.url + route, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

    def end(self):
        self.process.terminate()
        self.process.stderr.read()
        self.process.wait()


def parts(rows):
    return [rows[i:i + PART] for i in range(0, len(rows), PART)]


def answers(daemon, sources, targets):
    """targets None: the first greedy tokens become them."""
    states, tokens, scores = [], [], []
    for some in parts(sources):
        reply = daemon.ask("/v1/encode", {"input_ids": some, "pooling": "none"})
        states += [row["embedding"] for row in reply["data"]]
        reply = daemon.ask("/v1/generate", {"input_ids": some, "parameters": {
            "max_new_tokens": 16, "min_new_tokens": 16, "num_beams": 1, "do_sample": False}})
        tokens += [row["sequences"][0]["token_ids"] for row in reply["outputs"]]
    for some, wanted in zip(parts(sources), parts(targets or tokens)):
        reply = daemon.ask("/v1/score", {"input_ids": some, "target_ids": wanted})
        scores += [row["token_logprobs"] for row in reply["outputs"]]
    return states, tokens, scores


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def compare(plain, packed):
    tokens = list(zip(plain[1], packed[1]))
    return {
        "least_state_cosine": round(min(cosine(a, b) for x, y in zip(plain[0], packed[0])
                                        for a, b in zip(x, y)), 6),
        "first_token_equal": sum(a[0] == b[0] for a, b in tokens) / len(tokens),
        "tokens_equal": round(sum(x == y for a, b in tokens for x, y in zip(a, b)) /
                              sum(len(a) for a, _ in tokens), 4),
        "largest_logprob_difference": round(max(abs(x - y) for a, b in zip(plain[2], packed[2])
                                                for x, y in zip(a, b)), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seqd", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sources", type=int, default=200)
    asked = parser.parse_args()
    with open(os.path.join(asked.model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    vocabulary = config.get("vocab_size") or config["src_vocab_size"]
    draw = random.Random(3)
    sources = [[draw.randrange(4, vocabulary - 1) for _ in range(draw.randint(3, 24))]
               for _ in range(asked.sources)]
    daemon = Daemon(asked.seqd, asked.model)
    plain = answers(daemon, sources, None)
    daemon.end()
    for dtype in ("float32", "bfloat16", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            packed = os.path.join(folder, "packed")
            subprocess.run([asked.seqd, "quantize", asked.model, packed, "--dtype", dtype],
                           check=True, stdout=subprocess.DEVNULL, env=clean_environment())
            daemon = Daemon(asked.seqd, packed)
            result = compare(plain, answers(daemon, sources, plain[1]))
            daemon.end()
        print(json.dumps({"model": asked.model, "dtype": dtype, "sources": len(sources), **result}))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
