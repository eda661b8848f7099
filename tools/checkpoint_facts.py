"""What a checkpoint's tensors do not tell, and who does, for tools/import_checkpoint.py."""
from checkpoint_model import ImportFailed

# field of config.json: its option, and why that is asked
ASKED = {
    "attention_heads": ("--heads", "tensors look the same with any number of heads"),
    "norm_position": ("--norm-position", "a norm before its sublayer and one after it have the same names"),
    "layer_norm_eps": ("--norm-eps", "torch's LayerNorm has 1e-5 where nothing else is said"),
    "norm_variance": ("--norm-variance", "`biased` is torch's LayerNorm, `unbiased` is (x − mean) / (x.std() + eps)"),
    "activation": ("--activation", "what is between the two matrices of the feed-forward"),
    "scale_embedding": ("--scale-embedding", "whether token embeddings are multiplied by √d_model"),
    "scale_output": ("--scale-output", "whether logits are multiplied by 1/√d_model"),
    "position_embedding": ("--positions", "no table of positions is stored"),
    "max_position_embeddings": ("--max-positions", "the longest source and target; a stored table may be cut"),
    "tie_output": ("--tie-output", "no output matrix is stored; `yes`: it is the target's table of tokens"),
    "pad_token_id": ("--pad", "the id of padding"),
    "bos_token_id": ("--bos", "the id that begins a sentence"),
    "eos_token_id": ("--eos", "the id that ends a sentence"),
    "decoder_start_token_id": ("--start", "what the decoder begins with (as --bos)"),
}
CHOICES = {"norm_position": ["post", "pre", "pre_query"], "norm_variance": ["biased", "unbiased"],
           "activation": ["relu", "gelu", "gelu_tanh", "silu"], "position_embedding": ["sinusoidal", "none"]}
TYPES = {"attention_heads": int, "layer_norm_eps": float, "max_position_embeddings": int, "pad_token_id": int,
         "bos_token_id": int, "eos_token_id": int, "decoder_start_token_id": int}  # others: a choice, or yes and no
SETTINGS = {"attention_heads": ("n_head", "n_heads", "nhead", "num_heads", "heads", "attention_heads", "aheads"),
            "layer_norm_eps": ("norm_eps", "layer_norm_eps"),
            "activation": ("pos_ffn_activation_fn", "activation")}
SPECIAL_TOKENS = {"pad_token_id": ("<pad>", "<PAD>", "[PAD]", "<blank>"),
                  "bos_token_id": ("<s>", "<sos>", "<SOS>", "[SOS]", "<bos>", "<BOS>", "[BOS]", "<start>"),
                  "eos_token_id": ("</s>", "<eos>", "<EOS>", "[EOS]", "<end>")}


class Facts:
    """values, and sources: who says them; both by field.  An option comes first, then settings that are kept in the
    checkpoint, then special tokens of the target's vocabulary, then the original."""

    def __init__(self, model, options, settings, vocabulary):
        self.model, self.options, self.settings, self.vocabulary = model, vars(options), settings, vocabulary
        self.values, self.sources, self.missing = {}, {}, []

    def option(self, field):
        return self.options[ASKED[field][0].removeprefix("--").replace("-", "_")]

    def setting(self, field):
        choice = self.settings.get("scale_emb_or_prj")  # of attention-is-all-you-need-pytorch
        if field in ("scale_embedding", "scale_output") and self.model.tied and choice in ("emb", "prj", "none"):
            return choice == {"scale_embedding": "emb", "scale_output": "prj"}[field], "scale_emb_or_prj"
        for name in SETTINGS.get(field, ()):
            value = self.settings.get(name)
            if value in CHOICES[field] if field in CHOICES else isinstance(value, TYPES.get(field, ())):
                return value, name
        return None, None

    def find(self, field):
        """(value, who says it), or None and None."""
        option, style = self.option(field), self.model.style
        if option is not None:
            return option, ASKED[field][0]
        value, name = self.setting(field)
        if name:
            return value, f"the checkpoint's settings, {name}"
        found = [token for token in SPECIAL_TOKENS.get(field, ()) if token in (self.vocabulary or ())]
        if len(found) == 1:
            return self.vocabulary.index(found[0]), f"{found[0]} of the vocabulary"
        if field in style.facts:
            fact = style.facts[field]
            return fact(self.model) if callable(fact) else fact, style.title
        return None, None

    def ask(self, field, otherwise=(None, None)):
        """otherwise: the value, and a reason to be content with it, when nobody says another one."""
        value, source = self.find(field)
        if source is None:
            value, source = otherwise
        if source is None:
            self.missing.append(field)
        self.values[field], self.sources[field] = value, source
        return value

    def ask_norm_variance(self):
        if self.model.unbiased_norms:
            self.ask("norm_variance", ("unbiased", "the norms' names a_2 and b_2"))
        else:
            self.ask("norm_variance", (None, None) if self.model.odd_norms else ("biased", "the norms are torch's LayerNorm by their names"))

    def ask_positions(self):
        model = self.model
        if self.settings.get("max_relative_positions"):  # of OpenNMT-py; negative ones leave no tensor
            raise ImportFailed("positions are relative here (max_relative_positions); this family has none of these")
        if not model.tables and not model.alphas:
            if self.ask("position_embedding") != "none":
                self.ask("max_position_embeddings")
            return
        if self.option("position_embedding"):
            raise ImportFailed("--positions: a table of positions is stored")
        wanted = self.option("max_position_embeddings")
        kind, rows = model.place_positions(wanted)
        self.values |= {"position_embedding": kind, "max_position_embeddings": rows}
        self.sources |= {"position_embedding": "the stored table",
                         "max_position_embeddings": "--max-positions" if wanted else "the stored table"}

    def ask_all(self):
        for field in "attention_heads", "norm_position", "layer_norm_eps":
            self.ask(field)
        self.ask_norm_variance()
        for field in "activation", "scale_embedding":
            self.ask(field)
        self.ask("scale_output", (False, "only one original does, with a tied output"))
        self.ask_positions()
        if not self.model.has_output:
            if self.ask("tie_output") is False:
                raise ImportFailed("no output matrix is stored, so it must be tied")
        for field in "pad_token_id", "bos_token_id", "eos_token_id":
            self.ask(field)
        self.ask("decoder_start_token_id", (self.values["bos_token_id"], "as bos_token_id"))
        if self.missing:
            lines = [f"  {ASKED[field][0]:<18} {ASKED[field][1]}" for field in self.missing if field != "decoder_start_token_id"]
            raise ImportFailed(f"these are the names of {self.model.style.title}; they do not tell everything.  Also needed:\n"
                               + "\n".join(lines))
