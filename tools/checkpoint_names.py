"""The names that well-known encoder-decoder tutorials give to their tensors, for tools/import_checkpoint.py.

place() says what a tensor is in a folder of the family `transformer` (docs/model-format.md), by the words that its
name is made of; a style is an original that people copied, and says what its names do not.  What is no tensor of a
folder itself has a name of its own here:

    STACK.positions                  a table of positions, [n, d] with any dimensions of 1
    STACK.positions_after_padding    the same, and row 0 may stand for padding: position p uses row p + 1
    STACK.positions_alpha            a factor of the positions
    ATTENTION.in_proj.weight         q, k and v one below the other
    STACK.scale, ATTENTION.scale     a stored square root, to be checked
    mask                             a stored causal mask, to be checked
"""
import dataclasses
import re


def either(words):
    return "(?:" + "|".join(words.split()) + ")"


STACK = "(encoder|decoder)"
SIDES = {"src": "encoder", "source": "encoder", "encoder": "encoder",
         "tgt": "decoder", "trg": "decoder", "target": "decoder", "decoder": "decoder"}
SIDE = "(" + "|".join(SIDES) + ")"
LAYERS = either("layers layer_stack encoders decoders transformer transformer_layers encoder_layers decoder_layers blocks")
SELF = either("self_attn slf_attn self_attention self_attention_block enc_self_attn dec_self_attn attention attn")
CROSS = either("encoder_attn enc_attn encoder_attention src_attn context_attn multihead_attn cross_attn cross_attention"
               " cross_attention_block enc_dec_attention dec_enc_attn")
FFN = either("pos_ffn positionwise_feedforward feed_forward feedforward feed_forward_block ffn ff")
PROJECTIONS = {
    "in_proj": "in_proj",
    "scale": "scale",
    "q_proj": r"q_proj w_qs fc_q linear_q linear_query linear_queries w_q W_q W_Q q_linear query linears\.0",
    "k_proj": r"k_proj w_ks fc_k linear_k linear_keys? w_k W_k W_K k_linear key linears\.1",
    "v_proj": r"v_proj w_vs fc_v linear_v linear_values? w_v W_v W_V v_linear value linears\.2",
    "out_proj": r"out_proj fc fc_o linear_out linear_output final_linear linear_final w_o W_o W_O w_concat out linear linears\.3",
}
FFN_INNER = {"fc1": "w_1 fc_1 fc1 linear1 linear_1 w1 conv1", "fc2": "w_2 fc_2 fc2 linear2 linear_2 w2 conv2"}
NORMS = {"encoder": ["self_attn_layer_norm", "final_layer_norm"],
         "decoder": ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"]}

# Of whole names without their last part; \1 is the stack or the side.
TOKENS = [
    STACK + r"\.(?:(?:src|trg|tgt)_(?:word_)?emb|tok_embedding|(?:embed|input_layer)\.0|embed\.embed"
            r"|embeddings\.make_embedding\.emb_luts\.0|emb\.tok_emb|embedding|embed_tokens|token_embedding)",
    SIDE + r"_(?:tok_emb|embed|embedding|emb|word_emb)(?:\.(?:embedding|lut|0\.lut))?",
]
SHARED_TOKENS = r"(?:shared|embedding|word_emb|tok_emb|token_embedding)(?:\.embedding)?"
OUTPUT = (r"(?:decoder\.)?(?:trg_word_prj|tgt_word_prj|fc_out|output_layer|linear|fc|out|lm_head|projection"
          r"|projection_layer(?:\.proj)?|generator(?:\.proj|\.0)?)")
# Of whole names.
POSITIONS = [
    STACK + r"\.(?:position_enc\.pos_table|(?:embed|input_layer)\.1\.pe|embeddings\.make_embedding\.pe\.pe"
            r"|(?:pe|positional_encoding|pos_encoder)\.pe|(?:pos_embedding|pos_emb|embed_positions)\.weight)",
    SIDE + r"_(?:embed\.1|pos)\.pe",
]
SHARED_POSITIONS = (r"(?:positional_encoding|pos_encoder|pos_encoding|pos_embedding|position_embedding|pe)"
                    r"\.(?:pos_embedding|pe|weight)")
MASK = r"(?:.*\.)?(?:mask|tgt_mask|trg_mask|causal_mask|subsequent_mask)"
PARAMETERS = {"weight": "weight", "a_2": "weight", "alpha": "weight", "gamma": "weight",
              "bias": "bias", "b_2": "bias", "beta": "bias"}


@dataclasses.dataclass
class Style:
    """An original.  A fact is the value of a field of config.json, or a function of the Model (checkpoint_model.py)."""
    title: str
    marks: list               # all of these are in some name
    facts: dict
    stack_norm: str = ""      # what `encoder.layer_norm` is: "embedding" or "final"
    layer_norm: str = ""      # what `layers.N.layer_norm` is: "self" or "all", one norm after every sublayer
    bare_norms: bool = False  # a norm without a bias is a LayerNorm with bias=False and not something else


STYLES = [
    Style("attention-is-all-you-need-pytorch", [r"\.w_qs\."], stack_norm="embedding", facts={
        "norm_position": "post", "activation": "relu", "scale_embedding": False,
        "layer_norm_eps": lambda model: 1e-5 if model.padded_positions else 1e-6,
        "scale_output": lambda model: model.tied}),
    Style("pytorch-seq2seq, tutorial 6", [r"\.fc_q\."], layer_norm="all", facts={
        "norm_position": "post", "activation": "relu", "scale_embedding": True, "layer_norm_eps": 1e-5}),
    Style("ESPnet", [r"coders\.\d+\.self_attn\.linear_q\."], facts={
        "norm_position": lambda model: "pre" if model.final_norm else "post", "activation": "relu",
        "scale_embedding": lambda model: not model.alphas, "layer_norm_eps": 1e-12,
        "position_embedding": "sinusoidal", "max_position_embeddings": 5000}),
    Style("OpenNMT-py", [r"\.transformer\.\d+\.self_attn\.linear_keys\.", r"\.transformer_layers\.\d+\."],
          stack_norm="final", layer_norm="self", facts={
        "norm_position": "pre", "activation": "relu", "layer_norm_eps": 1e-6,
        "scale_embedding": lambda model: bool(model.tables)}),  # its position module is what scales
    Style("The Annotated Transformer", [r"\.self_attn\.linears\.0\.", r"\.sublayer\.0\.norm\."], facts={
        "norm_position": "pre", "activation": "relu", "scale_embedding": True, "layer_norm_eps": 1e-6}),
    Style("PyTorch's translation tutorial", [r"\.in_proj_weight", r"^src_tok_emb\.embedding\."], bare_norms=True, facts={
        "norm_position": "post", "activation": "relu", "scale_embedding": True, "layer_norm_eps": 1e-5,
        "position_embedding": "sinusoidal", "max_position_embeddings": 5000}),
    Style("torch.nn.Transformer", [r"\.in_proj_weight"], bare_norms=True, facts={"layer_norm_eps": 1e-5}),
]
UNKNOWN = Style("no known original", [], {})


def find_style(names):
    """The first style whose marks are all there."""
    for style in STYLES:
        if all(any(re.search(mark, name) for name in names) for mark in style.marks):
            return style
    return UNKNOWN


def strip_wrappers(names):
    """{name: name without what wraps the whole model}: DataParallel, torch.compile, a module that holds it."""
    bare = {name: name for name in names}
    for prefix in ("module.", "_orig_mod.", "model.") * 2:
        if all(name.startswith(prefix) for name in bare.values()):
            bare = {name: short[len(prefix):] for name, short in bare.items()}
    inner = re.compile(r"^(?:(?:\w*transformer|model|net|seq2seq)\.(?=(?:encoder|decoder)\.)|transformer_(?=(?:encoder|decoder)\.))")
    return {name: inner.sub("", short) for name, short in bare.items()}


def place(name, style):
    """The names that the tensor gets; none when it is not known."""
    return place_positions(name) or place_weight(name, style)


def place_positions(name):
    if match := re.fullmatch(STACK + r"\.position_enc\.weight", name):
        return [match[1] + ".positions_after_padding"]
    if match := re.fullmatch(STACK + r"\.(?:embed|input_layer)\.1\.alpha", name):
        return [match[1] + ".positions_alpha"]
    if match := re.fullmatch(STACK + r"\.scale", name):
        return [match[1] + ".scale"]
    for pattern in POSITIONS:
        if match := re.fullmatch(pattern, name):
            return [SIDES[match[1]] + ".positions"]
    if re.fullmatch(SHARED_POSITIONS, name):
        return ["encoder.positions", "decoder.positions"]
    return ["mask"] if re.fullmatch(MASK, name) else []


def place_weight(name, style):
    if name.endswith(".scale"):
        path, parameter = name, ""
    elif match := re.fullmatch(r"(.+?)(?:\.|(?<=in_proj)_)" + f"({'|'.join(PARAMETERS)})", name):
        path, parameter = match[1], "." + PARAMETERS[match[2]]
    else:
        return []
    if match := re.fullmatch(rf"(?:{STACK}\.{LAYERS}|(encoder|decoder)_layers)\.(\d+)\.(.+)", path):
        stack = match[1] or match[2]
        places = [f"{stack}.layers.{match[3]}.{inner}" for inner in place_in_layer(stack, match[4], style)]
    else:
        places = place_around(path, style)
    return [place + parameter for place in places]


def place_in_layer(stack, path, style):
    for attention, ours in (SELF, "self_attn"), (CROSS, "encoder_attn"):
        for projection, words in PROJECTIONS.items():
            if re.fullmatch(rf"{attention}\.{either(words)}", path):
                return [f"{ours}.{projection}"]
        if re.fullmatch(rf"{attention}[._]layer_norm", path):
            return [ours + "_layer_norm"]
    for ours, words in FFN_INNER.items():
        if re.fullmatch(rf"(?:{FFN}\.)?{either(words)}", path):
            return [ours]
    if re.fullmatch(rf"{FFN}[._]layer_norm", path):
        return ["final_layer_norm"]
    if path == "layer_norm" and style.layer_norm:
        return NORMS[stack] if style.layer_norm == "all" else NORMS[stack][:1]
    number = None
    if match := re.fullmatch(r"(?:sublayer|residual_connections)\.(\d)\.norm", path):
        number = int(match[1])
    elif match := re.fullmatch(r"(?:layer_?)?norm_?(\d)", path):
        number = int(match[1]) - 1
    return [NORMS[stack][number]] if number is not None and 0 <= number < len(NORMS[stack]) else []


def place_around(path, style):
    for pattern in TOKENS:
        if match := re.fullmatch(pattern, path):
            return [SIDES[match[1]] + ".embed_tokens"]
    if re.fullmatch(SHARED_TOKENS, path):
        return ["encoder.embed_tokens", "decoder.embed_tokens"]
    if re.fullmatch(OUTPUT, path):
        return ["lm_head"]
    if match := re.fullmatch(STACK + r"\.(?:after_norm|output_norm|norm)", path):
        return [match[1] + ".layer_norm"]
    if (match := re.fullmatch(STACK + r"\.layer_norm", path)) and style.stack_norm:
        return [match[1] + (".layernorm_embedding" if style.stack_norm == "embedding" else ".layer_norm")]
    return []
