"""More of what tutorials.py has."""
import torch
from torch import nn

from tutorials import BOS, D, EOS, HEADS, INNER, PAD, POSITIONS, SOURCE, TARGET, Position, attend, module, sines  # noqa: F401


# ---- linear_query, linear_keys, linear_values, final_linear ----

class Keys(nn.Module):
    """As OpenNMT-py; bias: of the projections, which later versions do not have."""

    def __init__(self, bias=True, activation="relu"):
        super().__init__()
        self.activation = getattr(nn.functional, activation)
        attention = lambda: module(**{name: nn.Linear(D, D, bias=bias) for name in
                                      ("linear_keys", "linear_values", "linear_query", "final_linear")})
        norm = lambda: nn.LayerNorm(D, eps=1e-6)
        forward = lambda: module(w_1=nn.Linear(D, INNER), w_2=nn.Linear(INNER, D), layer_norm=norm())
        embeddings = lambda count: module(make_embedding=module(
            emb_luts=nn.ModuleList([nn.Embedding(count, D)]), pe=Position("pe", sines(POSITIONS)[:, None])))
        self.encoder = module(embeddings=embeddings(SOURCE), layer_norm=norm(), transformer=nn.ModuleList(
            module(self_attn=attention(), feed_forward=forward(), layer_norm=norm()) for _ in range(2)))
        self.decoder = module(embeddings=embeddings(TARGET), layer_norm=norm(), transformer_layers=nn.ModuleList(
            module(self_attn=attention(), context_attn=attention(), feed_forward=forward(), layer_norm_1=norm(),
                   layer_norm_2=norm()) for _ in range(3)))
        for layer in self.decoder.transformer_layers:
            layer.register_buffer("mask", torch.ones(1, 50, 50).triu(1).byte())
        self.generator = nn.Sequential(nn.Linear(D, TARGET), nn.LogSoftmax(-1))

    def begin(self, stack, ids):
        parts = stack.embeddings.make_embedding
        return parts.emb_luts[0](ids) * D ** 0.5 + parts.pe.pe[:len(ids), 0]

    def mix(self, a, q, m, causal=False):
        return a.final_linear(attend(a.linear_query(q), a.linear_keys(m), a.linear_values(m), causal=causal))

    def feed(self, f, x):
        return x + f.w_2(self.activation(f.w_1(f.layer_norm(x))))

    def encode(self, ids):
        x = self.begin(self.encoder, ids)
        for layer in self.encoder.transformer:
            y = layer.layer_norm(x)
            x = self.feed(layer.feed_forward, x + self.mix(layer.self_attn, y, y))
        return self.encoder.layer_norm(x)

    def logits(self, memory, ids):
        x = self.begin(self.decoder, ids)
        for layer in self.decoder.transformer_layers:
            y = layer.layer_norm_1(x)
            x = x + self.mix(layer.self_attn, y, y, True)
            x = self.feed(layer.feed_forward, x + self.mix(layer.context_attn, layer.layer_norm_2(x), memory))
        return self.generator[0](self.decoder.layer_norm(x))


# ---- linears.0 to linears.3, a_2 and b_2 ----

class StdNorm(nn.Module):
    """Over the standard deviation, of which the mean has one degree of freedom; names: of weight and bias."""

    def __init__(self, names=("a_2", "b_2"), size=D):
        super().__init__()
        self.names = names
        setattr(self, names[0], nn.Parameter(torch.ones(size)))
        setattr(self, names[1], nn.Parameter(torch.zeros(size)))

    def forward(self, x):
        weight, bias = (getattr(self, name) for name in self.names)
        return weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + bias


class Annotated(nn.Module):
    """As The Annotated Transformer.  query: with linear_query, _key, _value and _out, as variants of it; halves: with a
    table of positions that is not the paper's."""

    def __init__(self, query=False, halves=False):
        super().__init__()
        self.query = query
        attention = lambda: (module(**{"linear_" + part: nn.Linear(D, D) for part in ("query", "key", "value", "out")})
                             if query else module(linears=nn.ModuleList(nn.Linear(D, D) for _ in range(4))))
        forward = lambda: module(w_1=nn.Linear(D, INNER), w_2=nn.Linear(INNER, D))
        sublayers = lambda count: nn.ModuleList(module(norm=StdNorm()) for _ in range(count))
        self.encoder = module(norm=StdNorm(), layers=nn.ModuleList(
            module(self_attn=attention(), feed_forward=forward(), sublayer=sublayers(2)) for _ in range(2)))
        self.decoder = module(norm=StdNorm(), layers=nn.ModuleList(
            module(self_attn=attention(), src_attn=attention(), feed_forward=forward(), sublayer=sublayers(3)) for _ in range(3)))
        place = lambda: Position("pe", sines(POSITIONS, halves=halves)[None])
        self.src_embed = nn.Sequential(module(lut=nn.Embedding(SOURCE, D)), place())
        self.tgt_embed = nn.Sequential(module(lut=nn.Embedding(TARGET, D)), place())
        self.generator = module(proj=nn.Linear(D, TARGET))

    def mix(self, a, q, m, causal=False):
        if self.query:
            return a.linear_out(attend(a.linear_query(q), a.linear_key(m), a.linear_value(m), causal=causal))
        return a.linears[3](attend(a.linears[0](q), a.linears[1](m), a.linears[2](m), causal=causal))

    def run(self, stack, embed, ids, memory=None):
        x = embed[0].lut(ids) * D ** 0.5 + embed[1].pe[0, :len(ids)]
        for layer in stack.layers:
            y = layer.sublayer[0].norm(x)
            x = x + self.mix(layer.self_attn, y, y, memory is not None)
            if memory is not None:
                x = x + self.mix(layer.src_attn, layer.sublayer[1].norm(x), memory)
            y = layer.sublayer[-1].norm(x)
            x = x + layer.feed_forward.w_2(torch.relu(layer.feed_forward.w_1(y)))
        return stack.norm(x)

    def encode(self, ids):
        return self.run(self.encoder, self.src_embed, ids)

    def logits(self, memory, ids):
        return self.generator.proj(self.run(self.decoder, self.tgt_embed, ids, memory))


# ---- torch.nn.Transformer ----

class Torch(nn.Module):
    """official: with the surroundings of PyTorch's translation tutorial; otherwise others, and other options."""

    def __init__(self, official=True, **options):
        super().__init__()
        self.official = official
        self.transformer = nn.Transformer(D, HEADS, 2, 3, INNER, dropout=0.0, **options)
        if official:
            self.src_tok_emb = module(embedding=nn.Embedding(SOURCE, D))
            self.tgt_tok_emb = module(embedding=nn.Embedding(TARGET, D))
            self.positional_encoding = Position("pos_embedding", sines(POSITIONS)[:, None])
            self.generator = nn.Linear(D, TARGET)
        else:
            self.src_embedding, self.tgt_embedding = nn.Embedding(SOURCE, D), nn.Embedding(TARGET, D)
            self.fc_out = nn.Linear(D, TARGET)

    def begin(self, table, ids):
        if self.official:
            return (table.embedding(ids) * D ** 0.5)[:, None] + self.positional_encoding.pos_embedding[:len(ids)]
        return (table(ids) + sines(len(ids)))[:, None]

    def encode(self, ids):
        x = self.begin(self.src_tok_emb if self.official else self.src_embedding, ids)
        return self.transformer.encoder(x)[:, 0]

    def logits(self, memory, ids):
        x = self.begin(self.tgt_tok_emb if self.official else self.tgt_embedding, ids)
        mask = torch.ones(len(ids), len(ids)).triu(1).bool()
        x = self.transformer.decoder(x, memory[:, None], tgt_mask=mask)[:, 0]
        return (self.generator if self.official else self.fc_out)(x)


# ---- names of nobody in particular ----

class Scratch(nn.Module):
    """w_q to w_o, norms of one number each (alpha, bias), one table of tokens, no positions, gelu, no output matrix."""

    def __init__(self):
        super().__init__()
        attention = lambda: module(**{name: nn.Linear(D, D, bias=name == "w_o") for name in ("w_q", "w_k", "w_v", "w_o")})
        forward = lambda: module(linear_1=nn.Linear(D, INNER), linear_2=nn.Linear(INNER, D))
        norm = lambda: StdNorm(("alpha", "bias"), 1)
        residual = lambda count: nn.ModuleList(module(norm=norm()) for _ in range(count))
        self.encoder = module(norm=norm(), layers=nn.ModuleList(module(
            self_attention_block=attention(), feed_forward_block=forward(), residual_connections=residual(2)) for _ in range(2)))
        self.decoder = module(norm=norm(), layers=nn.ModuleList(module(
            self_attention_block=attention(), cross_attention_block=attention(), feed_forward_block=forward(),
            residual_connections=residual(3)) for _ in range(3)))
        self.embedding = nn.Embedding(TARGET, D)

    def run(self, stack, ids, memory=None):
        mix = lambda a, q, m, causal=False: a.w_o(attend(a.w_q(q), a.w_k(m), a.w_v(m), causal=causal))
        x = self.embedding(ids)
        for layer in stack.layers:
            y = layer.residual_connections[0].norm(x)
            x = x + mix(layer.self_attention_block, y, y, memory is not None)
            if memory is not None:
                x = x + mix(layer.cross_attention_block, layer.residual_connections[1].norm(x), memory)
            f = layer.feed_forward_block
            x = x + f.linear_2(nn.functional.gelu(f.linear_1(layer.residual_connections[-1].norm(x))))
        return stack.norm(x)

    def encode(self, ids):
        return self.run(self.encoder, ids)

    def logits(self, memory, ids):
        return self.run(self.decoder, ids, memory) @ self.embedding.weight.T
