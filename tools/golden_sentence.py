"""Writes tests/unit/data/sentence_golden.json: what sentence-transformers makes of encoder states.

Every case is a folder's modules with their weights, the states of some rows and the vectors:

    python3 tools/golden_sentence.py > tests/unit/data/sentence_golden.json

Made with sentence-transformers 6.2 and torch 2.13.
"""

import json
import os
import random
import sys
import tempfile

import sentence_transformers
import torch
from safetensors.torch import save_file
from sentence_transformers.util import import_module_class

WIDTH, PLACES = 4, 5
OLD = "sentence_transformers.models."
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
NEW = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "LayerNorm": "sentence_transformers.sentence_transformer.modules.layer_norm.LayerNorm",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
    "Dropout": "sentence_transformers.sentence_transformer.modules.dropout.Dropout",
}
MASKS = [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 1, 0]]


def numbers(*shape):
    """Multiples of 1/64 in [-2, 2): exact in text and in every stored type."""
    if len(shape) > 1:
        return [numbers(*shape[1:]) for _ in range(shape[0])]
    return [random.randrange(-128, 128) / 64 for _ in range(shape[0])]


def old_pooling(*modes):
    return {"word_embedding_dimension": WIDTH} | {FLAGS[m]: m in modes for m in MODES}


def new_pooling(mode):
    return {"embedding_dimension": WIDTH, "pooling_mode": mode, "include_prompt": True}


def dense(inner, outer, bias=True, **more):
    config = {"in_features": inner, "out_features": outer, "bias": bias} | more
    weights = {"linear.weight": numbers(outer, inner)}
    if bias:
        weights["linear.bias"] = numbers(outer)
    return "Dense", config, weights


def activated(name, package="torch.nn.modules.activation."):
    return dense(WIDTH, 3, activation_function=package + name)


def layer_norm(width):
    weights = {"norm.weight": numbers(width), "norm.bias": numbers(width)}
    return "LayerNorm", {"dimension": width}, weights


NORMALIZE = ("Normalize", None, {})
IDENTITY = {"activation_function": "torch.nn.modules.linear.Identity"}


def cases():
    for mode in MODES:
        yield f"{mode}, by a flag", [("Pooling", old_pooling(mode), {})], {}
        yield f"{mode}, by name", [("Pooling", new_pooling(mode), {})], {}
    yield "all flags", [("Pooling", old_pooling(*MODES), {})], {}
    yield "no flag", [("Pooling", old_pooling(), {})], {}
    yield "no mode at all", [("Pooling", {"embedding_dimension": WIDTH}, {})], {}
    joined = new_pooling(["lasttoken", "mean", "cls"])
    yield "a list in its own order", [("Pooling", joined, {})], {}
    both = old_pooling("max") | {"pooling_mode": "cls"}
    yield "a name beside flags", [("Pooling", both, {})], {}
    yield "normalize", [("Pooling", old_pooling("mean"), {}), NORMALIZE], {}
    mean = ("Pooling", old_pooling("mean"), {})
    yield "no activation is tanh", [mean, dense(WIDTH, 3)], {}
    yield "no bias", [mean, dense(WIDTH, 6, False, **IDENTITY)], {}
    for name in ["Tanh", "ReLU", "GELU", "Sigmoid", "SiLU"]:
        yield f"dense {name}", [mean, activated(name)], {}
    yield "dense Identity", [mean, activated("Identity", "torch.nn.")], {}
    two = [mean, dense(WIDTH, 7), dense(7, 2, False, **IDENTITY)]
    yield "two dense", two, {}
    joined = ("Pooling", new_pooling(["max", "mean"]), {})
    yield "joined, dense, normalize", [joined, dense(2 * WIDTH, 5), NORMALIZE], {}
    yield "normalize before dense", [mean, NORMALIZE, dense(WIDTH, 5)], {}
    yield "layer norm", [mean, layer_norm(WIDTH)], {}
    dropout = ("Dropout", {"dropout": 0.5}, {})
    yield "dropout", [mean, dropout, dense(WIDTH, 5), layer_norm(5), dropout, NORMALIZE], {}
    yield "cut", [mean, dense(WIDTH, 5)], {"truncate_dim": 3}
    yield "normalize, then cut", [mean, NORMALIZE], {"truncate_dim": 2}
    yield "cut beyond the end", [mean, NORMALIZE], {"truncate_dim": 9}


def write(folder, modules, weights):
    for path, content in modules.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "w") as file:
            json.dump(content, file)
    for path, tensors in weights.items():
        tensors = {name: torch.tensor(value) for name, value in tensors.items()}
        save_file(tensors, os.path.join(folder, path, "model.safetensors"))


def vectors(folder, settings, normalize, states, mask):
    features = {
        "token_embeddings": torch.tensor(states),
        "attention_mask": torch.tensor(mask),
    }
    with open(os.path.join(folder, "modules.json")) as file:
        for entry in json.load(file)[1:]:
            module = import_module_class(entry["type"])
            features = module.load(folder, subfolder=entry["path"]).eval()(features)
    found = features["sentence_embedding"]
    found = sentence_transformers.util.truncate_embeddings(found, settings.get("truncate_dim"))
    if normalize:
        found = torch.nn.functional.normalize(found, p=2, dim=1)
    return [[float(f"{x:.9g}") for x in row] for row in found.tolist()]


def case(index, name, modules, settings):
    def entry(place, kind, path):
        kind = OLD + kind if index % 2 else NEW[kind]
        return {"idx": place, "name": str(place), "path": path, "type": kind}

    listed = [entry(0, "Transformer", "")]
    files, weights = {}, {}
    for place, (kind, config, tensors) in enumerate(modules, 1):
        path = f"{place}_{kind}"
        listed.append(entry(place, kind, path))
        if config is not None:
            files[f"{path}/config.json"] = config
        if tensors:
            weights[path] = tensors
    files["modules.json"] = listed
    if settings:
        files["config_sentence_transformers.json"] = settings
    states = numbers(len(MASKS), PLACES, WIDTH)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        write(folder, files, weights)
        plain = vectors(folder, settings, False, states, MASKS)
        unit = vectors(folder, settings, True, states, MASKS)
    return {
        "name": name,
        "files": files,
        "weights": weights,
        "states": states,
        "masks": MASKS,
        "vectors": plain,
        "unit_vectors": unit,
    }


def main():
    random.seed(1)
    made = [case(i, *parts) for i, parts in enumerate(cases())]
    sys.stdout.write("[\n" + ",\n".join(json.dumps(c) for c in made) + "\n]\n")


main()
