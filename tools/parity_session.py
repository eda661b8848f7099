"""One model: the daemon's answers against the reference's, counted."""

import concurrent.futures
import json
import os
import random

import torch

import parity_judge as judge
from parity_http import floats
from parity_reference import Refused
from parity_requests import BEAMS, GREEDY, OPTIONS, SAMPLE, Maker, asked_of

SHOWN = 10  # failures that are told; all are in the result
AT_ONCE = 8  # requests that the daemon has at the same time


class Session:
    """`keep`: a folder for requests that were answered differently.  `model`: its name at the
    daemon, or None if the daemon has only one.  `tell` is told of every difference."""

    def __init__(self, reference, client, seed, top, name, keep, model=None, tell=None):
        self.reference, self.client, self.name, self.seed = reference, client, name, seed
        self.keep, self.model, self.tell = keep, model, tell
        self.maker = Maker(reference, random.Random(seed), top)
        self.pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
        self.errors, self.rows, self.equal = {}, {}, {}
        self.near_ties, self.failures, self.refused, self.used = [], [], 0, set()

    def error(self, kind, value):
        self.errors[kind] = max(self.errors.get(kind, 0.0), value)

    def count(self, kind, equal):
        self.rows[kind] = self.rows.get(kind, 0) + 1
        self.equal[kind] = self.equal.get(kind, 0) + equal

    def fail(self, path, body, why):
        os.makedirs(self.keep, exist_ok=True)
        place = os.path.join(self.keep, f"{self.name}-{self.seed}-{len(self.failures)}.json")
        with open(place, "w", encoding="utf-8") as file:
            json.dump({"path": path, "body": body, "why": why}, file)
        self.failures.append({"path": path, "why": why, "request": place})
        if self.tell and len(self.failures) <= SHOWN:
            self.tell(f"FAIL family={self.name} seed={self.seed} request={place}: {path}: {why}")

    def judged(self, kind, path, body, reply, look):
        """Counts the rows of a reply; look(i) raises Different or gives the error of row i."""
        status, answer = reply
        for i in range(len(body["input_ids"])):
            try:
                if status != 200:
                    raise judge.Different(f"HTTP {status}: {answer}")
                self.error(kind, look(answer, i) or 0.0)
                self.count(kind, 1)
            except (judge.Different, KeyError, TypeError, IndexError) as why:
                self.count(kind, 0)
                self.fail(path, body, f"row {i}: {why if str(why) else type(why).__name__}")
                if status != 200:
                    break

    def ask(self, path, body):
        if self.model:
            body["model"] = self.model
        return self.pool.submit(self.client.post, path, body)

    def check_encode(self, count):
        bodies = [self.maker.encoding(full=i == 0) for i in range(count)]
        replies = [self.ask("/v1/encode", body) for body in bodies]
        for body, reply in zip(bodies, replies):
            self.judge_encode(body, reply.result())

    def judge_encode(self, body, reply):
        asked = asked_of(self.reference, body)

        def look(answer, i):
            row, datum = asked[i][0], answer["data"][i]
            states, weights = self.reference.encode(row.ids, row.meant, body["output_attentions"])
            error = judge.judge_states(states, row, body, datum, floats(datum))
            if body["output_attentions"]:
                own = judge.judge_self_attention(weights, row, datum["attentions"])
                self.error("attentions", own)
            return error

        self.judged("encode", "/v1/encode", body, reply, look)

    def check_score(self, count):
        bodies = [self.maker.scoring() for _ in range(count)]
        replies = [self.ask("/v1/score", body) for body in bodies]
        for body, reply in zip(bodies, replies):
            self.judge_score(body, reply.result())

    def judge_score(self, body, reply):
        asked = asked_of(self.reference, body)
        self.judged("score", "/v1/score", body, reply, lambda answer, i: self.look_at_score(
            body, asked[i][0], body["target_ids"][i], answer["outputs"][i]))

    def look_at_score(self, body, row, target, output):
        start = body.get("decoder_start_token_id", self.reference.start)
        attentions = body.get("output_attentions", False)
        logits, own, cross = self.reference.decode(
            row.ids, row.meant, [start, *target[:-1]], attentions
        )
        logprobs = logits.log_softmax(-1)
        expected = logprobs[range(len(target)), target]
        error = judge.close(torch.tensor(output["token_logprobs"]), expected,
                            judge.SCORE_TOLERANCE, "token_logprobs")
        for i, step in enumerate(logprobs):
            top = output["top_logprobs"][i]
            error = max(error, judge.judge_step(step, top, body["logprobs"], i))
        if attentions:
            self.error("attentions", max(
                judge.judge_attention(own, output["decoder_attentions"], "decoder attention"),
                judge.judge_attention(cross, output["cross_attentions"], "cross attention")))
        return error

    def check_generate(self, count):
        """`count` requests that the reference does not refuse, every mode among them."""
        waiting = []
        while len(waiting) < count:
            mode = self.maker.random.choices([GREEDY, BEAMS, SAMPLE], [0.38, 0.42, 0.2])[0]
            body = self.maker.generation(mode)
            try:
                expected = self.expected(body)
            except Refused:
                self.refused += 1
                if self.refused > 20 * count + 200:
                    raise RuntimeError("the reference refuses nearly everything") from None
                continue
            waiting.append((body, expected, self.ask("/v1/generate", body)))
            for _, options, _ in asked_of(self.reference, body):
                self.used |= set(options)
            self.used |= set(body)
        for body, expected, reply in waiting:
            self.judge_generate(body, expected, reply.result())

    def expected(self, body):
        torch.manual_seed(1)
        return [self.reference.expected(row.ids, row.meant, options, prefix)
                for row, options, prefix in asked_of(self.reference, body)]

    def judge_generate(self, body, expected, reply):
        asked = asked_of(self.reference, body)
        mode = self.mode(asked[0][1])
        self.judged(mode, "/v1/generate", body, reply, lambda answer, i: self.look_at_sequences(
            mode, asked[i], expected[i], answer["outputs"][i]))

    def mode(self, options):
        def value(name):
            return options.get(name, getattr(self.reference.defaults, name))

        return BEAMS if (value("num_beams") or 1) > 1 else SAMPLE if value("do_sample") else GREEDY

    def look_at_sequences(self, mode, asked, expected, output):
        row, options, prefix = asked
        got = output["sequences"]
        if mode == SAMPLE:
            draws = [sequence["token_ids"] for sequence in got]
            expected = self.reference.expected(row.ids, row.meant, options, prefix, draws)
        try:
            error = judge.judge_sequences(expected, got, options)
        except judge.Different:
            why = judge.near_tie(self.reference, asked, expected, got, mode)
            if not why:
                raise
            self.near_ties.append({"mode": mode, "why": why, "options": options})
            return 0.0
        if options.get("output_attentions"):
            self.look_at_cross(row, options, prefix, got)
        return error

    def look_at_cross(self, row, options, prefix, got):
        before = self.reference.prefix_of(options, prefix)
        for sequence in got:
            cross = self.reference.decode(
                row.ids, row.meant, before + sequence["token_ids"][:-1], True
            )[2]
            self.error("attentions", judge.judge_attention(
                cross, sequence["cross_attentions"], "cross attention"))

    def replay(self, path, body):
        """Asks one kept request again."""
        reply = self.ask(path, body).result()
        if path == "/v1/encode":
            self.judge_encode(body, reply)
        elif path == "/v1/score":
            self.judge_score(body, reply)
        else:
            self.judge_generate(body, self.expected(body), reply)
        return self.result()

    def run(self, encodings, scorings, generations):
        self.check_encode(encodings)
        if self.reference.generates:
            self.check_score(scorings)
            self.check_generate(generations)
        self.pool.shutdown()
        return self.result()

    def result(self):
        return {
            "name": self.name,
            "family": self.reference.family,
            "seed": self.seed,
            "generates": self.reference.generates,
            "versions": self.reference.versions(),
            "daemon": self.client.version(),
            "errors": self.errors,
            "rows": self.rows,
            "equal": self.equal,
            "near_ties": self.near_ties,
            "failures": self.failures,
            "refused_by_reference": self.refused,
            "options": sorted(self.used & set(OPTIONS)),
            "options_known": len(OPTIONS),
            "reference_cache": getattr(self.reference, "cache_works", True),
            "reference_prefixes": getattr(self.reference, "prefixes_work", True),
        }
