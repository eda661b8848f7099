#!/usr/bin/env python3
"""Writes docs/parity.md from the results that tests/parity/run.py left.

    tools/parity_table.py build/parity/results docs/parity.md
"""

import json
import os
import sys

HEAD = """# Parity with Transformers

Made by `{command}`; do not edit.

Each row is a small model with random shapes and weights, written by Transformers' own classes, and what the daemon answers
about it ({daemon}) compared with what Transformers answers ({versions}, float32, eager attention, CPU).

- Errors are the largest `|seqd − reference| / max(1, |reference|)`: of encoder states and pooled vectors over masks of every kind,
  of attention weights, and of the log-probabilities of **all** tokens of the vocabulary under teacher forcing.
- Greedy and beam rows are equal if every id, score, log-probability and reason of ending is. Sampling is compared as a
  distribution: at each place the processed probabilities of all tokens, given what was drawn.
- Requests have random combinations of {options} options, one to three rows, prefixes, and an object of options for each row at
  times; {combos} requests for each model, many at once. What the reference refuses, or has no token left for
  after its rules, is not asked.
- A near-tie is a difference that vanishes when the reference's own logits move by at most 5e-5, or whose two choices are less
  than 1e-4 apart there. The other differences would be in the last column.
- Not compared, after failures were looked at: FSMT prefixes where the reference contradicts itself (it does not mask them causally), and FSMT targets
  to score with the padding's id in them (it masks that id among the decoder's keys without a cache, and does not with one);
  MPNet with other than 32 buckets (the reference ignores the field); T5 whose largest distance is not above half its buckets (seqd
  refuses it); `exponential_decay_length_penalty` with factor 0 (seqd answers 400, the reference takes it); log-probabilities
  below -87 in sampling; after `remove_invalid_values`, reference scores below -1e30; `allowed_token_ids`, which the reference lacks.

| model | encode | attentions | log-probabilities | greedy equal | beams equal | sampling equal | options | near-ties | unexplained |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

TAIL = """
All: {rows} rows, {near} near-ties, {bad} unexplained differences.{notes}

`tools/parity.py DIR URL` makes the same comparison for a folder of yours.
"""


def number(result, kind):
    error = result["errors"].get(kind)
    return "" if error is None else f"{error:.0e}"


def share(result, kind):
    if not result["generates"] or kind not in result["rows"]:
        return ""
    return f"{result['equal'][kind]}/{result['rows'][kind]}"


def row(result):
    storage = ", ".join(result.get("storage", ["F32"]))
    name = result["name"] + ("" if storage == "F32" else f" ({storage})")
    if "broken" in result:
        return f"| {name} | {result['broken']} |" + " |" * 8
    generates = result["generates"]
    cells = [
        name,
        number(result, "encode"),
        number(result, "attentions"),
        number(result, "score"),
        share(result, "greedy"),
        share(result, "beams"),
        share(result, "sample"),
        f"{len(result['options'])}/{result['options_known']}" if generates else "",
        str(len(result["near_ties"])) if generates else "",
        str(len(result["failures"])),
    ]
    return "| " + " | ".join(cells) + " |"


def reference_note(results):
    """Where the reference contradicts its own forward pass and is asked otherwise."""
    uncached = [r["name"] for r in results if not r.get("reference_cache", True)]
    unprefixed = [r["name"] for r in results if not r.get("reference_prefixes", True)]
    text = ""
    if uncached:
        text += (f"\nFor {', '.join(uncached)} the reference ran without its key/value cache, which "
                 "fails when a T5 has\nmore decoder than encoder layers.")
    if unprefixed:
        text += (f"\n{', '.join(unprefixed)} got no prefixes: the reference does not mask what comes "
                 "later in one.")
    return text


def load(folder):
    from_file = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                result = json.load(file)
            from_file[result["name"]] = result
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/parity"))
    from families import FAMILIES

    return [from_file[name] for name in FAMILIES if name in from_file]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results = load(sys.argv[1])
    whole = [r for r in results if "broken" not in r]
    if not whole:
        sys.exit(f"{sys.argv[1]} holds no results; run tests/parity/run.py first")
    runs = {(r["daemon"], r["versions"], r["seed"], r["combos"]) for r in whole}
    if len(runs) > 1:
        sys.exit(f"{sys.argv[1]} holds results of different runs: {sorted(runs)}")
    text = HEAD.format(
        command="make parity-table PYTHON=...",
        daemon=whole[0]["daemon"],
        versions=whole[0]["versions"],
        options=max(r["options_known"] for r in whole),
        combos=max(r["combos"] for r in whole),
    )
    text += "\n".join(map(row, results)) + "\n"
    text += TAIL.format(
        rows=sum(sum(r["rows"].values()) for r in whole),
        near=sum(len(r["near_ties"]) for r in whole),
        bad=sum(len(r["failures"]) for r in whole),
        notes=reference_note(whole),
    )
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
