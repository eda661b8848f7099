#!/usr/bin/env python3
"""Fresh random models of every family: the daemon against Transformers.

    tests/parity/run.py [--families t5,bart] [--combos 200] [--seed 1] [--jobs 2] [--out DIR]
    make test-parity PYTHON=venv/bin/python [FAMILIES=t5,bart] [COMBOS=200]

Needs torch, transformers and safetensors.  A family makes its model in OUT/models, starts the daemon
for it and leaves OUT/results/FAMILY.json; a request that was answered differently is kept in
OUT/failures.  Ends with `N passed, N failed`, families counted.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import re
import shlex
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../tools")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

COMMAND = ("{seqd} --model {{folder}} --listen 127.0.0.1:{{port}} --engine.workers 1 "
           "--limits.top_logprobs 1000")
TOP = 1000
SELF_CHECK = "self-check"
# Sinusoids that the reference computes, a head's bias that a bare model has not, BERT's pooler.
MAY_MISS = ("embed_positions.weight", "final_logits_bias", "pooler.dense.weight",
            "pooler.dense.bias")


def test_family(name, a):
    import torch

    import checkpoints
    from parity_http import serving
    from parity_reference import Reference
    from parity_session import Session

    torch.set_num_threads(1)
    folder = os.path.join(a.out, "models", f"{name}-{a.seed}")
    checkpoints.make(name, a.seed, folder)
    reference = Reference(folder)
    odd = [n for n in reference.missing if not n.endswith(MAY_MISS)] + reference.unexpected
    if odd:
        raise RuntimeError(f"the checkpoint was made badly: {odd}")
    top = min(TOP, reference.target_vocabulary) if reference.generates else 0
    log = os.path.join(a.out, f"{name}.log")
    with serving(shlex.split(a.launch), folder, log) as client:
        keep = os.path.join(a.out, "failures")
        session = Session(reference, client, a.seed, top, name, keep,
                          tell=lambda line: print(line, flush=True))
        result = session.run(a.encodings, a.scorings, a.combos)
    return dict(result, storage=storage_of(folder))


def storage_of(folder):
    from safetensors import safe_open

    kinds = set()
    for file in os.listdir(folder):
        if file.endswith(".safetensors"):
            with safe_open(os.path.join(folder, file), "pt") as tensors:
                kinds |= {tensors.get_slice(key).get_dtype() for key in tensors.keys()}
    return sorted(kinds)


def test_comparison(a):
    """The tests' own test: see self_check.py."""
    import torch

    import self_check

    torch.set_num_threads(1)
    wrong = self_check.check(a.out)
    if wrong:
        raise RuntimeError("; ".join(wrong))
    return {"name": SELF_CHECK, "rows": {}, "errors": {}, "near_ties": [], "failures": []}


def guarded(name, a):
    began = time.monotonic()
    try:
        result = test_comparison(a) if name == SELF_CHECK else test_family(name, a)
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        print(f"FAIL family={name} seed={a.seed}: {why}", flush=True)
        if not isinstance(error, RuntimeError):
            traceback.print_exc()
        result = {"name": name, "seed": a.seed, "broken": why}
    result.update(seconds=round(time.monotonic() - began, 1), combos=a.combos)
    path = os.path.join(a.out, "results", f"{name}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(line_of(result), flush=True)
    return result


def line_of(result):
    if "broken" in result:
        return f"not ok - {result['name']}"
    good = "not ok" if result["failures"] else "ok"
    if not result["rows"]:
        return f"{good} - {result['name']} ({result['seconds']} s)"
    counts = "  ".join(f"{kind} {result['equal'][kind]}/{n}" for kind, n in
                       result["rows"].items())
    errors = "  ".join(f"{kind} {error:.1e}" for kind, error in result["errors"].items())
    return (f"{good} - {result['name']}: {counts}  near-ties {len(result['near_ties'])}  "
            f"({result['seconds']} s; largest errors: {errors})")


def families_of(names):
    from families import FAMILIES

    known = [SELF_CHECK, *FAMILIES]
    wanted = [n for n in re.split(r"[ ,]+", names) if n] or known
    unknown = [n for n in wanted if n not in known]
    if unknown:
        sys.exit(f"no such family: {' '.join(unknown)}; there are {' '.join(known)}")
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--families", default=os.environ.get("FAMILIES", ""),
                        help="some of them (all)")
    parser.add_argument("--combos", type=int, default=int(os.environ.get("COMBOS") or 200),
                        help="option combinations a family")
    parser.add_argument("--encodings", type=int, default=24, help="encode requests a family")
    parser.add_argument("--scorings", type=int, default=16, help="score requests a family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="build/parity")
    parser.add_argument("--seqd", default="build/release/seqd")
    parser.add_argument("--launch", help="a command with {folder} and {port}, instead of --seqd's")
    a = parser.parse_args()
    a.launch = a.launch or COMMAND.format(seqd=shlex.quote(a.seqd))
    names = families_of(a.families)
    for part in ("models", "results"):
        os.makedirs(os.path.join(a.out, part), exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(a.jobs, mp_context=spawn) as pool:
        results = list(pool.map(guarded, names, [a] * len(names)))
    bad = sum("broken" in r or bool(r["failures"]) for r in results)
    near = sum(len(r.get("near_ties", [])) for r in results)
    print(f"near-ties: {near}")
    print(f"{len(results) - bad} passed, {bad} failed")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
