"""A tutorial's tensors as those of a folder of the family `transformer`, for tools/import_checkpoint.py."""
import dataclasses
import re

import torch

from checkpoint_names import NORMS, find_style, place, strip_wrappers

STACKS = "encoder", "decoder"
TABLE_TOLERANCE = 1e-5  # of a stored table of sines to the formula's


class ImportFailed(Exception):
    """What is wrong and what may help, for the user."""


def sinusoids(rows, width):
    angles = torch.arange(rows, dtype=torch.float64)[:, None] / 10000 ** (
        torch.arange(0, width, 2, dtype=torch.float64) / width)
    table = torch.zeros(rows, width, dtype=torch.float64)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, :width // 2]
    return table


class Model:
    """tensors: by the names of the folder; config: the fields that tensors tell; notes: what was changed on the way;
    tables, alphas: of positions, by stack; roots: stored square roots, by place."""

    def __init__(self, state, stack_norm=None):
        bare = strip_wrappers(state)
        self.style = find_style(bare.values())
        if stack_norm:
            self.style = dataclasses.replace(self.style, stack_norm=stack_norm)
        self.tensors, self.config, self.notes = {}, {}, []
        self.tables, self.alphas, self.roots = {}, {}, {}
        self.padded_positions = False
        self.unbiased_norms = any(name.endswith(".a_2") for name in state)
        self.odd_norms = any(re.search(r"norm.*\.(alpha|gamma)$", name) for name in state)
        unknown = [name for name in state if not self.put(name, bare[name], state[name])]
        if unknown:
            raise ImportFailed("no place is known for these tensors (--stack-norm, --rename and --ignore may help):\n" + "\n".join(
                f"  {name} {list(state[name].shape)}" for name in unknown))
        if not stack_norm and "encoder.layernorm_embedding.weight" in self.tensors:
            self.notes.append(f"encoder.layer_norm is before the first layer, as in the last versions of {self.style.title}; "
                              "an earlier one had it after the last layer (--stack-norm final)")
        self.check_complete()
        self.fill_biases()
        self.widen_feed_forward()
        self.share()

    # ---- tensors to their places ----

    def put(self, name, bare, tensor):
        places = place(bare, self.style)
        for target in places:
            stack, _, kind = target.partition(".")
            if target == "mask":
                self.check_mask(name, tensor)
            elif kind == "positions":
                self.tables[stack] = self.table(name, tensor)
            elif kind == "positions_after_padding":
                self.put_padded_positions(stack, name, tensor)
            elif kind == "positions_alpha":
                self.alphas[stack] = tensor.item()
            elif target.endswith(".scale"):
                self.roots[target] = tensor.item() if tensor.numel() == 1 else float("nan")
            elif ".in_proj." in target:
                for part, rows in zip("qkv", tensor.chunk(3)):
                    self.add(target.replace("in_proj", part + "_proj"), name, rows)
            else:
                self.add(target, name, tensor)
        return bool(places)

    def add(self, target, name, tensor):
        if target in self.tensors:
            raise ImportFailed(f"{name} and another tensor are both {target}")
        if not tensor.is_floating_point():
            raise ImportFailed(f"{name} is of {tensor.dtype}, not of floating point")
        if tensor.dim() == 3 and tensor.shape[2] == 1:
            tensor = tensor[:, :, 0]  # a convolution over one position is a matrix
        self.tensors[target] = tensor.float() if tensor.dtype == torch.float64 else tensor

    def table(self, name, tensor):
        shape = [size for size in tensor.shape if size != 1]
        if len(shape) != 2:
            raise ImportFailed(f"{name} is {list(tensor.shape)}, not a table of positions")
        return tensor.reshape(shape).float()

    def put_padded_positions(self, stack, name, tensor):
        table = self.table(name, tensor)
        if not table[0].any():
            self.padded_positions = True
            self.notes.append(f"{name}: row 0 is for padding and left out; the first token has row 1")
            table = table[1:]
        self.tables[stack] = table

    def check_mask(self, name, tensor):
        mask = tensor.reshape(tensor.shape[-2:]) if tensor.dim() >= 2 else tensor
        allowed = mask == (0 if mask.is_floating_point() else 1)
        if mask.dim() != 2 or not any(torch.equal(m, torch.ones_like(m).tril()) for m in (allowed, ~allowed)):
            raise ImportFailed(f"{name} is not the mask that hides later positions")

    # ---- what must be there ----

    def layers(self, stack):
        found = {int(m[1]) for name in self.tensors if (m := re.match(stack + r"\.layers\.(\d+)\.", name))}
        if found != set(range(len(found))) or not found:
            raise ImportFailed(f"the layers of the {stack} are {sorted(found)}; they must be 0, 1, …")
        return len(found)

    def check_complete(self):
        for stack in STACKS:
            self.config[stack + "_layers"] = self.layers(stack)
        needed = [stack + ".embed_tokens.weight" for stack in STACKS]
        for stack in STACKS:
            attentions = ["self_attn"] + (["encoder_attn"] if stack == "decoder" else [])
            for n in range(self.config[stack + "_layers"]):
                parts = [f"{a}.{p}" for a in attentions for p in ("q_proj", "k_proj", "v_proj", "out_proj")]
                needed += [f"{stack}.layers.{n}.{part}.weight" for part in parts + ["fc1", "fc2"] + NORMS[stack]]
        if missing := [name for name in needed if name not in self.tensors]:
            raise ImportFailed(f"of {self.style.title}'s names, nothing gives\n  " + "\n  ".join(missing))
        for field, part in ("final_layer_norm", "layer_norm"), ("embedding_layer_norm", "layernorm_embedding"):
            has = [f"{stack}.{part}.weight" in self.tensors for stack in STACKS]
            if any(has) != all(has):
                raise ImportFailed(f"only one of encoder and decoder has a {field.replace('_', ' ')}")
            self.config[field] = all(has)
        has = [stack in self.tables or stack in self.alphas for stack in STACKS]
        if any(has) != all(has):
            raise ImportFailed("only one of encoder and decoder has a table of positions")

    # ---- what a folder wants otherwise than tutorials have it ----

    def group(self, pattern):
        """Whether anything that the pattern matches has a bias; who has none gets zeros then."""
        weights = [name for name in self.tensors if re.fullmatch(pattern + r"\.weight", name)]
        biases = [name[:-len("weight")] + "bias" for name in weights]
        missing = [bias for bias in biases if bias not in self.tensors]
        if len(missing) == len(biases):
            return False
        for bias in missing:
            weight = self.tensors[bias[:-len("bias")] + "weight"]
            self.tensors[bias] = torch.zeros(weight.shape[0], dtype=weight.dtype)
        if missing:
            self.notes.append(f"{missing[0]} and {len(missing) - 1} more: zeros, as others of its kind have a bias")
        return True

    def fill_biases(self):
        width = self.tensors["decoder.embed_tokens.weight"].shape[-1]
        self.config["d_model"] = width
        self.config["attention_bias"] = self.group(r".*_attn\.(?:q|k|v|out)_proj")
        self.config["ffn_bias"] = self.group(r".*\.fc[12]")
        for name in [name for name in self.tensors if re.fullmatch(r".*(norm|norm_embedding)\.(weight|bias)", name)]:
            if self.tensors[name].numel() == 1:  # one number for the whole vector
                self.tensors[name] = self.tensors[name].reshape(1).repeat(width)
            bias = name[:-len("weight")] + "bias"
            if name.endswith("weight") and bias not in self.tensors:
                if not self.style.bare_norms:
                    raise ImportFailed(f"nothing gives {bias}; a norm without it may be another one than LayerNorm")
                self.tensors[bias] = torch.zeros_like(self.tensors[name])

    def widen_feed_forward(self):
        """Zeros, which add nothing, make all layers as wide as the widest."""
        weights = {name: tensor for name, tensor in self.tensors.items() if name.endswith(".fc1.weight")}
        width = self.config["d_ff"] = max(weight.shape[0] for weight in weights.values())
        for name, weight in weights.items():
            add = width - weight.shape[0]
            if add:
                layer = name[:-len("fc1.weight")]
                self.notes.append(f"{layer}fc1, fc2: {weight.shape[0]} wide, filled up with zeros to {width}")
                for part, padding in ("fc1.weight", (0, 0, 0, add)), ("fc1.bias", (0, add)), ("fc2.weight", (0, add)):
                    if layer + part in self.tensors:
                        self.tensors[layer + part] = torch.nn.functional.pad(self.tensors[layer + part], padding)

    def share(self):
        source, target = (self.tensors[stack + ".embed_tokens.weight"] for stack in STACKS)
        output, bias = self.tensors.get("lm_head.weight"), self.tensors.get("lm_head.bias")
        equal = output is not None and torch.equal(output, target)
        self.config["src_vocab_size"], self.config["tgt_vocab_size"] = source.shape[0], target.shape[0]
        self.config["share_embeddings"] = torch.equal(source, target)
        self.config["output_bias"] = bias is not None
        self.config["tie_output"] = equal and bias is None
        self.has_output = output is not None
        self.tied = equal or not self.has_output
        self.final_norm = self.config["final_layer_norm"]
        if self.config["tie_output"]:
            del self.tensors["lm_head.weight"]
        if self.config["share_embeddings"]:
            self.tensors["shared.weight"] = target
            for stack in STACKS:
                del self.tensors[stack + ".embed_tokens.weight"]

    # ---- what needs facts of the user or of the original ----

    def place_positions(self, rows):
        """The kind of positions and how many; `rows` of them when that is not None.  There is a table, or a factor."""
        width = self.config["d_model"]
        for stack, alpha in self.alphas.items():
            self.tables[stack] = alpha * self.tables.get(stack, sinusoids(rows or 5000, width).float())
            self.notes.append(f"the positions of the {stack} are stored times {alpha:g}")
        if any(table.shape[1] != width for table in self.tables.values()):
            raise ImportFailed(f"the tables of positions are not {width} wide")
        lengths = {stack: len(table) for stack, table in self.tables.items()}
        away = max((table - sinusoids(len(table), width)).abs().max().item() for table in self.tables.values())
        if away <= TABLE_TOLERANCE:
            self.notes.append(f"the stored sines are the formula's (to {away:.0e}) and left out")
            return "sinusoidal", rows or min(lengths.values())
        wanted = rows or min(lengths.values())
        if wanted > min(lengths.values()):
            raise ImportFailed(f"--max-positions {wanted}: the stored tables have {lengths}")
        if max(lengths.values()) > wanted:
            self.notes.append(f"the tables of positions have {lengths} rows; {wanted} are kept of each")
        if away < 0.01:
            self.notes.append(f"the stored sines are off the formula's by up to {away:.0e} and kept as they are")
        for stack, table in self.tables.items():
            self.tensors[stack + ".embed_positions.weight"] = table[:wanted]
        return "learned", wanted

    def check_shapes(self, config):
        """Everything against config.json's sizes; d_k and d_v are found here."""
        heads, width, inner = config["attention_heads"], config["d_model"], config["d_ff"]
        sizes = {}
        for field, part in ("d_k", "q_proj"), ("d_v", "v_proj"):
            rows = self.tensors[f"encoder.layers.0.self_attn.{part}.weight"].shape[0]
            if rows % heads:
                raise ImportFailed(f"--heads {heads}: the {rows} rows of {part} cannot be divided among them")
            sizes[field] = rows // heads
        keys, values = sizes["d_k"] * heads, sizes["d_v"] * heads
        rules = [(r".*\.embed_tokens|shared|lm_head", (None, width)), (r".*_attn\.[qk]_proj", (keys, width)),
                 (r".*_attn\.v_proj", (values, width)), (r".*_attn\.out_proj", (width, values)),
                 (r".*\.fc1", (inner, width)), (r".*\.fc2", (width, inner)), (r".*norm.*", (width,))]
        for name, tensor in self.tensors.items():
            path, _, parameter = name.rpartition(".")
            for pattern, shape in rules:
                if re.fullmatch(pattern, path):
                    wanted = list(shape if parameter == "weight" else shape[:1])
                    if len(tensor.shape) != len(wanted) or any(w and w != s for w, s in zip(wanted, tensor.shape)):
                        raise ImportFailed(f"{name} is {list(tensor.shape)}; it should be {wanted}")
        output = self.tensors.get("lm_head.weight")
        if output is not None and len(output) != config["tgt_vocab_size"]:
            raise ImportFailed(f"the output has {len(output)} tokens, the target's table {config['tgt_vocab_size']}")
        for name, root in self.roots.items():
            square = width if name.count(".") == 1 else sizes["d_k"]
            if abs(root ** 2 - square) > 1e-3 * square:
                raise ImportFailed(f"{name} is {root:g}; with {heads} heads it should be √{square}")
        return sizes
