#!/usr/bin/env python3
"""Is what the daemon answers what Transformers answers?  For a folder of yours, on one page.

    pip install torch transformers safetensors
    tools/parity.py models/opus-mt-en-de http://127.0.0.1:8080

Sends random token ids with every kind of mask and random combinations of every option, and compares
with Transformers in float32: encoder states, log-probabilities under teacher forcing, greedy and
beam answers, scores, and sampling as a distribution.  Where two tokens are nearly equal (a gap below
1e-4), rounding decides; such near-ties are counted apart.  Exit code 1: a difference that is none.
"""

import argparse
import json
import sys
import urllib.error

from parity_http import Client

LABELS = (
    ("encode", "encoder states"),
    ("attentions", "attention weights"),
    ("score", "log-probabilities"),
    ("greedy", "greedy ids"),
    ("beams", "beam ids and scores"),
    ("sample", "sampling distributions"),
)


def served_model(client, wanted):
    """What GET /v1/models says of the model."""
    try:
        models = client.get("/v1/models")["data"]
    except (OSError, urllib.error.HTTPError) as error:
        raise SystemExit(f"{client.url} does not answer: {error}") from None
    names = [model["id"] for model in models]
    if wanted is None and len(models) > 1:
        raise SystemExit(f"{client.url} serves {', '.join(names)}: name one with --model")
    for model in models:
        if wanted in (None, model["id"]):
            return model
    raise SystemExit(f"{client.url} serves {', '.join(names)}, not {wanted}")


def page(a, result, reference, model):
    failures = result["failures"]
    yield f"folder      {a.folder} ({result['family']})"
    yield f"daemon      {a.url}, model {model['id']}, {result['daemon'] or 'version unknown'}"
    yield f"reference   {result['versions']}, float32, eager attention"
    if not result["reference_cache"]:
        yield "            without its key/value cache, which fails for this model"
    if not result["reference_prefixes"]:
        yield "            which contradicts itself about decoder_input_ids: none are sent"
    yield f"requests    seed {a.seed}, {a.samples} option combinations"
    if reference.missing:
        yield f"            the reference misses {', '.join(reference.missing[:4])}"
    yield ""
    for kind, label in LABELS:
        if kind in result["errors"] or kind in result["rows"]:
            counts = f"{result['equal'].get(kind, 0)} of {result['rows'].get(kind, 0)} rows equal"
            counts = "" if kind == "attentions" else counts
            error = result["errors"].get(kind)
            yield f"{label:24}{counts:24}" + (
                "" if error is None else f"largest error {error:.1e}")
    if result["generates"]:
        yield ""
        yield f"options tried           {len(result['options'])} of {result['options_known']}"
        yield f"near-ties               {len(result['near_ties'])}"
        yield from (f"    {tie['mode']}: {tie['why']}" for tie in result["near_ties"][:8])
    yield f"unexplained differences {len(failures)}"
    for failure in failures[:8]:
        yield f"    {failure['path']}: {failure['why'][:160]}"
        yield f"        --request {failure['request']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--samples", type=int, default=40, help="option combinations (40)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", help="its name at the daemon, if that serves several")
    parser.add_argument("--json", metavar="FILE", help="write the result there too")
    parser.add_argument("--keep", metavar="DIR", default="parity-failures",
                        help="keep differently answered requests there (parity-failures)")
    parser.add_argument("--request", metavar="FILE", help="ask only this kept request again")
    a = parser.parse_args()
    client = Client(a.url)
    model = served_model(client, a.model)

    # Slow to import, so after what can fail at once.
    from parity_reference import Reference
    from parity_session import Session

    reference = Reference(a.folder)
    top = model["limits"]["top_logprobs"]
    if reference.generates:
        top = min(top, reference.target_vocabulary)
    session = Session(reference, client, a.seed, top, model["id"], a.keep, model["id"])
    if a.request:
        with open(a.request, encoding="utf-8") as file:
            kept = json.load(file)
        result = session.replay(kept["path"], kept["body"])
    else:
        result = session.run(max(4, a.samples // 4), max(4, a.samples // 4), a.samples)
    print("\n".join(page(a, result, reference, model)))
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    sys.exit(bool(result["failures"]))


if __name__ == "__main__":
    main()
