#!/usr/bin/env python3
"""Transformers behind the daemon's interface, which may answer wrongly on purpose.

    tests/parity/stand_in.py DIR PORT [--break states|scores|beams|rules|draws|order]

Shows that the comparison finds no difference where there is none and one where there is.
"""

import argparse
import http.server
import json
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))

import torch  # noqa: E402

import parity_judge as judge  # noqa: E402
from parity_reference import Reference  # noqa: E402


def candidates(step, count):
    best = step.sort(descending=True)
    return [
        {"id": i, "logprob": v}
        for v, i in zip(best.values.tolist()[:count], best.indices.tolist())
        if v > float("-inf")
    ]


def mask_of(reference, body, i):
    """The mask that is meant: without one, pads at the end of a row do not count."""
    if "attention_mask" in body:
        return body["attention_mask"][i]
    ids = body["input_ids"][i]
    count = len(ids)
    if not (reference.generates and reference.pad in reference.eos):
        while ids[count - 1] == reference.pad:
            count -= 1
    return [1] * count + [0] * (len(ids) - count)


BREAKS = {  # what goes wrong, and the kind of answer where it shows
    "states": "encode",
    "scores": "score",
    "beams": "beams",
    "rules": "greedy",
    "draws": "sample",
    "order": "beams",
}


class StandIn:
    def __init__(self, reference, broken):
        self.reference, self.broken = reference, broken

    def encode(self, body, i):
        ids, mask = body["input_ids"][i], mask_of(self.reference, body, i)
        states, weights = self.reference.encode(ids, mask, body["output_attentions"])
        if self.broken == "states":
            states = states + 1e-3
        real = [at for at, m in enumerate(mask) if m]
        if body["pooling"] == "none":
            states = states * torch.tensor(mask)[:, None]
        else:
            states = judge.pooled(states[real], body["pooling"], body["normalize"])
        return {"tokens": len(real), "embedding": states.tolist(),
                "attentions": None if weights is None else weights.tolist()}

    def score(self, body, i):
        target = body["target_ids"][i]
        start = body.get("decoder_start_token_id", self.reference.start)
        logits, own, cross = self.reference.decode(
            body["input_ids"][i], mask_of(self.reference, body, i), [start, *target[:-1]],
            body.get("output_attentions", False),
        )
        if self.broken == "scores":
            logits[:, 5] += 1e-2
        steps = logits.log_softmax(-1)
        return {
            "token_logprobs": steps[range(len(target)), target].tolist(),
            "top_logprobs": [candidates(step, body["logprobs"]) for step in steps],
            "decoder_attentions": None if own is None else own.tolist(),
            "cross_attentions": None if cross is None else cross.tolist(),
        }

    def generate(self, body, i):
        options = body["parameters"]
        options = dict(options[i] if isinstance(options, list) else options)
        prefix = body["decoder_input_ids"][i] if "decoder_input_ids" in body else None
        if self.broken == "beams":
            options.pop("length_penalty", None)
        elif self.broken == "rules":
            options.pop("repetition_penalty", None)
        elif self.broken == "draws":
            options.update(top_p=1.0, temperature=1.0)
        ids, mask = body["input_ids"][i], mask_of(self.reference, body, i)
        sequences = self.reference.generate(ids, mask, options, prefix)
        if self.broken == "order":
            sequences.reverse()
        return {"sequences": [self.sequence(ids, mask, options, prefix, s) for s in sequences]}

    def sequence(self, ids, mask, options, prefix, sequence):
        steps = sequence.pop("steps")
        sequence["logprob"] = sum(sequence["token_logprobs"])
        count = options.get("logprobs")
        if count:
            sequence["top_logprobs"] = [candidates(step, count) for step in steps]
        if options.get("output_attentions"):
            before = self.reference.prefix_of(options, prefix)
            weights = self.reference.decode(ids, mask, before + sequence["token_ids"][:-1], True)
            sequence["cross_attentions"] = weights[2].tolist()
        return sequence

    def answer(self, path, body):
        ask = {"encode": self.encode, "score": self.score, "generate": self.generate}
        name = path.rsplit("/", 1)[1]
        rows = [ask[name](body, i) for i in range(len(body["input_ids"]))]
        return {"data" if name == "encode" else "outputs": rows}


def handler(stand_in):
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def reply(self, status, value):
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            self.reply(200, {})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                with lock:
                    answer = stand_in.answer(self.path, body)
                self.reply(200, answer)
            except Exception as error:  # told to the client, as the daemon does
                self.reply(400, {"error": {"message": repr(error)}})

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("port", type=int)
    parser.add_argument("--break", dest="broken", choices=list(BREAKS))
    a = parser.parse_args()
    torch.set_num_threads(1)
    stand_in = StandIn(Reference(a.folder), a.broken)
    http.server.ThreadingHTTPServer(("127.0.0.1", a.port), handler(stand_in)).serve_forever()


if __name__ == "__main__":
    main()
