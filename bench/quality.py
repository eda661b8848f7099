#!/usr/bin/env python3
"""What bfloat16 and int8 change: answers of packed folders against those of the plain one.

    bench/quality.py --seqd build/release/seqd [--sources 200] [--table] MODEL...

Of each model and precision, over random sources of 3 to 24 tokens of the model's vocabulary: the
least and the median cosine between encoder states; how often the best next token is the same after
each beginning of the plain folder's greedy answer of 16 tokens, how often the first token is, and
how many tokens are where each goes its own way; how far the log-probabilities of the plain folder's
tokens move, the median and the most; and the least and the median cosine between logits less
their mean, over 96 random tokens of the vocabulary after beginnings of 10 of the answers.  Encoders
have only states.  One JSON line a precision, or with --table a row of Markdown.
"""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import urllib.request

from common import clean_environment

PART = 25
LENGTH = 16


class Answers:
    def __init__(self):
        self.states, self.tokens, self.scores, self.best, self.logits = [], [], [], [], []


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


def answers(daemon, sources, targets, generates):
    """targets None: the first greedy tokens become them."""
    found = Answers()
    for some in parts(sources):
        reply = daemon.ask("/v1/encode", {"input_ids": some, "pooling": "none"})
        found.states += [row["embedding"] for row in reply["data"]]
    if not generates:
        return found
    for some in parts(sources):
        reply = daemon.ask("/v1/generate", {"input_ids": some, "parameters": {
            "max_new_tokens": LENGTH, "min_new_tokens": LENGTH, "num_beams": 1,
            "do_sample": False}})
        found.tokens += [row["sequences"][0]["token_ids"] for row in reply["outputs"]]
    for some, wanted in zip(parts(sources), parts(targets or found.tokens)):
        reply = daemon.ask("/v1/score", {"input_ids": some, "target_ids": wanted, "logprobs": 1})
        for row in reply["outputs"]:
            found.scores += row["token_logprobs"]
            found.best += [place[0]["id"] for place in row["top_logprobs"]]
    return found


def logits(daemon, sources, targets, vocabulary):
    """[[...]]: of the same random tokens after a beginning of each source's target."""
    drawn = random.Random(4).sample(range(4, vocabulary - 1), min(96, vocabulary - 5))
    found = []
    for i, (source, target) in enumerate(list(zip(sources, targets))[:10]):
        before, some = target[:i * 3 % LENGTH], []
        for tokens in parts(drawn):
            reply = daemon.ask("/v1/score", {"input_ids": [source] * len(tokens), "target_ids":
                                             [before + [token] for token in tokens]})
            some += [row["token_logprobs"][-1] for row in reply["outputs"]]
        mean = sum(some) / len(some)
        found.append([x - mean for x in some])
    return found


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def cosines(plain, packed):
    all_of_them = [cosine(a, b) for a, b in zip(plain, packed)]
    return round(min(all_of_them), 6), round(statistics.median(all_of_them), 6)


def share(pairs):
    pairs = list(pairs)
    return round(sum(a == b for a, b in pairs) / len(pairs), 4)


def compare(plain, packed):
    states = [[state for row in found.states for state in row] for found in (plain, packed)]
    result = {"state_cosine": cosines(*states)}
    if plain.tokens:
        moved = [abs(a - b) for a, b in zip(plain.scores, packed.scores)]
        own = list(zip(plain.tokens, packed.tokens))
        result |= {
            "next_token_equal": share(zip(plain.best, packed.best)),
            "first_token_equal": share((a[0], b[0]) for a, b in own),
            "tokens_equal": share((x, y) for a, b in own for x, y in zip(a, b)),
            "logprob_moves": (round(statistics.median(moved), 5), round(max(moved), 5)),
            "logit_cosine": cosines(plain.logits, packed.logits),
        }
    return result


def measure(seqd, model, count):
    """Yields a result a precision."""
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    vocabulary = config.get("vocab_size") or config["src_vocab_size"]
    answered = config.get("decoder_vocab_size") or config.get("tgt_vocab_size") or vocabulary
    generates = config.get("is_encoder_decoder", "tgt_vocab_size" in config)
    draw = random.Random(3)
    sources = [[draw.randrange(4, vocabulary - 1) for _ in range(draw.randint(3, 24))]
               for _ in range(count)]
    plain = None
    for dtype in ("", "float32", "bfloat16", "int8"):
        with tempfile.TemporaryDirectory() as folder:
            packed = os.path.join(folder, "packed") if dtype else model
            if dtype:
                subprocess.run([seqd, "quantize", model, packed, "--dtype", dtype], check=True,
                               stdout=subprocess.DEVNULL, env=clean_environment())
            daemon = Daemon(seqd, packed)
            try:
                found = answers(daemon, sources, plain and plain.tokens, generates)
                if generates:
                    found.logits = logits(daemon, sources, (plain or found).tokens, answered)
            finally:
                daemon.end()
        plain = plain or found
        if dtype:
            yield {"model": model, "dtype": dtype, "sources": count, **compare(plain, found)}


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table_row(result):
    def shown(key, digits, factor=1):
        value = result.get(key)
        if value is None:
            return "–"
        values = value if isinstance(value, tuple) else (value,)
        return " / ".join(f"{x * factor:.{digits}f}" for x in values)

    return row([os.path.basename(result["model"]), result["dtype"], shown("state_cosine", 5),
                shown("logit_cosine", 5), shown("logprob_moves", 4),
                *(shown(key, 1, 100) for key in
                  ("next_token_equal", "first_token_equal", "tokens_equal"))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seqd", required=True)
    parser.add_argument("--sources", type=int, default=200)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a folder, or one with hf/")
    asked = parser.parse_args()
    if asked.table:
        print(row(["model", "weights", "cosine of states, least / median", "cosine of logits",
                   "log-probability moves, median / most", "next token equal, %", "first token",
                   "own way"]), row(["---"] * 8), sep="\n")
    for model in asked.models:
        inner = os.path.join(model, "hf")
        for result in measure(asked.seqd, inner if os.path.isdir(inner) else model, asked.sources):
            result["model"] = model.rstrip("/")
            print(table_row(result) if asked.table else json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
