#!/usr/bin/env python3
"""The peers as engines.  As a program it speaks the language of `seqd bench --pipe`:

    bench/engines.py NAME MODEL_DIR --parts P --threads T

NAME is ct2-f32, ct2-int8, ort-f32, ort-int8, torch-f32 or torch-bf16.  A job of many rows is cut
into P parts that run at the same time, each on T threads.  The first line tells what was loaded, in
how many seconds (Python's imports apart); then each line of stdin, {"kind": "generate" | "encode",
"rows", "new", "beams", "repeat", "want_tokens"}, is answered by {"seconds", "tokens"} or {"error"}.
"""

import argparse
import concurrent.futures
import importlib
import json
import os
import sys
import time

from common import PRECISIONS, Model


class CTranslate2:
    def __init__(self, model, form, parts, threads):
        import ctranslate2

        self.model, self.dtype = model, PRECISIONS[form]
        self.version = f"ctranslate2 {ctranslate2.__version__}"
        make = ctranslate2.Translator if model.generates else ctranslate2.Encoder
        self.peer = make(model.path(f"ct2-{self.dtype}"), device="cpu", compute_type=self.dtype,
                         inter_threads=parts, intra_threads=threads)
        self.names = model.tokens()
        self.ids = {name: token for token, name in enumerate(self.names)}

    def prepare(self, rows):
        return [[self.names[i] for i in row] for row in rows] if self.model.generates else rows

    def generate(self, job, new, beams):
        return self.peer.translate_batch(
            job, beam_size=beams, min_decoding_length=new, max_decoding_length=new)

    def tokens(self, results):
        return [[self.ids[name] for name in result.hypotheses[0]] for result in results]

    def encode(self, job):
        if self.model.generates:
            raise NotImplementedError("CTranslate2 does not run the encoder alone")
        return self.peer.forward_batch(job)


class Padded:
    """Rows as arrays: padded at their right end, with a mask."""

    def prepare(self, rows):
        import numpy

        ids = numpy.full((len(rows), max(map(len, rows))), self.model.pad)
        mask = numpy.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
        return ids, mask


class OnnxRuntime(Padded):
    def __init__(self, model, form, parts, threads):
        import onnxruntime

        self.model, self.dtype = model, PRECISIONS[form]
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self.value = onnxruntime.OrtValue.ortvalue_from_numpy
        folder = model.path("onnx" if form == "f32" else "onnx-int8")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1

        def load(graph):
            return onnxruntime.InferenceSession(
                f"{folder}/{graph}.onnx", options, providers=["CPUExecutionProvider"])

        self.encoder = load("encoder")
        if model.generates:
            self.cross, self.decoder = load("cross"), load("decoder")
            inputs = {i.name: i for i in self.decoder.get_inputs()}
            self.layers = sum(name.startswith("past") for name in inputs)
            self.heads, self.head_width = inputs["past0"].shape[1], inputs["past0"].shape[3]

    def encode(self, job):
        ids, mask = map(self.value, job)
        return self.encoder.run_with_ort_values(None, {"ids": ids, "mask": mask})

    def generate(self, job, new, beams):
        import numpy

        if beams > 1:
            raise NotImplementedError("no beam search around these graphs")
        rows, mask = len(job[0]), self.value(job[1])
        cross = self.cross.run_with_ort_values(None, {"states": self.encode(job)[0]})
        fixed = {f"cross{i}": value for i, value in enumerate(cross)} | {"mask": mask}
        empty = numpy.zeros((rows, self.heads, 0, self.head_width), numpy.float32)
        past = [self.value(empty)] * self.layers
        token, chosen = numpy.full((rows, 1), self.model.start), []
        for _ in range(new):
            feed = fixed | {f"past{i}": value for i, value in enumerate(past)}
            feed["token"] = self.value(token)
            logits, *past = self.decoder.run_with_ort_values(None, feed)
            scores = logits.numpy()
            scores[:, self.model.eos] = -numpy.inf  # the end only after `new` tokens
            token = scores.argmax(1)[:, None]
            chosen.append(token)
        return numpy.concatenate(chosen, 1)

    def tokens(self, results):
        return results.tolist()


class Torch(Padded):
    def __init__(self, model, form, parts, threads):
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()
        self.model, self.dtype = model, PRECISIONS[form]
        self.version = f"torch {torch.__version__}"
        self.torch = torch
        torch.set_num_threads(threads)
        make = transformers.AutoModelForSeq2SeqLM if model.generates else transformers.AutoModel
        self.peer = make.from_pretrained(model.path("hf"), dtype=getattr(torch, self.dtype)).eval()

    def prepare(self, rows):
        return tuple(self.torch.from_numpy(array) for array in super().prepare(rows))

    def generate(self, job, new, beams):
        with self.torch.inference_mode():
            return self.peer.generate(
                job[0], attention_mask=job[1], min_new_tokens=new, max_new_tokens=new,
                num_beams=beams, do_sample=False)[:, 1:]

    def encode(self, job):
        peer = self.peer.get_encoder() if self.model.generates else self.peer
        with self.torch.inference_mode():
            return peer(job[0], attention_mask=job[1])

    def tokens(self, results):
        return results.tolist()


PEERS = {"ct2": CTranslate2, "ort": OnnxRuntime, "torch": Torch}
MODULES = {"ct2": "ctranslate2", "ort": "onnxruntime", "torch": "transformers"}


class Engine:
    """A peer that runs a job in parts, rows of like lengths together."""

    def __init__(self, name, model, parts, threads):
        library, _, form = name.partition("-")
        importlib.import_module(MODULES[library])
        start = time.perf_counter()
        self.peer = PEERS[library](model, form, parts, threads)
        self.ready_seconds = time.perf_counter() - start
        self.parts = parts
        self.pool = concurrent.futures.ThreadPoolExecutor(parts) if parts > 1 else None

    def prepare(self, rows):
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        size = -(-len(rows) // self.parts)
        places = [order[i : i + size] for i in range(0, len(rows), size)]
        return places, [self.peer.prepare([rows[i] for i in part]) for part in places]

    def run(self, job, work):
        if len(job[1]) == 1:
            return [work(job[1][0])]
        return list(self.pool.map(work, job[1]))

    def generate(self, job, new, beams=1):
        return self.run(job, lambda part: self.peer.generate(part, new, beams))

    def encode(self, job):
        return self.run(job, self.peer.encode)

    def tokens(self, job, results):
        found = {}
        for places, part in zip(job[0], results):
            found |= dict(zip(places, self.peer.tokens(part)))
        return [found[i] for i in range(len(found))]


def answer(engine, request):
    job, repeat = engine.prepare(request["rows"]), request.get("repeat", 1)
    encoding = request["kind"] == "encode"
    start = time.perf_counter()
    for _ in range(repeat):
        if encoding:
            results = engine.encode(job)
        else:
            results = engine.generate(job, request["new"], request.get("beams", 1))
    reply = {"seconds": (time.perf_counter() - start) / repeat}
    if request.get("want_tokens") and not encoding:
        reply["tokens"] = engine.tokens(job, results)
    return reply


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("model")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    # Libraries print to stdout at times: their words go to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = Engine(asked.name, Model(asked.model), asked.parts, asked.threads)
    hello = {"ready_seconds": engine.ready_seconds, "dtype": engine.peer.dtype,
             "version": engine.peer.version}
    print(json.dumps(hello), file=out, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(engine, json.loads(line))
        except NotImplementedError as missing:
            reply = {"error": str(missing)}
        print(json.dumps(reply), file=out, flush=True)


if __name__ == "__main__":
    main()
