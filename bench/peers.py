#!/usr/bin/env python3
"""seqd's engine and its peers side by side: tokens per second, one JSON line a cell.

    bench/peers.py --seqd build/release/seqd --models build/bench/models --out peers.jsonl

A contestant is one process per setting and number of threads.  Repetitions take turns (A B C A B C
...) and are long enough to be timed; each waits, for a bounded time, until the machine is quiet.
Repetitions during which others kept more than a tenth of a core busy are left out where enough
others remain; the medians are of the rest.  Before each turn limits.c says what the machine can do
at that time.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import select
import subprocess
import sys
import tempfile

from common import (HERE, PRECISIONS, Foreign, Results, add_arguments, clean_environment,
                    cpu_seconds, median, memory_mb, models, names, parsed, say, seqd_folder,
                    wait_for_quiet)
from limits import job_seconds, machine_limits

REPETITION_SECONDS = 0.25
REPLY_SECONDS = 900
FOREIGN_CORES = 0.1
CONTESTANTS = (
    "seqd-f32 seqd-f32-screened seqd-plain seqd-bf16 seqd-bf16-screened seqd-int8 "
    "ct2-f32 ct2-int8 ort-f32 ort-int8"
).split()
NEW = 64
LIMITS = [("float32", False), ("float32", True), ("bfloat16", True), ("int8", False)]


@dataclasses.dataclass(frozen=True)
class Cell:
    """`rows`: how many, and the lengths of the shortest and the longest."""

    workload: str
    case: str
    rows: tuple
    new: int = NEW
    beams: int = 1

    @property
    def encodes(self):
        return self.workload == "encode"

    def tokens(self, sources):
        """What counts: generated tokens of the best sequences, or encoded ones."""
        return sum(map(len, sources)) if self.encodes else len(sources) * self.new


# B=1 with 16 tokens is there for the time of one step: the difference by the 48 others.
CELLS = [
    *(Cell("gen", f"B={count}", (count, 32)) for count in (1, 8, 32)),
    Cell("gen", "B=1, 16 new", (1, 32), new=16),
    Cell("mixed", "32 of 5..80", (32, 5, 80)),
    *(Cell("beams", f"4 beams, B={count}", (count, 32), beams=4) for count in (1, 8)),
    *(Cell("encode", f"{count}x{length}", (count, length))
      for count, length in ((1, 128), (32, 32), (8, 128), (8, 512))),
]


class Contestant:
    """A process that runs jobs.  `parts` jobs of `threads` threads run at the same time."""

    def __init__(self, name, model, parts, threads, asked):
        self.name, self.setting = name, f"{parts}x{threads}"
        library, _, form = name.partition("-")
        self.precision = PRECISIONS[form]
        self.extra = {}
        if library == "seqd":
            folder = seqd_folder(asked.seqd, model, form)
            screening = str(form.endswith("-screened")).lower()
            command = [asked.seqd, "bench", "--pipe", "--model", folder, "--engine.workers",
                       str(parts), "--engine.threads", str(threads), "--engine.screening",
                       screening, *asked.seqd_options]
            self.extra = {"logprobs": False}  # peers' greedy search computes none either
        else:
            command = [sys.executable, os.path.join(HERE, "engines.py"), name, model.folder,
                       "--parts", str(parts), "--threads", str(threads)]
        self.words = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.words, text=True,
            env=clean_environment())
        try:
            self.hello = self.read()
        except (RuntimeError, ValueError):
            self.end()
            raise

    def read(self):
        ready = select.select([self.process.stdout], [], [], REPLY_SECONDS)[0]
        if not ready:
            raise RuntimeError(f"no answer in {REPLY_SECONDS} s")
        line = self.process.stdout.readline()
        if not line:
            self.words.seek(0)
            raise RuntimeError(self.words.read().strip()[-400:] or "it ended")
        return json.loads(line)

    def ask(self, **request):
        with contextlib.suppress(BrokenPipeError):  # read() tells why it has ended
            self.process.stdin.write(json.dumps(request | self.extra) + "\n")
            self.process.stdin.flush()
        reply = self.read()
        if "error" in reply:
            raise NotImplementedError(reply["error"])
        return reply

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except BrokenPipeError:
            self.process.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Entry:
    """A contestant in one cell: its repetitions."""

    def __init__(self, contestant, cell, sources):
        self.contestant, self.repetitions = contestant, []
        self.request = {"kind": "encode" if cell.encodes else "generate", "rows": sources,
                        "new": cell.new, "beams": cell.beams}
        self.tokens = contestant.ask(**self.request, want_tokens=True).get("tokens")
        if self.tokens and any(len(row) != cell.new for row in self.tokens):
            raise RuntimeError(f"rows of {sorted({len(r) for r in self.tokens})} tokens")
        warm = contestant.ask(**self.request)["seconds"]
        self.repeat = max(1, round(0.5 + REPETITION_SECONDS / warm))

    def repetition(self, quiet_seconds):
        wait_for_quiet(quiet_seconds)
        pid = self.contestant.process.pid
        before = cpu_seconds(pid)
        with Foreign(pid) as foreign:
            seconds = self.contestant.ask(**self.request, repeat=self.repeat)["seconds"]
        self.repetitions.append({
            "seconds": seconds, "foreign": foreign.load,
            "cpu_seconds": (cpu_seconds(pid) - before) / self.repeat})

    def clean(self):
        return [r for r in self.repetitions if r["foreign"] <= FOREIGN_CORES]

    def used(self, rounds):
        """The undisturbed repetitions; the least disturbed ones if those are few."""
        enough = max(1, (rounds + 1) // 2)
        quietest = sorted(self.repetitions, key=lambda r: r["foreign"])[:enough]
        return self.clean() if len(self.clean()) >= enough else quietest

    def line(self, cell, rounds, first):
        used, tokens = self.used(rounds), cell.tokens(self.request["rows"])
        seconds, cpu = ([r[key] for r in used] for key in ("seconds", "cpu_seconds"))
        contestant = self.contestant
        line = {
            **contestant.hello, "contestant": contestant.name, "precision": contestant.precision,
            "setting": contestant.setting,
            "tokens_per_second": round(tokens / median(seconds), 1),
            "tokens_per_cpu_second": round(tokens / median(cpu), 1),
            "seconds": round(median(seconds), 6), "seconds_min": round(min(seconds), 6),
            "seconds_max": round(max(seconds), 6),
            "cpu_seconds": round(median(cpu), 6),
            "repetitions": len(used), "repetitions_made": len(self.repetitions),
            "jobs_each": self.repeat, "foreign_cores": round(max(r["foreign"] for r in used), 2),
            **memory_mb(contestant.process.pid),
        }
        if self.tokens and first.tokens:
            line["agrees_with"] = first.contestant.name
            line["rows_equal"] = share(a == b for a, b in zip(self.tokens, first.tokens))
            line["tokens_equal"] = share(
                x == y for a, b in zip(self.tokens, first.tokens) for x, y in zip(a, b))
        return line


def share(equal):
    equal = list(equal)
    return round(sum(equal) / len(equal), 4)


def settings(name, threads, workers):
    """(parts, threads) of a contestant: for several threads, peers run both ways and the better
    one counts; seqd runs with a team, which is how it starts by itself, unless asked otherwise."""
    ways = [(1, threads)]
    if threads > 1 and (workers or not name.startswith("seqd")) and not name.startswith("torch"):
        ways.append((threads, 1))
    return ways


def start(model, threads, asked, results):
    running = []
    for name in asked.contestants:
        for parts, each in settings(name, threads, asked.workers):
            try:
                running.append(Contestant(name, model, parts, each, asked))
            except (RuntimeError, OSError, ValueError) as why:
                results.write({"record": "missing", "model": model.name, "threads": threads,
                               "contestant": name, "setting": f"{parts}x{each}", "why": str(why)})
                say(f"{model.name} {name} {parts}x{each}: {why}")
    return running


def write_limits(cell, model, sources, readings, where, results):
    """What the machine allowed, by the medians of its readings during the cell."""
    rates = {key: median(reading[key] for reading in readings) for key in readings[0]}
    lengths, new = [len(row) for row in sources], 0 if cell.encodes else cell.new
    for precision, screened in LIMITS:
        if screened and (cell.encodes or cell.beams > 1):
            continue
        seconds = job_seconds(model.config, rates, lengths, new, cell.beams, precision, screened)
        results.write({"record": "limit", **where, "precision": precision, "screened": screened,
                       "tokens_per_second": round(cell.tokens(sources) / seconds, 1), **rates})


def run_cell(cell, model, threads, running, asked, results):
    sources, entries = model.rows(*cell.rows), []
    where = {"model": model.name, "threads": threads, "workload": cell.workload,
             "case": cell.case}

    def attempt(contestant, work):
        """Drops a contestant that fails, from the cells to come too."""
        try:
            work()
        except NotImplementedError as why:
            results.write({"record": "unsupported", **where, "contestant": contestant.name,
                           "setting": contestant.setting, "why": str(why)})
        except (RuntimeError, OSError, ValueError) as why:
            results.write({"record": "missing", **where, "contestant": contestant.name,
                           "setting": contestant.setting, "why": str(why)})
            say(f"{model.name} {cell.case} {contestant.name}: {why}")
            contestant.end()
            running.remove(contestant)

    for contestant in list(running):
        attempt(contestant, lambda: entries.append(Entry(contestant, cell, sources)))
    readings = []
    for turn in range(2 * asked.rounds):
        readings.append(machine_limits(asked.seqd, threads))
        entries = [entry for entry in entries if entry.contestant in running]
        if turn >= asked.rounds and all(len(e.clean()) >= asked.rounds for e in entries):
            break
        for entry in entries:
            attempt(entry.contestant, lambda: entry.repetition(asked.quiet))
    if all(readings):
        write_limits(cell, model, sources, readings, where, results)
    for entry in entries:
        if entry.contestant not in running:
            continue
        line = entry.line(cell, asked.rounds, entries[0])
        results.write({"record": "engine", **where, **line})
        say(f"{model.name:12} {threads} threads  {cell.case:16} {line['contestant']:10} "
            f"{line['setting']}  {line['tokens_per_second']:10.1f} tokens/s  "
            f"{line.get('tokens_equal', '')}")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--model", type=names, default="marian-base,t5-small,tiny,bert")
    parser.add_argument("--contestants", type=names, default=",".join(CONTESTANTS),
                        help="also torch-f32, torch-bf16 (default: %(default)s)")
    parser.add_argument("--threads", type=names, default="1,2")
    parser.add_argument("--workloads", type=names, default="gen,mixed,beams,encode")
    parser.add_argument("--cases", type=lambda text: text.split(";"),
                        help="only these, parted by semicolons: 'B=1;B=8;8x512'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", action="store_true",
                        help="run seqd also with one thread a worker")
    return parsed(parser)


def main():
    asked = arguments()
    folders = models(asked.models, asked.model)
    results = Results(asked.out, asked.seqd)
    for model in folders:
        cells = [cell for cell in CELLS if cell.workload in asked.workloads
                 and (model.generates or cell.encodes)
                 and (not asked.cases or cell.case in asked.cases)]
        for threads in map(int, asked.threads):
            running = start(model, threads, asked, results)
            try:
                for cell in cells:
                    run_cell(cell, model, threads, running, asked, results)
            finally:
                for contestant in running:
                    contestant.end()


if __name__ == "__main__":
    main()
