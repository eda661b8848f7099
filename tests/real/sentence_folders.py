"""Folders that sentence-transformers itself saves: /v1/encode gives its vectors.

    python3 tests/real/sentence_folders.py SEQD

The encoders are small and random.  Needs the package sentence-transformers; without it, skipped.
"""

import importlib.util
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))

import parity_http

WIDTH, VOCABULARY, TOLERANCE = 16, 60, 1e-5
LENGTHS = [1, 2, 5, 9, 17, 30]
BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
}
T5 = {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 4, "d_ff": 24, "num_layers": 2}


def save_tokenizer(folder):
    """The library loads no encoder without one."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    vocabulary |= {f"w{i}": i for i in range(3, VOCABULARY)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)


def encoder(kind, work):
    """The path of a random encoder."""
    import torch
    import transformers

    made = {
        "t5": lambda: transformers.T5EncoderModel(transformers.T5Config(**T5, num_heads=4)),
        "t5 gated": lambda: transformers.T5EncoderModel(
            transformers.T5Config(**T5, num_heads=4, feed_forward_proj="gated-gelu")
        ),
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**BERT)),
        "mpnet": lambda: transformers.MPNetModel(transformers.MPNetConfig(**BERT)),
        "roberta": lambda: transformers.RobertaModel(transformers.RobertaConfig(**BERT)),
        "xlm-roberta": lambda: transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**BERT)),
    }[kind]()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    folder = os.path.join(work, "encoder")
    made.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def cases():
    import torch
    from sentence_transformers.base.modules import Dense, Normalize
    from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling

    mean = Pooling(WIDTH, "mean")
    identity = {"bias": False, "activation_function": torch.nn.Identity()}
    gelu, sigmoid = torch.nn.GELU(), torch.nn.Sigmoid()
    joined = Pooling(WIDTH, ("cls", "max", "weightedmean"))
    yield "t5", [mean, Dense(WIDTH, 12, **identity), Normalize()]
    yield "t5 gated", [Pooling(WIDTH, "mean", include_prompt=False), Dense(WIDTH, 12), Normalize()]
    yield "bert", [Pooling(WIDTH, "cls")]
    yield "mpnet", [mean, Normalize()]
    dense = Dense(3 * WIDTH, 5, activation_function=gelu)
    yield "roberta", [joined, Dropout(0.1), LayerNorm(3 * WIDTH), dense]
    dense = Dense(WIDTH, 20, activation_function=sigmoid)
    yield "xlm-roberta", [Pooling(WIDTH, "lasttoken"), dense, Dense(20, 3)]


def vectors(model, rows):
    import torch

    found = []
    with torch.no_grad():
        for row in rows:
            mask = torch.ones(1, len(row), dtype=torch.long)
            features = model({"input_ids": torch.tensor([row]), "attention_mask": mask})
            found.append(features["sentence_embedding"][0].tolist())
    return found


def check(kind, modules, daemon, work):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    saved = os.path.join(work, "saved")
    whole = [Transformer(encoder(kind, work)), *modules]
    SentenceTransformer(modules=whole, device="cpu").save(saved)
    model = SentenceTransformer(saved, device="cpu").eval()
    rows = [[random.randrange(3, VOCABULARY) for _ in range(n)] for n in LENGTHS]
    command = [daemon, "--model", "{folder}", "--listen", "127.0.0.1:{port}"]
    with parity_http.serving(command, saved, os.path.join(work, "log")) as client:
        status, answer = client.post("/v1/encode", {"input_ids": rows})
    if status != 200:
        print(f"not ok - {kind}: {status}: {answer}")
        return False
    pairs = zip(answer["data"], vectors(model, rows), strict=True)
    worst = max(
        abs(a - b) for datum, row in pairs for a, b in zip(datum["embedding"], row, strict=True)
    )
    verdict = "ok" if worst <= TOLERANCE else "not ok"
    print(f"{verdict} - {kind}: dim {answer['dim']}, max |difference| {worst:.1e}")
    return worst <= TOLERANCE


def main():
    if importlib.util.find_spec("sentence_transformers") is None:
        print("ok - folders of sentence-transformers # skip not installed: sentence_transformers")
        return 0
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(1)
    random.seed(1)
    good = True
    for kind, modules in cases():
        with tempfile.TemporaryDirectory() as work:
            good &= check(kind, modules, sys.argv[1], work)
    return 0 if good else 1


sys.exit(main())
