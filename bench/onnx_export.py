"""A model of bench/models.py as ONNX graphs, the way Optimum cuts them:

encoder  ids, mask (B, S) -> states (B, S, D)
cross    states -> keys and values of every decoder layer (B, H, S, K)
decoder  token (B, 1), mask, past keys and values (B, H, T, K), cross -> logits (B, V), new past

onnx/ holds float32, onnx-int8 what ONNX Runtime's dynamic quantisation makes of it: weights per
output column, activations at run time.
"""

import json
import os
import warnings

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.torch import load_file
from torch.nn import functional

POSITIONS = 512

BART = {
    "encoder": "model.encoder.layers.{}.",
    "decoder": "model.decoder.layers.{}.",
    "self": "self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.out_proj "
            "self_attn_layer_norm",
    "cross": "encoder_attn.q_proj encoder_attn.k_proj encoder_attn.v_proj encoder_attn.out_proj "
             "encoder_attn_layer_norm",
    "encoder inner": "fc1 fc2 final_layer_norm",
    "decoder inner": "fc1 fc2 final_layer_norm",
    "embeddings": "model.shared",
}
BERT = {
    "encoder": "encoder.layer.{}.",
    "self": "attention.self.query attention.self.key attention.self.value "
            "attention.output.dense attention.output.LayerNorm",
    "encoder inner": "intermediate.dense output.dense output.LayerNorm",
    "embeddings": "embeddings.word_embeddings",
}
T5 = {
    "encoder": "encoder.block.{}.",
    "decoder": "decoder.block.{}.",
    "self": "layer.0.SelfAttention.q layer.0.SelfAttention.k layer.0.SelfAttention.v "
            "layer.0.SelfAttention.o layer.0.layer_norm",
    "cross": "layer.1.EncDecAttention.q layer.1.EncDecAttention.k layer.1.EncDecAttention.v "
             "layer.1.EncDecAttention.o layer.1.layer_norm",
    "encoder inner": "layer.1.DenseReluDense.wi layer.1.DenseReluDense.wo layer.1.layer_norm",
    "decoder inner": "layer.2.DenseReluDense.wi layer.2.DenseReluDense.wo layer.2.layer_norm",
    "embeddings": "shared",
}
FAMILIES = {"marian": BART, "bert": BERT, "t5": T5}
ACTIVATIONS = {"marian": functional.silu, "bert": functional.gelu, "t5": functional.relu}


class Graph(torch.nn.Module):
    """The layers that both halves have.  A sublayer is f in x + f(x), with a norm behind the sum,
    or in front of f for T5."""

    def __init__(self, config, weights):
        super().__init__()
        self.family, self.parts = config["model_type"], FAMILIES[config["model_type"]]
        self.width = config.get("d_model", config.get("hidden_size"))
        self.heads = config.get("encoder_attention_heads", config.get("num_heads"))
        self.heads = self.heads or config["num_attention_heads"]
        layers = (config.get(k) for k in ("encoder_layers", "num_layers", "num_hidden_layers"))
        self.layers = next(filter(None, layers))
        self.scale = 1.0 if self.family == "t5" else (self.width // self.heads) ** -0.5
        self.names = {name: name.replace(".", "_") for name in weights}
        for name, weight in weights.items():
            self.register_buffer(self.names[name], weight)
        self.epsilon = config.get("layer_norm_eps", config.get("layer_norm_epsilon", 1e-5))
        if self.family == "marian":
            self.register_buffer("positions", sinusoids(self.width))

    def get(self, name):
        return getattr(self, self.names[name]) if name in self.names else None

    def linear(self, name, x):
        return functional.linear(x, self.get(name + ".weight"), self.get(name + ".bias"))

    def norm(self, name, x):
        weight = self.get(name + ".weight")
        if self.family == "t5":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight
        return functional.layer_norm(x, (self.width,), weight, self.get(name + ".bias"),
                                     self.epsilon)

    def sublayer(self, norm, x, f):
        return x + f(self.norm(norm, x)) if self.family == "t5" else self.norm(norm, x + f(x))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attend(self, name, x, key, value, bias):
        scores = (self.split(self.linear(name, x)) * self.scale) @ key.transpose(-1, -2)
        scores = scores if bias is None else scores + bias
        return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)

    def inner(self, half, layer, x):
        first, second, norm = (layer + n for n in self.parts[f"{half} inner"].split())
        activation = ACTIVATIONS[self.family]
        return self.sublayer(
            norm, x, lambda y: self.linear(second, activation(self.linear(first, y))))

    def names_of(self, half, part, i):
        layer = self.parts[half].format(i)
        return [layer + name for name in self.parts[part].split()]

    def embed(self, ids, begin):
        """`begin`: the place of the first id."""
        x = functional.embedding(ids, self.get(self.parts["embeddings"] + ".weight"))
        end = begin + ids.shape[1]
        if self.family == "marian":
            return x * self.width ** 0.5 + self.positions[begin:end]
        if self.family == "bert":
            x = x + self.get("embeddings.token_type_embeddings.weight")[0]
            x = x + self.get("embeddings.position_embeddings.weight")[begin:end]
            return self.norm("embeddings.LayerNorm", x)
        return x


class Encoder(Graph):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        if self.family == "t5":
            self.register_buffer("distances", distances(config, weights, "encoder"))

    def forward(self, ids, mask):
        x, bias = self.embed(ids, 0), (1.0 - mask[:, None, None, :].float()) * -1e9
        if self.family == "t5":
            place = torch.arange(ids.shape[1])
            bias = bias + self.distances[:, place[None] - place[:, None] + POSITIONS]
        for i in range(self.layers):
            query, key, value, out, norm = self.names_of("encoder", "self", i)
            x = self.sublayer(norm, x, lambda y: self.linear(out, self.attend(
                query, y, self.split(self.linear(key, y)), self.split(self.linear(value, y)),
                bias)))
            x = self.inner("encoder", self.parts["encoder"].format(i), x)
        return self.norm("encoder.final_layer_norm", x) if self.family == "t5" else x


class Cross(Graph):
    def forward(self, states):
        return tuple(
            self.split(self.linear(name, states))
            for i in range(self.layers) for name in self.names_of("decoder", "cross", i)[1:3])


class Decoder(Graph):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        if self.family == "t5":
            self.register_buffer("distances", distances(config, weights, "decoder"))

    def forward(self, token, mask, *kept):
        past, cross = kept[: 2 * self.layers], kept[2 * self.layers :]
        length = past[0].shape[2]
        x, bias, new = self.embed(token, length), None, []
        hidden = (1.0 - mask[:, None, None, :].float()) * -1e9
        if self.family == "t5":
            bias = self.distances[:, torch.arange(length + 1) - length + POSITIONS][None, :, None]
        for i in range(self.layers):
            query, key, value, out, norm = self.names_of("decoder", "self", i)

            def attend_self(y, i=i, query=query, key=key, value=value, out=out):
                keys = torch.cat([past[2 * i], self.split(self.linear(key, y))], 2)
                values = torch.cat([past[2 * i + 1], self.split(self.linear(value, y))], 2)
                new.extend((keys, values))
                return self.linear(out, self.attend(query, y, keys, values, bias))

            x = self.sublayer(norm, x, attend_self)
            query, _, _, out, norm = self.names_of("decoder", "cross", i)
            x = self.sublayer(norm, x, lambda y: self.linear(out, self.attend(
                query, y, cross[2 * i], cross[2 * i + 1], hidden)))
            x = self.inner("decoder", self.parts["decoder"].format(i), x)
        if self.family == "t5":
            x = self.norm("decoder.final_layer_norm", x) * self.width ** -0.5
        logits = functional.linear(x, self.get(self.parts["embeddings"] + ".weight"))
        offset = self.get("final_logits_bias")
        return ((logits if offset is None else logits + offset)[:, 0], *new)


def sinusoids(width):
    """Marian's: the sines in the first half of a row, the cosines in the second."""
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(POSITIONS, dtype=torch.float64)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], 1).float()


def distances(config, weights, half):
    """T5's bias of a head for each distance from key to query, (H, 2 * POSITIONS)."""
    name = f"{half}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    from transformers.models.t5.modeling_t5 import T5Attention

    bucket = T5Attention._relative_position_bucket(
        torch.arange(-POSITIONS, POSITIONS), bidirectional=half == "encoder",
        num_buckets=config["relative_attention_num_buckets"],
        max_distance=config["relative_attention_max_distance"])
    return weights[name][bucket].T.contiguous()


def save(module, inputs, path, names, axes):
    """`names`: of the inputs and of the outputs; `axes`: which of a name's axes vary."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), inputs, path, input_names=names[0], output_names=names[1],
            dynamic_axes=axes, opset_version=17, dynamo=False)


def export_float32(config, weights, folder):
    encoder = Encoder(config, weights)
    ids, mask = torch.randint(10, 90, (2, 7)), torch.ones(2, 7, dtype=torch.long)
    rows = {0: "B", 1: "S"}
    save(encoder, (ids, mask), f"{folder}/encoder.onnx", (["ids", "mask"], ["states"]),
         {"ids": rows, "mask": rows, "states": rows})
    if not config.get("is_encoder_decoder"):
        return
    with torch.no_grad():
        states = encoder(ids, mask)
        cross = Cross(config, weights)
        kept = cross(states)
    past = tuple(value[:, :, :3] for value in kept)
    old, new, fixed = ([f"{word}{i}" for i in range(len(kept))]
                       for word in ("past", "new", "cross"))
    axes = {name: {0: "B", 2: "S"} for name in fixed}
    save(cross, (states,), f"{folder}/cross.onnx", (["states"], fixed), axes | {"states": rows})
    axes |= {name: {0: "B", 2: "T"} for name in old} | {name: {0: "B", 2: "U"} for name in new}
    axes |= {"token": {0: "B"}, "mask": rows, "logits": {0: "B"}}
    save(Decoder(config, weights), (ids[:, :1], mask, *past, *kept), f"{folder}/decoder.onnx",
         (["token", "mask", *old, *fixed], ["logits", *new]), axes)


def export(folder):
    """Writes onnx/ and onnx-int8/ beside hf/, unless they are there."""
    with open(f"{folder}/hf/config.json", encoding="utf-8") as file:
        config = json.load(file)
    if config["model_type"] not in FAMILIES:
        print(f"{folder}: no ONNX graphs for {config['model_type']}")
        return
    plain, quantised = f"{folder}/onnx", f"{folder}/onnx-int8"
    graphs = ["encoder", "cross", "decoder"] if config.get("is_encoder_decoder") else ["encoder"]
    for made, make in (
        (plain, lambda: export_float32(config, load_file(f"{folder}/hf/model.safetensors"), plain)),
        (quantised, lambda: [quantise(plain, quantised, graph) for graph in graphs]),
    ):
        if not all(os.path.exists(f"{made}/{graph}.onnx") for graph in graphs):
            os.makedirs(made, exist_ok=True)
            make()
            print(made, flush=True)


def quantise(plain, quantised, graph):
    quantize_dynamic(f"{plain}/{graph}.onnx", f"{quantised}/{graph}.onnx",
                     weight_type=QuantType.QInt8, per_channel=True,
                     op_types_to_quantize=["MatMul"])
