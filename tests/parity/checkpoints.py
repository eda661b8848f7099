"""Writes a small random model of a family, lively enough that its answers vary and end."""

import json
import math
import os
import random
import shutil

import torch
import transformers
from safetensors.torch import save_file

from families import FAMILIES

LESSONS = 120
BATCH = 16


def config_class(plan):
    return getattr(transformers, plan.model).config_class


def build(plan):
    config = config_class(plan)(**plan.config)
    model = getattr(transformers, plan.model)._from_config(config, attn_implementation="eager")
    if plan.untied:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    if plan.generation:
        model.generation_config = transformers.GenerationConfig(**plan.generation)
    return model.float()


def table_scale(plan, name):
    """Standard deviation of an embedding table, so that states and logits are of moderate size."""
    config = plan.config
    if "d_model" not in config:
        return 1.0
    width = config["d_model"]
    if "d_kv" in config:
        return 1.0 if plan.untied else 1.5
    small = 1.5 / math.sqrt(width)
    sinusoidal = plan.model[:3] in ("Mar", "Peg", "M2M", "FSM")
    return small if config.get("scale_embedding") or not sinusoidal else 0.5


@torch.no_grad()
def fill(model, plan, generator):
    """Norm weights that are not 1, biases that are not 0, matrices that do something."""

    def normal(parameter, scale, mean=0.0):
        parameter.copy_(mean + scale * torch.randn(parameter.shape, generator=generator))

    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue  # fixed sinusoids
        if "norm" in name.lower():
            normal(p, 0.2, 1.0 if name.endswith("weight") else 0.0)
        elif p.dim() == 1:
            normal(p, 0.2)
        elif "relative_attention_bias" in name:
            normal(p, 1.0)
        elif "embed_positions" in name or "position_embeddings" in name:
            scaled = plan.config.get("scale_embedding")
            normal(p, 0.5 * (1.0 if scaled else table_scale(plan, name)))
        elif "lm_head" in name:
            normal(p, 1.5 / math.sqrt(p.shape[1]))
        elif "shared" in name or "embed" in name or "output_projection" in name:
            normal(p, table_scale(plan, name))
        else:
            scale = 0.75 / math.sqrt(p.shape[1])
            if "d_kv" in plan.config and name.endswith(".q.weight"):
                scale /= math.sqrt(plan.config["d_kv"])
            normal(p, scale)
    for name, buffer in model.named_buffers():
        if name.endswith("final_logits_bias"):
            normal(buffer, 0.3)


def vocabularies(plan):
    config = plan.config
    source = config.get("vocab_size") or config["src_vocab_size"]
    return source, config.get("decoder_vocab_size") or config.get("tgt_vocab_size") or source


def lesson(r, words, meanings, eos):
    """Rows of a made-up language.  A word is the successor of the one before it or the meaning of
    some word of the source, so that answers wander and follow the source."""
    xs, ys = [], []
    for _ in range(BATCH):
        x = [r.choice(words) for _ in range(r.randint(2, 8))]
        y = [meanings[x[-1] % len(meanings)]]
        while len(y) <= len(x) + 2:
            successor = meanings[(meanings.index(y[-1]) + 13) % len(meanings)]
            y.append(successor if r.random() < 0.6 else meanings[r.choice(x) % len(meanings)])
        xs.append(x + [eos])
        ys.append(y + [eos])
    return xs, ys


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def teach(model, plan, r):
    """Too few lessons for confidence, enough that answers follow the source and end."""
    config = plan.config
    pad, start = config["pad_token_id"], config["decoder_start_token_id"]
    special = {pad, config["eos_token_id"], start, plan.generation.get("forced_bos_token_id")}
    words, meanings = ([w for w in range(3, size) if w not in special]
                       for size in vocabularies(plan))
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=6e-3)
    weight = torch.ones(vocabularies(plan)[1])
    weight[config["eos_token_id"]] = 0.15  # else it is the safest guess everywhere
    for _ in range(LESSONS):
        xs, ys = lesson(r, words, meanings, config["eos_token_id"])
        labels, before = padded(ys, -100), padded([[start, *y[:-1]] for y in ys], pad)
        logits = model(
            input_ids=padded(xs, pad),
            attention_mask=padded([[1] * len(x) for x in xs], 0),
            decoder_input_ids=before,
            use_cache=False,
        ).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), weight, label_smoothing=0.05
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()


def tensors_of(model, how):
    """Every stored tensor once, without fixed sinusoids.

    A table of several names has the first of them, with "alias" the last."""
    fixed = {n for n, p in model.named_parameters() if not p.requires_grad}
    names = sorted(set(model.state_dict()) - fixed, key=lambda n: ("shared" not in n, n),
                   reverse=how == "alias")
    found, seen = {}, set()
    for name in names:
        tensor = model.state_dict()[name]
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            found[name] = tensor.detach().clone().contiguous()
    if how == "bare":  # as the model without its head is saved
        found.pop("final_logits_bias")
        found = {name.removeprefix("model."): tensor for name, tensor in found.items()}
    return found


def cast(tensors, how):
    kinds = {"f16": [torch.float16], "bf16": [torch.bfloat16],
             "mixed": [torch.float32, torch.float16, torch.bfloat16]}.get(how)
    if not kinds:
        return tensors
    return {n: t.to(kinds[i % len(kinds)]) for i, (n, t) in enumerate(sorted(tensors.items()))}


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)


def write_tensors(folder, tensors, shards):
    meta = {"format": "pt"}
    if shards == 1:
        save_file(tensors, os.path.join(folder, "model.safetensors"), meta)
        return
    where, names = {}, sorted(tensors)
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = names[i::shards]
        save_file({n: tensors[n] for n in part}, os.path.join(folder, file), meta)
        where.update(dict.fromkeys(part, file))
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(folder, "model.safetensors.index.json",
               {"metadata": {"total_size": size}, "weight_map": where})


def write(model, plan, folder):
    if plan.save == "transformers":
        model.save_pretrained(folder)
        return
    config = config_class(plan)(**plan.config).to_dict()
    config.update({k: plan.config[k] for k in ("tie_word_embeddings",) if k in plan.config})
    if plan.untied:
        config.pop("scale_decoder_outputs", None)
    bare = plan.model.replace("ForConditionalGeneration", "Model")
    config["architectures"] = [bare if plan.save == "bare" else plan.model]
    write_json(folder, "config.json", {k: v for k, v in config.items() if v is not None})
    if plan.generation:
        write_json(folder, "generation_config.json", plan.generation)
    tensors = cast(tensors_of(model, plan.save), plan.save)
    write_tensors(folder, tensors, 3 if plan.save == "sharded" else 1)


def make(name, seed, folder):
    """Writes the folder anew."""
    r = random.Random(f"{name}/{seed}")
    plan = FAMILIES[name](r)
    if plan.save == "plain" and r.random() < 0.25:
        plan.save = "transformers"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model = build(plan)
    fill(model, plan, torch.Generator().manual_seed(r.randrange(1 << 31)))
    if plan.generation:
        model.eval()  # lessons without dropout
        teach(model, plan, r)
    model.eval()
    write(model, plan, folder)
