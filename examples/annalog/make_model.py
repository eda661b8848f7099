#!/usr/bin/env python3
"""Make a folder that seqd serves of the model in the package annalog 1.0.6, which must be installed.

    pip install torch safetensors numpy
    pip install --no-deps annalog==1.0.6
    examples/annalog/make_model.py OUT

Nothing of the package is run: its weights are read by tools/import_checkpoint.py, and its vocabulary, a pickle, by a
reader that knows no classes.
"""
import importlib.util
import json
import pathlib
import pickle
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import import_checkpoint  # noqa: E402

# Brackets, ring numbers of two digits, the two elements of two letters, and what is left by characters.
TOKENS = r"\[[^\]]*\]|%\d{2}|Br|Cl|(?s:.)"
HEADS, LENGTH = 8, 102  # as the package's own code says; tokens of the answer with its start


class PlainValues(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"a vocabulary needs no {module}.{name}")


def package_files():
    """(weights, vocabulary) of the installed package, without importing it."""
    spec = importlib.util.find_spec("annalog")
    if spec is None:
        sys.exit("the package annalog is not installed: pip install --no-deps annalog==1.0.6")
    files = pathlib.Path(spec.submodule_search_locations[0]) / "ckpt_and_vocab"
    return files / "Lev_extended.pt", files / "stereo_experiment_vocab_ttf.pkl"


def make(out, *options):
    weights, vocabulary = package_files()
    with open(vocabulary, "rb") as file:
        tokens = PlainValues(file).load()["itos"]
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "vocabulary.json")
        path.write_text(json.dumps(tokens), encoding="utf-8")
        import_checkpoint.main([
            str(weights), str(out), "--heads", str(HEADS), "--max-length", str(LENGTH), "--source-vocab", str(path),
            "--tokenizer", "pattern", "--pattern", TOKENS, "--source-begin", "<sos>", "--source-end", "<eos>", *options])


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    make(*sys.argv[1:])
