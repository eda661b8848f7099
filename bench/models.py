#!/usr/bin/env python3
"""Writes random models of well-known shapes, and the forms of them that the peers want.

    bench/models.py OUT [NAME...]        names: see SHAPES; without any, all but nllb-600M

OUT/NAME/hf             as Transformers saves it; seed 0
OUT/NAME/ct2-float32    CTranslate2, also ct2-int8
OUT/NAME/onnx           ONNX graphs (onnx_export.py), also onnx-int8 (dynamic, per channel)
OUT/NAME/tokens.json    the name of each id, for CTranslate2

What exists is kept.  Weights are larger than the libraries initialise them: with theirs the
residual stream is the embedding of the last token, so greedy search repeats one token for ever
and every logit but one is noise, which flatters whoever guesses at the output layer.
"""

import json
import logging
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import ctranslate2.converters.transformers as ct2
import torch
import transformers

import onnx_export


def marian(width, layers, heads, inner, vocabulary):
    return transformers.MarianMTModel, transformers.MarianConfig(
        vocab_size=vocabulary, d_model=width, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=inner,
        decoder_ffn_dim=inner, activation_function="swish", max_position_embeddings=512,
        scale_embedding=True, pad_token_id=vocabulary - 1, decoder_start_token_id=vocabulary - 1,
        eos_token_id=0, forced_eos_token_id=None, bos_token_id=None,
    )


def t5(width, layers, heads, inner, vocabulary):
    return transformers.T5ForConditionalGeneration, transformers.T5Config(
        vocab_size=vocabulary, d_model=width, d_kv=width // heads, d_ff=inner, num_layers=layers,
        num_decoder_layers=layers, num_heads=heads, feed_forward_proj="relu", pad_token_id=0,
        eos_token_id=1, decoder_start_token_id=0, tie_word_embeddings=True,
    )


def m2m100(width, layers, heads, inner, vocabulary):
    return transformers.M2M100ForConditionalGeneration, transformers.M2M100Config(
        vocab_size=vocabulary, d_model=width, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=inner,
        decoder_ffn_dim=inner, activation_function="relu", scale_embedding=True, bos_token_id=0,
        pad_token_id=1, eos_token_id=2, decoder_start_token_id=2,
    )


def bert(width, layers, heads, inner, vocabulary):
    return transformers.BertModel, transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=inner, pad_token_id=0,
    )


SHAPES = {
    "marian-base": (marian, 512, 6, 8, 2048, 58101),
    "t5-small": (t5, 512, 6, 8, 2048, 32128),
    "tiny": (marian, 128, 3, 4, 512, 100),
    "bert": (bert, 512, 6, 8, 2048, 30522),
    "nllb-600M": (m2m100, 1024, 12, 16, 4096, 256206),
}


ATTENTION_QUERIES = "q_proj k_proj query key k".split()  # T5's q has a size of its own
ATTENTION_VALUES = "v_proj out_proj value v o".split()
INNER = "fc1 fc2 dense wi wo".split()


def enlarge(model):
    """Attention that tells places apart but adds little, inner layers that add much: greedy
    search then wanders, and a row depends on its source."""
    for name, weight in model.named_parameters():
        part = name.split(".")[-2]
        gain = {**dict.fromkeys(ATTENTION_QUERIES, 2.0), **dict.fromkeys(ATTENTION_VALUES, 0.5),
                **dict.fromkeys(INNER, 4.0)}.get(part)
        if gain and weight.dim() == 2 and "pooler" not in name:
            torch.nn.init.normal_(weight, std=gain * weight.shape[1] ** -0.5)


def checkpoint(folder, shape):
    if os.path.exists(f"{folder}/model.safetensors"):
        return
    torch.manual_seed(0)
    model_class, config = shape[0](*shape[1:])
    model = model_class(config).eval()
    enlarge(model)
    if config.model_type == "marian":  # as in the folders of OPUS-MT
        model.generation_config.bad_words_ids = [[config.pad_token_id]]
    model.save_pretrained(folder)
    millions = sum(weight.numel() for weight in model.parameters()) / 1e6
    print(f"{folder}: {millions:.1f} M parameters", flush=True)
    if config.is_encoder_decoder:
        variety(model)


def variety(model):
    """Says how many different tokens greedy search finds: few would be a degenerate model."""
    config = model.config
    source = torch.randint(10, config.vocab_size - 1, (4, 32))
    source[:, -1] = config.eos_token_id
    tokens = model.generate(source, min_new_tokens=64, max_new_tokens=64, num_beams=1)
    print(f"    different ones of 64 tokens: {[len(set(row[1:])) for row in tokens.tolist()]}")


class Tokenizer:
    """As much of one as the converter asks for; id i is called w<i>."""

    special_tokens_map, num_madeup_words = {}, 0

    def __init__(self, config):
        self.names = [f"w{i}" for i in range(config.vocab_size)]
        special = {"unk_token": 3, "pad_token": config.pad_token_id}
        special["eos_token"] = config.eos_token_id if config.is_encoder_decoder else 4
        bos = getattr(config, "bos_token_id", None)
        if bos not in (None, config.eos_token_id):
            special["bos_token"] = bos
        for name, token in special.items():
            self.names[token] = f"<{name[:3]}>"
            setattr(self, name, self.names[token])
        self.unk_token_id = special["unk_token"]
        self.bos_token = getattr(self, "bos_token", self.eos_token)

    def get_vocab(self):
        return {name: token for token, name in enumerate(self.names)}

    def convert_ids_to_tokens(self, token):
        return self.names[token]


def to_ctranslate2(folder, config):
    class Converter(ct2.TransformersConverter):
        def load_tokenizer(self, *_, **__):
            return Tokenizer(config)

        def load_model(self, *words, **named):
            model = super().load_model(*words, **named)
            model.config.position_embedding_type = "absolute"  # which it asks of a BERT
            return model

    for dtype in ("float32", "int8"):
        out = f"{folder}/ct2-{dtype}"
        if not os.path.exists(f"{out}/model.bin"):
            Converter(f"{folder}/hf").convert(out, quantization=dtype, force=True)
            print(out, flush=True)
    with open(f"{folder}/tokens.json", "w", encoding="utf-8") as file:
        json.dump(Tokenizer(config).names, file)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out, wanted = sys.argv[1], sys.argv[2:] or [name for name in SHAPES if name != "nllb-600M"]
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger().setLevel(logging.ERROR)
    unknown = set(wanted) - set(SHAPES)
    if unknown:
        sys.exit(f"no such shape: {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    for name in wanted:
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        try:
            checkpoint(f"{folder}/hf", SHAPES[name])
            to_ctranslate2(folder, transformers.AutoConfig.from_pretrained(f"{folder}/hf"))
            onnx_export.export(folder)
        except BaseException:
            print(f"{folder} may hold a half-written file: remove what was begun", file=sys.stderr)
            raise


if __name__ == "__main__":
    main()
