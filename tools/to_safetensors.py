#!/usr/bin/env python3
"""Rewrite the PyTorch weights of a model folder as safetensors, which is what seqd reads.

    pip install torch safetensors
    tools/to_safetensors.py DIR               # DIR/model.safetensors beside DIR/pytorch_model.bin
    tools/to_safetensors.py DIR --out OTHER   # the same in OTHER, with the folder's small files

Reads pytorch_model.bin, or the files that pytorch_model.bin.index.json names: each becomes one file of the same
tensors, and the index is written last.  Nothing is downloaded, and no code in a file is run (weights_only).  A file
appears under its name only when it is complete, and none is overwritten.

Names that share one tensor (tied embeddings) are stored once, under the first name, where Transformers and seqd tie
them again; any other sharing is stored as copies.
"""
import argparse
import json
import os
import pickle
import shutil
import sys
import zipfile

import torch
from safetensors.torch import save_file

SINGLE, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
TORCH_NEEDED = (2, 6)  # before, weights_only could be tricked into running code
SMALL_FILES = (".json", ".txt", ".model", ".jinja")
TABLES = ("shared.weight", "embed_tokens.weight", "lm_head.weight", "word_embeddings.weight")


class Refused(Exception):
    """What is wrong with the folder, for its user."""


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def load(path):
    try:
        with open(path, "rb") as f:
            if f.read(23) == b"version https://git-lfs":
                raise Refused(f"{path} is a Git LFS pointer, not the weights; `git lfs pull` fetches them")
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as e:
        # The rest of that text advises to load the file all the same.
        reason = next((line for line in str(e).splitlines() if "nsupported" in line), "it holds more than tensors")
        raise Refused(f"{path} is not loaded, as it could run code: {reason}") from None
    except (RuntimeError, EOFError) as e:
        reason = str(e).partition(". ")[0] or "it ends early"
        raise Refused(f"{path} is damaged or no PyTorch file ({reason})") from None
    if not isinstance(state, dict) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        other = [k for k, v in state.items() if not isinstance(v, torch.Tensor)] if isinstance(state, dict) else []
        raise Refused(f"{path} is no flat dict of tensors" + (f"; others in it: {other[:5]}" if other else ""))
    odd = [name for name, tensor in state.items() if tensor.layout != torch.strided or tensor.is_quantized]
    if odd:
        raise Refused(f"{path} has sparse or quantized tensors: {odd[:5]}")
    return state


def is_tied(name, first, config):
    """Will a reader that finds only `first` use it for `name` too?"""
    if not name.endswith(TABLES) or not first.endswith(TABLES):
        return False
    output = name.endswith("lm_head.weight") or first.endswith("lm_head.weight")
    return not output or config.get("tie_word_embeddings") is not False


def separate(state, config):
    """The tensors to store: contiguous, none sharing memory with another.  Also {name left out: name kept}."""
    kept, same, first_with = {}, {}, {}
    for name, tensor in state.items():
        storage = tensor.untyped_storage().data_ptr()
        view = (storage, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
        first = first_with.setdefault(view, name)
        if first != name and tensor.numel() > 0 and is_tied(name, first, config):
            same[name] = first
        else:
            kept[name] = tensor
    owners = {}
    for name, tensor in kept.items():
        owner = owners.setdefault(tensor.untyped_storage().data_ptr(), name)
        kept[name] = tensor.contiguous() if owner == name else tensor.clone(memory_format=torch.contiguous_format)
    return kept, same


def write_whole(path, write):
    """Calls write(temporary name); the file gets its own name when it is on the disk."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        write(temporary)
        with open(temporary, "rb") as f:
            os.fsync(f.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def convert(source, target, config):
    """Writes the tensors of one file.  Their names, and how many bytes they have."""
    kept, same = separate(load(source), config)
    write_whole(target, lambda path: save_file(kept, path, metadata={"format": "pt"}))
    for name, first in same.items():
        print(f"  {name} is {first}: stored once")
    size = sum(t.numel() * t.element_size() for t in kept.values())
    print(f"{target}: {len(kept)} tensors, {size / 1e6:.1f} MB")
    return list(kept), size


def sources(folder):
    """The weight files of the folder."""
    if os.path.exists(os.path.join(folder, SINGLE)):
        return [SINGLE]
    if not os.path.exists(os.path.join(folder, INDEX)):
        raise Refused(f"{folder} has neither {SINGLE} nor {INDEX}")
    weight_map = read_json(os.path.join(folder, INDEX)).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise Refused(f"{INDEX} has no weight_map")
    names = sorted(set(map(str, weight_map.values())))
    for name in names:
        if os.path.basename(name) != name or not name.endswith(".bin"):
            raise Refused(f"{INDEX} names {name!r}; it must be a plain name that ends in .bin")
    return names


def target_name(source):
    if source == SINGLE:
        return "model.safetensors"
    return source.removesuffix(".bin").replace("pytorch_model", "model") + ".safetensors"


def copy_small_files(folder, out):
    for name in sorted(os.listdir(folder)):
        if name.endswith(SMALL_FILES) and name != INDEX and not os.path.exists(os.path.join(out, name)):
            shutil.copyfile(os.path.join(folder, name), os.path.join(out, name))


def run(folder, out):
    files = sources(folder)
    index = os.path.join(out, "model.safetensors.index.json")
    for path in [os.path.join(out, target_name(name)) for name in files] + [index]:
        if os.path.exists(path):
            raise Refused(f"{path} is there already")
    config_path = os.path.join(folder, "config.json")
    config = read_json(config_path) if os.path.exists(config_path) else {}
    os.makedirs(out, exist_ok=True)
    weight_map, total = {}, 0
    for name in files:
        target = target_name(name)
        tensors, size = convert(os.path.join(folder, name), os.path.join(out, target), config)
        twice = [tensor for tensor in tensors if tensor in weight_map]
        if twice:
            raise Refused(f"{name} and {weight_map[twice[0]]} both have {twice[0]}")
        weight_map.update(dict.fromkeys(tensors, target))
        total += size
    if files != [SINGLE]:
        text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2)
        write_whole(index, lambda path: open(path, "w", encoding="utf-8").write(text))
    if os.path.realpath(out) != os.path.realpath(folder):
        copy_small_files(folder, out)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("dir", metavar="DIR", help="a folder with pytorch_model.bin or pytorch_model.bin.index.json")
    ap.add_argument("--out", metavar="DIR", help="where to write (default: DIR)")
    a = ap.parse_args()
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    try:
        if version < TORCH_NEEDED:
            raise Refused(f"torch {torch.__version__} is too old to load untrusted files; 2.6 or newer is needed")
        run(a.dir, a.out or a.dir)
    except (Refused, OSError, ValueError) as e:
        sys.exit(f"{ap.prog}: {e}")


if __name__ == "__main__":
    main()
