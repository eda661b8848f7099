#!/usr/bin/env python3
"""Make a folder that seqd serves of a tutorial's checkpoint.

    pip install torch safetensors numpy
    tools/import_checkpoint.py tut6-model.pt OUT --heads 8 --pad 1 --bos 2 --eos 3
    tools/import_checkpoint.py transformer.pth OUT --heads 8 --source-vocab de.txt --target-vocab en.txt \\
        --tokenizer words --source-begin '<bos>' --source-end '<eos>'

The checkpoint is a state dict, or a dict that holds one as "model", "state_dict", "model_state_dict" …  Its names say
whose it is (tools/checkpoint_names.py).  What tensors do not tell is taken from the options, then from settings kept
in the checkpoint, then from the original that people copied; the summary says which.  What nobody says is an error.
"""
import argparse
import json
import os
import pathlib
import pickle
import re
import sys

import torch
from safetensors.torch import save_file

from checkpoint_facts import ASKED, CHOICES, TYPES, Facts
from checkpoint_model import ImportFailed, Model

HOLDERS = "model", "state_dict", "model_state_dict", "model_state", "net", "network", "weights"
SETTINGS = "settings", "opt", "args", "config", "hparams", "hyper_parameters"
IDS = "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"


# ---- the checkpoint ----

def reason(error):
    """Of a refusal to unpickle."""
    names = re.findall(r"GLOBAL (\S+)", str(error))
    if not names:
        return "it is no checkpoint, or a damaged one"
    return (f"it holds more than weights ({names[0]}) and could run code.  Where its own code is, save the weights alone:\n"
            "  torch.save(model.state_dict(), 'weights.pt')")


def load(path):
    """(state dict, settings).  An argparse.Namespace, in which training scripts keep settings, only holds values."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ImportFailed(f"{path} is not loaded: {reason(error)}") from None
    except (OSError, RuntimeError, EOFError) as error:
        raise ImportFailed(f"{path}: {error}") from None
    if not isinstance(loaded, dict):
        raise ImportFailed(f"{path} holds a {type(loaded).__name__}, not a state dict")
    state, settings = loaded, {}
    for key in HOLDERS:
        if isinstance(loaded.get(key), dict):
            state = dict(loaded[key])
            break
    if state is not loaded:
        for key in SETTINGS:
            value = loaded.get(key)
            settings |= vars(value) if isinstance(value, argparse.Namespace) else value if isinstance(value, dict) else {}
        if isinstance(loaded.get("generator"), dict):  # OpenNMT-py keeps its output apart
            state |= {"generator." + name: tensor for name, tensor in loaded["generator"].items()}
    if bad := [str(name) for name, value in state.items() if not isinstance(value, torch.Tensor)]:
        raise ImportFailed(f"{path}: not only tensors ({', '.join(bad[:5])}), and no state dict as any of {', '.join(HOLDERS)}")
    return state, settings


def rename(state, renames, ignored):
    named = {}
    for name, tensor in state.items():
        if any(part in name for part in ignored):
            continue
        for old, new in renames:
            name = name.replace(old, new)
        if name in named:
            raise ImportFailed(f"--rename makes two tensors {name}")
        named[name] = tensor
    return named


# ---- the small tokenizer ----

def read_tokens(path):
    """One token a line, or a JSON list, or a JSON object of ids by token."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    tokens = json.loads(text) if path.endswith(".json") else text.removesuffix("\n").split("\n")
    if isinstance(tokens, dict):
        by_id = {number: token for token, number in tokens.items()}
        if sorted(by_id) != list(range(len(tokens))):
            raise ImportFailed(f"{path}: the ids are not 0 to {len(tokens) - 1}, each once")
        tokens = [by_id[number] for number in range(len(tokens))]
    if len(set(tokens)) != len(tokens):
        raise ImportFailed(f"{path}: {next(t for t in tokens if tokens.count(t) > 1)!r} is there twice")
    return tokens


def read_vocabularies(options, config):
    """(source, target); None where there is none, and as target when one list is for both."""
    source = read_tokens(options.source_vocab) if options.source_vocab else None
    target = read_tokens(options.target_vocab) if options.target_vocab else None
    if target and not source:
        raise ImportFailed("--target-vocab needs --source-vocab")
    if source and not target and config["src_vocab_size"] != config["tgt_vocab_size"]:
        raise ImportFailed("--target-vocab is needed: the two tables of tokens have different sizes")
    for tokens, field in (source, "src_vocab_size"), (target or source, "tgt_vocab_size"):
        if tokens and len(tokens) > config[field]:
            raise ImportFailed(f"a vocabulary of {len(tokens)} tokens, but the model's {field} is {config[field]}")
    return source, target


def small_tokenizer(options, source, target):
    needed = {"--tokenizer": options.tokenizer, "--source-begin": options.source_begin, "--source-end": options.source_end}
    if options.tokenizer == "pattern":
        needed["--pattern"] = options.pattern
    if missing := [option for option, value in needed.items() if value is None]:
        raise ImportFailed(f"--source-vocab needs {', '.join(missing)} too")
    lists = {"source": source} | ({"target": target} if target else {})
    for field, tokens in lists.items():
        if options.unknown not in tokens:
            raise ImportFailed(f"the {field} vocabulary has no {options.unknown!r}; --unknown says which token it is")
        lists[field] = ["<unk>" if token == options.unknown else token for token in tokens]
    marks = {"source_begin": options.source_begin.split(), "source_end": options.source_end.split()}
    for token in sum(marks.values(), []):
        if token not in lists["source"]:
            raise ImportFailed(f"{token!r} is not in {options.source_vocab}")
    join = options.join if options.join is not None else " " if options.tokenizer == "words" else ""
    return {"type": options.tokenizer, **({"pattern": options.pattern} if options.tokenizer == "pattern" else {}),
            "lowercase": options.lowercase, **lists, **marks, "join": join}


# ---- the folder ----

def complete_config(model, facts):
    config = {"model_type": "transformer", **model.config, **facts.values}
    sizes = model.check_shapes(config)
    if sizes != {"d_k": config["d_model"] / config["attention_heads"], "d_v": sizes["d_k"]}:
        config |= sizes
    for field in IDS:
        sizes = ("src_vocab_size", "tgt_vocab_size") if field == "pad_token_id" else ("tgt_vocab_size",)
        if not all(0 <= config[field] < config[size] for size in sizes):
            raise ImportFailed(f"{field} is {config[field]}; the vocabulary is 0..{min(config[s] for s in sizes) - 1}")
    return config


def write_folder(out, model, config, tokenizer, max_length):
    generation = {field: config[field] for field in IDS} | ({"max_length": max_length} if max_length else {})
    files = {"config.json": config, "generation_config.json": generation} | ({"vocab.json": tokenizer} if tokenizer else {})
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.contiguous().clone() for name, tensor in model.tensors.items()}
    save_file(tensors, str(out / "model.safetensors"), metadata={"format": "pt"})
    os.chmod(out / "model.safetensors", 0o644)
    for name, value in files.items():
        (out / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return [*files, "model.safetensors"]


def summary(path, model, config, facts):
    count = sum(tensor.numel() for tensor in model.tensors.values())
    lines = [f"{path}: {model.style.title}; {len(model.tensors)} tensors, {count:,} parameters"]
    for field, value in config.items():
        if field != "model_type":
            shown = value if isinstance(value, str) else json.dumps(value)
            lines.append(f"  {field:<24} {shown:<10}  {facts.sources.get(field, 'the tensors')}")
    return "\n".join(lines + ["  note: " + note for note in model.notes])


def yes_no(text):
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError("yes or no")
    return text == "yes"


def parse(argv):
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("checkpoint")
    ap.add_argument("out", type=pathlib.Path, help="the folder to write")
    ap.add_argument("--force", action="store_true", help="write over a model that is there")
    for field, (option, reason) in ASKED.items():
        kind = {"choices": CHOICES[field]} if field in CHOICES else {"type": TYPES[field], "metavar": "N"} \
            if field in TYPES else {"type": yes_no, "metavar": "yes|no"}
        ap.add_argument(option, help=reason, **kind)
    ap.add_argument("--stack-norm", choices=["embedding", "final"],
                    help="what encoder.layer_norm is: before the first layer or after the last one")
    ap.add_argument("--max-length", type=int, help="how long answers become, start included, unless asked otherwise")
    ap.add_argument("--rename", action="append", default=[], metavar="OLD=NEW", help="replace a part of tensor names")
    ap.add_argument("--ignore", action="append", default=[], metavar="PART", help="leave out tensors with this in the name")
    small = ap.add_argument_group("the small tokenizer (docs/model-format.md)")
    small.add_argument("--source-vocab", metavar="FILE", help="one token a line; .json: a list, or ids by token")
    small.add_argument("--target-vocab", metavar="FILE", help="left out: one vocabulary for both")
    small.add_argument("--tokenizer", choices=["characters", "words", "pattern"])
    small.add_argument("--pattern", metavar="REGEX", help="a PCRE2 expression that matches tokens")
    small.add_argument("--source-begin", metavar="TOKENS", help="what is put before every source; may be empty")
    small.add_argument("--source-end", metavar="TOKENS", help="what is put behind every source; may be empty")
    small.add_argument("--lowercase", action="store_true", help="sources become lower case")
    small.add_argument("--join", metavar="TEXT", help="what is put between target tokens (words: a space; else nothing)")
    small.add_argument("--unknown", metavar="TOKEN", default="<unk>", help="the unknown token, where it is not <unk>")
    options = ap.parse_args(argv)
    if bad := [text for text in options.rename if "=" not in text]:
        ap.error(f"--rename {bad[0]}: it must be OLD=NEW")
    options.rename = [text.split("=", 1) for text in options.rename]
    return options


def run(options):
    if (options.out / "config.json").exists() and not options.force:
        raise ImportFailed(f"{options.out}: there is a model already (--force writes over it)")
    state, settings = load(options.checkpoint)
    model = Model(rename(state, options.rename, options.ignore), options.stack_norm)
    source, target = read_vocabularies(options, model.config)
    facts = Facts(model, options, settings, target or source)
    facts.ask_all()
    tokenizer = small_tokenizer(options, source, target) if source else None
    config = complete_config(model, facts)
    print(summary(options.checkpoint, model, config, facts))
    files = write_folder(options.out, model, config, tokenizer, options.max_length)
    print(f"{options.out}: {', '.join(files)}")


def main(argv=None):
    try:
        run(parse(argv))
    except ImportFailed as failed:
        sys.exit(f"import_checkpoint: {failed}")


if __name__ == "__main__":
    main()
