"""Encoder-decoder Transformers with the names and habits of well-known tutorials, for run.py.

Each has encode(source) -> [S, d] and logits(memory, target) -> [T, V] for one sequence of ids.  Written for these tests:
only the names of parameters, and what is done in which order, are those of the originals.
"""
import math

import torch
from torch import nn

D, HEADS, INNER, SOURCE, TARGET, POSITIONS = 32, 4, 48, 37, 41, 40
PAD, BOS, EOS = 1, 2, 3


def heads(x, count):
    return x.view(len(x), count, -1).transpose(0, 1)


def attend(q, k, v, count=HEADS, causal=False):
    """[T, heads · d_k], [S, heads · d_k], [S, heads · d_v] -> [T, heads · d_v]"""
    q, k, v = heads(q, count), heads(k, count), heads(v, count)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -1e10)
    return (scores.softmax(-1) @ v).transpose(0, 1).reshape(q.shape[1], -1)


def sines(rows, width=D, halves=False):
    """In float32, as most tutorials compute them; halves: all sines, then all cosines."""
    angles = torch.arange(rows)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    parts = angles.sin(), angles.cos()
    return torch.cat(parts, 1) if halves else torch.stack(parts, 2).reshape(rows, width)


class Position(nn.Module):
    """A table with the name and the shape that an original gives to it."""

    def __init__(self, name, table):
        super().__init__()
        self.register_buffer(name, table)


def module(**parts):
    holder = nn.Module()
    for name, part in parts.items():
        holder.add_module(name, part)
    return holder


# ---- w_qs, w_ks, w_vs, fc ----

class WqsAttention(nn.Module):
    def __init__(self, key, value, bias, eps):
        super().__init__()
        self.w_qs, self.w_ks = nn.Linear(D, HEADS * key, bias=bias), nn.Linear(D, HEADS * key, bias=bias)
        self.w_vs, self.fc = nn.Linear(D, HEADS * value, bias=bias), nn.Linear(HEADS * value, D, bias=bias)
        self.layer_norm = nn.LayerNorm(D, eps=eps)

    def forward(self, x, memory, causal=False):
        return self.layer_norm(x + self.fc(attend(self.w_qs(x), self.w_ks(memory), self.w_vs(memory), causal=causal)))


class WqsFeedForward(nn.Module):
    def __init__(self, convolution, eps):
        super().__init__()
        make = (lambda a, b: nn.Conv1d(a, b, 1)) if convolution else nn.Linear
        self.convolution, self.w_1, self.w_2 = convolution, make(D, INNER), make(INNER, D)
        self.layer_norm = nn.LayerNorm(D, eps=eps)

    def forward(self, x):
        turn = (lambda t: t.T) if self.convolution else (lambda t: t)
        return self.layer_norm(x + turn(self.w_2(torch.relu(self.w_1(turn(x))))))


class Wqs(nn.Module):
    """version: "last", "middle" (its stack norm after the layers) or "first" (convolutions, positions from 1)."""

    def __init__(self, version="last", tied=True, scale="prj", key=5, value=7):
        super().__init__()
        old = version == "first"
        self.version, self.tied, self.scale, eps = version, tied, scale, 1e-5 if old else 1e-6
        source, target = ("src_word_emb", "tgt_word_emb") if old else ("src_word_emb", "trg_word_emb")
        for stack, word, count, layers in ("encoder", source, TARGET if tied else SOURCE, 2), ("decoder", target, TARGET, 3):
            layer = lambda: module(**{"slf_attn": WqsAttention(key, value, old, eps)},
                                   **({"enc_attn": WqsAttention(key, value, old, eps)} if stack == "decoder" else {}),
                                   pos_ffn=WqsFeedForward(old, eps))
            parts = {word: nn.Embedding(count, D), "layer_stack": nn.ModuleList(layer() for _ in range(layers))}
            if old:
                parts["position_enc"] = nn.Embedding(POSITIONS + 1, D)
                parts["position_enc"].weight = nn.Parameter(torch.cat([torch.zeros(1, D), sines(POSITIONS + 1)[1:]]), False)
            else:
                parts["position_enc"] = Position("pos_table", sines(POSITIONS)[None])
                parts["layer_norm"] = nn.LayerNorm(D, eps=eps)
            self.add_module(stack, module(**parts))
        self.words = source, target
        self.add_module("tgt_word_prj" if old else "trg_word_prj", nn.Linear(D, TARGET, bias=False))
        if tied:
            self.projection().weight = getattr(self.decoder, target).weight
            getattr(self.encoder, source).weight = getattr(self.decoder, target).weight

    def projection(self):
        return self.tgt_word_prj if self.version == "first" else self.trg_word_prj

    def run(self, stack, word, ids, memory=None):
        x = getattr(stack, word)(ids)
        if self.tied and self.scale == "emb":
            x = x * D ** 0.5
        x = x + (stack.position_enc.weight[1:] if self.version == "first" else stack.position_enc.pos_table[0])[:len(ids)]
        if self.version == "last":
            x = stack.layer_norm(x)
        for layer in stack.layer_stack:
            x = layer.slf_attn(x, x, memory is not None)
            x = x if memory is None else layer.enc_attn(x, memory)
            x = layer.pos_ffn(x)
        return stack.layer_norm(x) if self.version == "middle" else x

    def encode(self, ids):
        return self.run(self.encoder, self.words[0], ids)

    def logits(self, memory, ids):
        y = self.projection()(self.run(self.decoder, self.words[1], ids, memory))
        return y * D ** -0.5 if self.tied and self.scale == "prj" else y


# ---- fc_q, fc_k, fc_v, fc_o ----

class FcqAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, memory, causal=False):
        return self.fc_o(attend(self.fc_q(x), self.fc_k(memory), self.fc_v(memory), causal=causal))


class Fcq(nn.Module):
    """one_norm: the first version had a single norm in a layer; inner: widths of the feed-forward by stack."""

    def __init__(self, one_norm=False, inner=(INNER, INNER), positions=(POSITIONS, POSITIONS), scales=False):
        super().__init__()
        for stack, count, layers, width, rows in zip(("encoder", "decoder"), (SOURCE, TARGET), (2, 3), inner, positions):
            norms = ["layer_norm"] if one_norm else ["self_attn_layer_norm", "ff_layer_norm"]
            norms += ["enc_attn_layer_norm"] if stack == "decoder" and not one_norm else []
            layer = lambda: module(
                self_attention=FcqAttention(), **({"encoder_attention": FcqAttention()} if stack == "decoder" else {}),
                positionwise_feedforward=module(fc_1=nn.Linear(D, width), fc_2=nn.Linear(width, D)),
                **{norm: nn.LayerNorm(D) for norm in norms})
            self.add_module(stack, module(tok_embedding=nn.Embedding(count, D), pos_embedding=nn.Embedding(rows, D),
                                          layers=nn.ModuleList(layer() for _ in range(layers))))
        self.decoder.fc_out = nn.Linear(D, TARGET)
        if scales:
            self.encoder.register_buffer("scale", torch.tensor([D ** 0.5]))
            self.encoder.layers[0].self_attention.register_buffer("scale", torch.tensor([(D / HEADS) ** 0.5]))

    def run(self, stack, ids, memory=None):
        x = stack.tok_embedding(ids) * D ** 0.5 + stack.pos_embedding.weight[:len(ids)]
        for layer in stack.layers:
            norm = lambda name: getattr(layer, name if hasattr(layer, name) else "layer_norm")
            x = norm("self_attn_layer_norm")(x + layer.self_attention(x, x, memory is not None))
            if memory is not None:
                x = norm("enc_attn_layer_norm")(x + layer.encoder_attention(x, memory))
            inner = layer.positionwise_feedforward
            x = norm("ff_layer_norm")(x + inner.fc_2(torch.relu(inner.fc_1(x))))
        return x

    def encode(self, ids):
        return self.run(self.encoder, ids)

    def logits(self, memory, ids):
        return self.decoder.fc_out(self.run(self.decoder, ids, memory))


# ---- linear_q, linear_k, linear_v, linear_out ----

class Speech(nn.Module):
    """As ESPnet: before: norms before their sublayers and after the last layer; alpha: positions times a learned number."""

    def __init__(self, before=True, alpha=False):
        super().__init__()
        self.before = before
        for stack, count, layers in ("encoder", SOURCE, 2), ("decoder", TARGET, 3):
            attention = lambda: module(**{"linear_" + part: nn.Linear(D, D) for part in ("q", "k", "v", "out")})
            layer = lambda: module(
                self_attn=attention(), **({"src_attn": attention()} if stack == "decoder" else {}),
                feed_forward=module(w_1=nn.Linear(D, INNER), w_2=nn.Linear(INNER, D)),
                **{f"norm{n}": nn.LayerNorm(D, eps=1e-12) for n in range(1, 3 + (stack == "decoder"))})
            place = nn.Module()
            if alpha:
                place.alpha = nn.Parameter(torch.tensor(0.7))
            parts = {"embed": nn.Sequential(nn.Embedding(count, D), place),
                     stack + "s": nn.ModuleList(layer() for _ in range(layers))}
            if before:
                parts["after_norm"] = nn.LayerNorm(D, eps=1e-12)
            self.add_module(stack, module(**parts))
        self.decoder.output_layer = nn.Linear(D, TARGET)

    def run(self, stack, layers, ids, memory=None):
        alpha = getattr(stack.embed[1], "alpha", None)
        x = stack.embed[0](ids) * (D ** 0.5 if alpha is None else 1) + sines(len(ids)) * (1 if alpha is None else alpha)
        for layer in layers:
            mix = lambda a, q, m, causal=False: a.linear_out(attend(a.linear_q(q), a.linear_k(m), a.linear_v(m), causal=causal))
            steps = [lambda y: mix(layer.self_attn, y, y, memory is not None)]
            steps += [lambda y: mix(layer.src_attn, y, memory)] if memory is not None else []
            steps += [lambda y: layer.feed_forward.w_2(torch.relu(layer.feed_forward.w_1(y)))]
            for n, step in enumerate(steps, 1):
                norm = getattr(layer, f"norm{n}")
                x = x + step(norm(x)) if self.before else norm(x + step(x))
        return stack.after_norm(x) if self.before else x

    def encode(self, ids):
        return self.run(self.encoder, self.encoder.encoders, ids)

    def logits(self, memory, ids):
        return self.decoder.output_layer(self.run(self.decoder, self.decoder.decoders, ids, memory))
