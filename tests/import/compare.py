"""Saves a model of tutorials.py, imports it, serves it and compares the daemon's answers with the model's."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest

import torch

import import_checkpoint
from parity_http import serving
from tutorials import BOS, EOS, PAD, TARGET

STATES, LOGPROBS = 1e-4, 1e-3
CLEAR = 1e-3  # by so much the best token must be better than the second, or greedy search is not compared
ROWS, STEPS = 5, 12
IDS = ["--pad", str(PAD), "--bos", str(BOS), "--eos", str(EOS)]


def lively(model, seed=0):
    """Random weights with which every part of the model matters; a table of positions stays."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad or name.endswith("embed.1.alpha"):
                continue
            noise = torch.randn(parameter.shape, generator=random)
            if "norm" in name:
                scale, middle = 0.3, 1.0 if name.split(".")[-1] in ("weight", "a_2", "alpha") else 0.0
            elif parameter.dim() == 1:
                scale, middle = 0.3, 0.0
            else:
                scale, middle = 1.3 / parameter.shape[1] ** 0.5, 0.0
            parameter.copy_(middle + scale * noise)
    return model.eval()


class ImportTest(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory())
        self.folder = os.path.join(self.directory, "model")

    def save(self, content, name="weights.pt"):
        path = os.path.join(self.directory, name)
        torch.save(content, path)
        return path

    def run_import(self, content, *options):
        """The summary."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            import_checkpoint.main([self.save(content), self.folder, "--force", *options])
        return output.getvalue()

    def refused(self, content, *options):
        """The message; nothing may have been written."""
        with self.assertRaises(SystemExit) as caught:
            self.run_import(content, *options)
        self.assertFalse(os.path.exists(self.folder))
        return str(caught.exception)

    def serve(self):
        seqd = os.environ.get("SEQD", str(pathlib.Path(__file__).parents[2] / "build/release/seqd"))
        command = [seqd, "--model", "{folder}", "--listen", "127.0.0.1:{port}"]
        return self.enterContext(serving(command, self.folder, os.path.join(self.directory, "log")))

    def ask(self, client, route, **body):
        status, answer = client.post("/v1/" + route, body)
        self.assertEqual(200, status, answer)
        return answer

    def near(self, wanted, got, tolerance):
        got = torch.tensor(got)
        self.assertEqual(wanted.shape, got.shape)
        self.assertLess((wanted - got).abs().max().item(), tolerance)

    @torch.no_grad()
    def compare(self, model, source_size):
        """States, log-probabilities of given targets and greedy search, of several rows in one request."""
        client, random = self.serve(), torch.Generator().manual_seed(1)
        sources = [torch.randint(4, source_size, (3 + 2 * n,), generator=random) for n in range(ROWS)]
        targets = [torch.randint(4, TARGET, (9 - n,), generator=random) for n in range(ROWS)]
        ids = [source.tolist() for source in sources]
        states = self.ask(client, "encode", input_ids=ids)["data"]
        scores = self.ask(client, "score", input_ids=ids, target_ids=[t.tolist() for t in targets])["outputs"]
        answers = self.ask(client, "generate", input_ids=ids, parameters={"max_new_tokens": STEPS})["outputs"]
        clear = 0
        for source, target, state, score, answer in zip(sources, targets, states, scores, answers):
            memory = model.encode(source)
            self.near(memory, state["embedding"], STATES)
            logprobs = model.logits(memory, torch.cat([torch.tensor([BOS]), target]))[:-1].log_softmax(-1)
            self.near(logprobs.gather(1, target[:, None])[:, 0], score["token_logprobs"], LOGPROBS)
            tokens, gap = self.greedy(model, memory)
            if gap > CLEAR:
                clear += 1
                self.assertEqual(tokens, answer["sequences"][0]["token_ids"])
        self.assertGreaterEqual(clear, ROWS - 1)

    def greedy(self, model, memory):
        """The tokens, and the smallest distance of a best one to the second."""
        tokens, gap = [], float("inf")
        while len(tokens) < STEPS and (not tokens or tokens[-1] != EOS):
            best = model.logits(memory, torch.tensor([BOS] + tokens))[-1].topk(2)
            gap = min(gap, (best.values[0] - best.values[1]).item())
            tokens.append(best.indices[0].item())
        return tokens, gap
