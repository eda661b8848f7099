"""Writes folders into tests/kit: encoders of BERT's kind, and places where families go wrong far out.

    python3 tools/golden_families.py tests/kit [NAME...]

Every folder holds a small random model and expected.json, what transformers makes of it.  The models
are not trained; weights and inputs come from a seed.  What rounding could change is not written:
answers whose best two logits are close, numbers for which float32 is too coarse.

Made with transformers 5.24 and torch 2.13.
"""

import json
import math
import os
import random
import sys
import zlib

import torch
import transformers
from safetensors.torch import save_file

GAP = 5e-3  # between the best two logits of every greedy step
ROUNDING = 3e-6  # of states and attention weights
WANDER = {"no_repeat_ngram_size": 2}  # an untrained model repeats itself


def rounded(value):
    return [rounded(v) for v in value] if isinstance(value, list) else float(f"{value:.7g}")


def numbers(tensor):
    return rounded(tensor.double().tolist())


def real(states, masks):
    """Of every row those with mask 1."""
    return [numbers(s[m.bool()]) for s, m in zip(states, masks)]


def pooled(states, masks):
    rows = [s[m.bool()] for s, m in zip(states, masks)]
    return {
        "mean": [numbers(r.mean(0)) for r in rows],
        "max": [numbers(r.max(0).values) for r in rows],
        "cls": [numbers(r[0]) for r in rows],
    }


class Unclear(Exception):
    pass


class Case:
    """The folder is written first; what answers was loaded from it."""

    attempt = 0

    def __init__(self, name, model, config, change=None):
        self.name, seed = name, f"{name} {self.attempt}"
        self.random = random.Random(seed)
        self.folder = os.path.join(sys.argv[1], name)
        cls = getattr(transformers, model)
        self.config = cls.config_class(**config)
        self.model = cls._from_config(self.config)
        self.fill(torch.Generator().manual_seed(zlib.crc32(seed.encode())))
        if change:
            change(dict(self.model.named_parameters()))
        self.write_model()
        self.model = cls.from_pretrained(self.folder, attn_implementation="eager").eval()
        self.expected = {"case": name, "family": self.config.model_type, "level": "lite"}

    def is_computed(self, name):
        """The reference stores FSMT's sines as if they were weights."""
        return self.config.model_type == "fsmt" and "embed_positions" in name

    @torch.no_grad()
    def fill(self, generator):
        """Norm weights that are not 1, biases that are not 0, matrices that do something."""
        for name, p in self.model.named_parameters():
            if self.is_computed(name):
                continue
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name.lower():
                p.copy_(0.2 * noise + name.endswith("weight"))
            elif "embed" in name or "shared" in name or "bias" in name:
                p.copy_(noise)
            else:
                p.copy_(1.4 / math.sqrt(p.shape[-1]) * noise)

    def words(self, count):
        special = {self.config.pad_token_id, self.config.eos_token_id}
        size = getattr(self.config, "src_vocab_size", 0) or self.config.vocab_size
        some = [i for i in range(3, size) if i not in special]
        return [self.random.choice(some) for _ in range(count)]

    @property
    def encoder(self):
        return self.model.get_encoder() if self.config.is_encoder_decoder else self.model

    def compare(self, name, single, double, masks):
        """Of real tokens, in float32 and in float64."""
        worst = (single - double)[masks.bool()].abs().max().item()
        if worst > ROUNDING:
            raise Unclear(f"{self.name} {name}: float32 is off by {worst:.2g}")

    @torch.no_grad()
    def encode(self, name, ids, masks):
        ids, masks = torch.tensor(ids), torch.tensor(masks)
        states = self.encoder(input_ids=ids, attention_mask=masks).last_hidden_state
        exact = self.encoder.double()(input_ids=ids, attention_mask=masks).last_hidden_state
        self.model.float()
        self.compare(name, states, exact, masks)
        self.expected.setdefault("encode", {}).setdefault("batches", []).append({
            "name": name,
            "input_ids": ids.tolist(),
            "attention_mask": masks.tolist(),
            "last_hidden_state": real(states, masks),
            "pooled": pooled(states, masks),
        })

    @torch.no_grad()
    def encoder_attentions(self, ids, masks):
        given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(masks)}
        out = self.encoder(**given, output_attentions=True).attentions
        exact = self.encoder.double()(**given, output_attentions=True).attentions
        self.model.float()
        for a, b in zip(out, exact):
            self.compare("attentions", a.transpose(1, 2), b.transpose(1, 2), torch.tensor(masks))
        counts = [sum(m) for m in masks]
        self.expected["encode"]["attentions"] = {
            "input_ids": ids,
            "attention_mask": masks,
            "encoder_attentions": [
                [numbers(a[row, :, :n, :n]) for a in out] for row, n in enumerate(counts)
            ],
        }

    @torch.no_grad()
    def logits(self, name, ids, target, positions):
        out = self.model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([target]),
                         use_cache=False)
        self.expected.setdefault("logits", {}).setdefault("batches", []).append({
            "name": name,
            "input_ids": [ids],
            "attention_mask": [[1] * len(ids)],
            "decoder_input_ids": [target],
            "positions": positions,
            "logits": [numbers(out.logits[0, positions])],
        })

    @torch.no_grad()
    def greedy(self, name, ids, count, **more):
        """`count` tokens without an end; gives them, for teacher forcing."""
        options = {"max_new_tokens": count, "min_new_tokens": count, **more}
        out = self.model.generate(torch.tensor([ids]), do_sample=False, num_beams=1,
                                  output_logits=True, output_scores=True,
                                  return_dict_in_generate=True, **options)
        for step in out.scores:
            best = step[0].topk(2).values
            if best[0] - best[1] < GAP:
                raise Unclear(f"{self.name} {name}: a near tie")
        sequence = out.sequences[0].tolist()
        scores = self.model.compute_transition_scores(out.sequences, out.scores,
                                                      normalize_logits=True)
        self.expected.setdefault("generate", []).append({
            "name": name,
            "request": {"input_ids": [ids], "attention_mask": [[1] * len(ids)],
                        "options": options},
            "num_return_sequences": 1,
            "sequences": [sequence],
            "generated": [sequence[1:]],
            "finish_reason": ["length"],
            "token_logprobs": [numbers(scores[0])],
        })
        return sequence

    def write_model(self):
        os.makedirs(self.folder, exist_ok=True)
        tensors, seen = {}, set()
        for name, tensor in self.model.state_dict().items():
            if tensor.is_floating_point() and not self.is_computed(name):
                if tensor.data_ptr() not in seen:
                    tensors[name] = tensor.contiguous()
                seen.add(tensor.data_ptr())
        save_file(tensors, os.path.join(self.folder, "model.safetensors"), {"format": "pt"})
        self.write("config.json", self.config.to_diff_dict(), 1)
        if self.config.is_encoder_decoder:
            ids = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
            self.write("generation_config.json", {i: getattr(self.config, i) for i in ids}, 1)

    def write(self, name, value, indent=None):
        with open(os.path.join(self.folder, name), "w") as file:
            json.dump(value, file, indent=indent)
            file.write("\n")


SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24,
         "num_hidden_layers": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-5}
DISTILBERT_SIZES = {"dim": 16, "n_heads": 2, "hidden_dim": 24, "n_layers": 2, "activation": "gelu"}


def bert_kind(name, model, pad, sizes, **more):
    """Padding right, left and inside; and padding's id under mask 1, which counting families skip."""
    config = {**sizes, "max_position_embeddings": 24, "vocab_size": 40, "pad_token_id": pad}
    case = Case(name, model, {**config, **more})
    row, other = case.words(5), case.words(7)
    case.encode("single", [other], [[1] * 7])
    case.encode("batch", [row + [pad] * 2, other], [[1] * 5 + [0] * 2, [1] * 7])
    case.encode("interior_mask", [other], [[1, 1, 0, 1, 0, 0, 1]])
    case.encode("interior_padding", [row[:2] + [pad] + row[2:]], [[1] * 6])
    case.encode("left_padding", [[pad] * 3 + row], [[0] * 3 + [1] * 5])
    case.encoder_attentions([row[:4] + [pad], other[:5]], [[1] * 4 + [0], [1] * 5])
    return case


def bert():
    return bert_kind("bert", "BertModel", 0, SIZES, type_vocab_size=2)


def roberta():
    return bert_kind("roberta", "RobertaModel", 1, SIZES, type_vocab_size=1)


def mpnet():
    return bert_kind("mpnet", "MPNetModel", 1, SIZES)


def distilbert():
    return bert_kind("distilbert", "DistilBertModel", 0, DISTILBERT_SIZES)


T5 = {"d_model": 8, "d_kv": 6, "d_ff": 16, "num_layers": 2, "num_decoder_layers": 2,
      "num_heads": 2, "vocab_size": 40, "decoder_start_token_id": 0, "pad_token_id": 0,
      "eos_token_id": 1}


@torch.no_grad()
def strengthen_biases(parameters):
    """So that a bias in the wrong place, or a wrong bucket, is not small."""
    for name, p in parameters.items():
        if "relative_attention_bias" in name:
            p.mul_(50 if "decoder" in name else 3)


@torch.no_grad()
def sharpen(parameters):
    """Scores so large that a finite number for masked places would lose."""
    for name, p in parameters.items():
        if name.endswith(".q.weight"):
            p.mul_(1000)


def t5_far():
    """Distances in every bucket: a source of 200 tokens, a target of 131."""
    case = Case("t5_far", "T5ForConditionalGeneration", T5, strengthen_biases)
    source = case.words(200)
    case.encode("far", [source], [[1] * 200])
    case.encoder_attentions([source[:6]], [[1] * 6])
    sequence = case.greedy("greedy_far", source, 130, **WANDER)
    case.logits("far", source, sequence, [0, 1, 20, 60, 100, *range(112, 130)])
    return case


def t5_sharp():
    case = Case("t5_sharp", "T5ForConditionalGeneration", T5, sharpen)
    row, other = case.words(6), case.words(4)
    case.encode("single", [row], [[1] * 6])
    case.encode("interior_mask", [row, other + [0, 0]], [[1, 0, 1, 1, 0, 1], [1] * 4 + [0] * 2])
    case.encoder_attentions([row], [[1] * 6])
    case.logits("sharp", row, case.greedy("greedy_sharp", row, 8, **WANDER),
                list(range(9)))
    return case


def m2m100_far():
    """Twice as many positions as the folder says: the reference's table grows."""
    config = {"d_model": 8, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 16,
              "decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
              "vocab_size": 40, "max_position_embeddings": 24}
    case = Case("m2m100_far", "M2M100ForConditionalGeneration", config)
    source = case.words(25) + [1] + case.words(22)
    case.encode("far", [source], [[1] * 48])
    case.encoder_attentions([source[:4]], [[1] * 4])
    sequence = case.greedy("greedy_far", source, 48, suppress_tokens=[1], **WANDER)
    case.logits("far", source, sequence, [0, 1, *range(20, 28), 47])
    return case


def fsmt_computed():
    """Positions that the file does not have, and more of them than the folder says."""
    config = {"d_model": 8, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 16,
              "decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
              "langs": ["en", "de"], "src_vocab_size": 40, "tgt_vocab_size": 32,
              "max_position_embeddings": 24, "forced_eos_token_id": None}
    case = Case("fsmt_computed", "FSMTForConditionalGeneration", config)
    source = case.words(12) + [1] + case.words(19)
    case.encode("far", [source], [[1] * 32])
    case.encoder_attentions([source[:4]], [[1] * 4])
    sequence = case.greedy("greedy_far", source, 30, suppress_tokens=[1], **WANDER)
    case.logits("far", source, sequence, [0, 1, *range(20, 28), 29])
    return case


CASES = {c.__name__: c for c in (bert, roberta, mpnet, distilbert, t5_far, t5_sharp, m2m100_far,
                              fsmt_computed)}


def main():
    for name in sys.argv[2:] or CASES:
        for Case.attempt in range(20):
            try:
                case = CASES[name]()
                case.write("expected.json", case.expected)
                break
            except Unclear as reason:
                print(reason)
        else:
            sys.exit(f"{name}: no seed will do")


if __name__ == "__main__":
    main()
