"""Random configurations of every family: shapes, options and generation defaults from a seed.

FAMILIES names what is tested; a value is a function of a `random.Random` that gives a Plan.
"""

from dataclasses import dataclass, field


# Those of well-known models twice.
ACTIVATIONS = ["relu", "gelu", "gelu_new", "silu", "swish"] * 2 + [
    "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "tanh", "relu6", "relu2",
]


@dataclass
class Plan:
    """A model to make: its class, its configuration and how its folder is written."""

    model: str
    config: dict
    generation: dict = field(default_factory=dict)
    save: str = "plain"  # f16, bf16, mixed, sharded, alias, bare, transformers
    untied: bool = False  # T5: an output table of its own, which no configuration can ask for
    target_vocabulary: int = 0


def pick_heads(r, width):
    return r.choice([h for h in range(1, 10) if width % h == 0 and width // h >= 3])


def bart_shape(r):
    width = r.choice([24, 27, 30, 35, 36, 40, 42, 48, 60])
    return dict(
        d_model=width,
        encoder_layers=r.randint(1, 3),
        decoder_layers=r.randint(1, 3),
        encoder_attention_heads=pick_heads(r, width),
        decoder_attention_heads=pick_heads(r, width),
        encoder_ffn_dim=r.randint(20, 90),
        decoder_ffn_dim=r.randint(20, 90),
        activation_function=r.choice(ACTIVATIONS),
        max_position_embeddings=r.randint(24, 64),
        scale_embedding=r.random() < 0.5,
        vocab_size=r.randint(60, 150),
    )


def bart_plan(r, name, ids, shape=None, **more):
    """`ids`: pad, bos, eos, decoder start."""
    pad, bos, eos, start = ids
    config = {**(shape or bart_shape(r)), **more}
    config.update(pad_token_id=pad, bos_token_id=bos, eos_token_id=eos,
                  decoder_start_token_id=start, forced_eos_token_id=None)
    generation = dict(pad_token_id=pad, bos_token_id=bos, eos_token_id=eos,
                      decoder_start_token_id=start)
    generation.update(usual_defaults(r, eos))
    return Plan(f"{name}ForConditionalGeneration", config, generation)


def usual_defaults(r, eos):
    """Some of what generation_config.json of well-known models says."""
    some = {}
    for name, probability, value in (
        ("forced_eos_token_id", 0.5, eos),
        ("num_beams", 0.5, r.randint(2, 5)),
        ("length_penalty", 0.3, r.choice([0.8, 0.65, 2.0])),
        ("early_stopping", 0.3, True),
        ("no_repeat_ngram_size", 0.3, 3),
        ("min_length", 0.2, r.randint(2, 6)),
        ("max_length", 0.4, r.randint(12, 20)),
        ("renormalize_logits", 0.1, True),
        ("eos_token_id", 0.15, [eos, 7]),
        ("do_sample", 0.08, True),
        ("temperature", 0.5, 0.7),
        ("top_k", 0.5, 12),
        ("repetition_penalty", 0.12, 1.2),
        ("encoder_repetition_penalty", 0.06, 1.1),
        ("suppress_tokens", 0.08, [9, 12]),
        ("begin_suppress_tokens", 0.08, [11, 13]),
        ("bad_words_ids", 0.08, [[8], [6, 19]]),
        ("sequence_bias", 0.06, [[[10], -2.0], [[5, 18], 1.5]]),
        ("exponential_decay_length_penalty", 0.06, [4, 1.1]),
        ("remove_invalid_values", 0.06, True),
    ):
        if r.random() < probability:
            some[name] = value
    if some.get("do_sample"):
        some["num_beams"] = 1
    if some.get("num_beams", 1) == 1:  # what beams alone heed may not be saved without them
        some.pop("length_penalty", 0)
        some.pop("early_stopping", 0)
    if not some.get("do_sample"):  # nor what sampling alone heeds
        some.pop("temperature", 0)
        some.pop("top_k", 0)
    return some


def bart(r):
    plan = bart_plan(r, "Bart", (1, 0, 2, 2))
    if r.random() < 0.5:
        plan.generation["forced_bos_token_id"] = 0
    return plan


def mbart25(r):
    shape = bart_shape(r)
    return bart_plan(r, "MBart", (1, 0, 2, shape["vocab_size"] - r.randint(2, 6)), shape)


def mbart50(r):
    plan = bart_plan(r, "MBart", (1, 0, 2, 2))
    plan.generation["forced_bos_token_id"] = plan.config["vocab_size"] - r.randint(2, 6)
    return plan


def plbart(r):
    shape = bart_shape(r)
    return bart_plan(r, "PLBart", (1, 0, 2, shape["vocab_size"] - 2), shape)


def marian(r, shared=True, tied=True):
    shape = bart_shape(r)
    target = shape["vocab_size"] + (0 if shared else r.choice([-21, -8, 9, 17]))
    pad = min(shape["vocab_size"], target) - 1
    plan = bart_plan(r, "Marian", (pad, 0, 0, pad), shape, decoder_vocab_size=target,
                     share_encoder_decoder_embeddings=shared, tie_word_embeddings=tied)
    plan.model = "MarianMTModel"
    plan.generation["bad_words_ids"] = [[pad]]
    if not shared:  # the reference fails on a source id that is no target id
        plan.generation.pop("encoder_repetition_penalty", 0)
    return plan


def m2m100(r):
    return bart_plan(r, "M2M100", (1, 0, 2, 2), encoder_layerdrop=0.0, decoder_layerdrop=0.0)


def nllb(r):
    plan = m2m100(r)
    plan.generation["forced_bos_token_id"] = plan.config["vocab_size"] - r.randint(2, 6)
    return plan


def pegasus(r):
    plan = bart_plan(r, "Pegasus", (0, None, 1, 0))
    plan.generation.pop("bos_token_id")
    return plan


def blenderbot(r):
    plan = bart_plan(r, "Blenderbot", (0, 1, 2, 1), encoder_no_repeat_ngram_size=0)
    if r.random() < 0.5:
        plan.generation["encoder_no_repeat_ngram_size"] = 3
    return plan


def blenderbot_small(r):
    return bart_plan(r, "BlenderbotSmall", (0, 1, 2, 1))


def fsmt(r):
    shape = bart_shape(r)
    source = shape.pop("vocab_size")
    plan = bart_plan(r, "FSMT", (1, 0, 2, 2), shape, langs=["en", "de"], src_vocab_size=source,
                     tgt_vocab_size=source + r.choice([-9, 0, 12]), tie_word_embeddings=False)
    plan.generation.pop("encoder_repetition_penalty", 0)
    return plan


def t5_shape(r):
    width, heads = r.choice([20, 24, 32, 36, 45]), r.randint(2, 7)
    return dict(
        d_model=width,
        num_heads=heads,
        d_kv=r.choice([k for k in (5, 6, 8, 10, 12) if k * heads != width]),
        d_ff=r.randint(24, 90),
        num_layers=r.randint(1, 3),
        num_decoder_layers=r.randint(1, 3),
        relative_attention_num_buckets=r.choice([8, 10, 12, 16, 32]),
        relative_attention_max_distance=r.choice([18, 20, 64, 128]),
        layer_norm_epsilon=r.choice([1e-6, 1e-5]),
        vocab_size=r.randint(60, 150),
    )


def t5_plan(r, name, shape=None, ids=(0, 1, 0), untied=False, **more):
    """`ids`: pad, eos, decoder start."""
    pad, eos, start = ids
    config = {**(shape or t5_shape(r)), **more}
    config.update(pad_token_id=pad, eos_token_id=eos, decoder_start_token_id=start)
    generation = dict(pad_token_id=pad, eos_token_id=eos, decoder_start_token_id=start)
    generation.update(usual_defaults(r, eos))
    return Plan(f"{name}ForConditionalGeneration", config, generation, untied=untied)


def gated(r):
    return r.choice(["gated-gelu", "gated-gelu", "gated-silu", "gated-relu"])


def t5(r):
    return t5_plan(r, "T5", feed_forward_proj="relu")


def t5_v11(r):
    return t5_plan(r, "T5", feed_forward_proj=gated(r), tie_word_embeddings=False, untied=True)


def mt5(r):
    return t5_plan(r, "MT5", feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                   untied=True)


def umt5(r):
    return t5_plan(r, "UMT5", feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                   untied=True)


def byt5(r):
    shape = t5_shape(r)
    shape.update(vocab_size=384, num_layers=r.randint(3, 4), num_decoder_layers=1)
    return t5_plan(r, "T5", shape, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                   untied=True)


def madlad(r):
    return t5_plan(r, "T5", ids=(1, 2, 0), feed_forward_proj="gated-gelu",
                   tie_word_embeddings=False, untied=True)


def t5_encoder(r):
    plan = t5_plan(r, "T5", feed_forward_proj=r.choice(["relu", "gated-gelu"]))
    return Plan("T5EncoderModel", plan.config)


def bert_plan(r, name, pad, more_positions=0, **more):
    width = r.choice([24, 30, 36, 48, 60])
    config = dict(
        hidden_size=width,
        num_hidden_layers=r.randint(1, 4),
        num_attention_heads=pick_heads(r, width),
        intermediate_size=r.randint(30, 120),
        hidden_act=r.choice(ACTIVATIONS),
        max_position_embeddings=r.randint(24, 64) + more_positions,
        vocab_size=r.randint(60, 150),
        pad_token_id=pad,
        layer_norm_eps=r.choice([1e-12, 1e-5]),
    )
    return Plan(f"{name}Model", {**config, **more})


def bert(r):
    return bert_plan(r, "Bert", 0, type_vocab_size=2)


def roberta(r):
    return bert_plan(r, "Roberta", 1, 2, type_vocab_size=1)


def xlm_roberta(r):
    return bert_plan(r, "XLMRoberta", 1, 2, type_vocab_size=1)


def camembert(r):
    return bert_plan(r, "Camembert", 1, 2, type_vocab_size=1)


def mpnet(r):
    return bert_plan(r, "MPNet", 1, 2)


def distilbert(r):
    plan = bert_plan(r, "DistilBert", 0)
    names = dict(hidden_size="dim", num_hidden_layers="n_layers", num_attention_heads="n_heads",
                 intermediate_size="hidden_dim", hidden_act="activation")
    plan.config.pop("layer_norm_eps")
    plan.config = {names.get(k, k): v for k, v in plan.config.items()}
    return plan


def saved(family, how):
    def plan(r):
        made = family(r)
        made.save = how
        return made

    return plan


FAMILIES = {
    "t5": t5,
    "t5_v11": t5_v11,
    "t5_v11_resaved": saved(t5_v11, "transformers"),
    "mt5": mt5,
    "umt5": umt5,
    "byt5": byt5,
    "madlad": madlad,
    "bart": bart,
    "mbart25": mbart25,
    "mbart50": mbart50,
    "plbart": plbart,
    "marian": marian,
    "marian_untied": lambda r: marian(r, tied=False),
    "marian_separate": lambda r: marian(r, shared=False, tied=False),
    "marian_separate_tied": lambda r: marian(r, shared=False),
    "m2m100": m2m100,
    "nllb": nllb,
    "pegasus": pegasus,
    "blenderbot": blenderbot,
    "blenderbot_small": blenderbot_small,
    "fsmt": fsmt,
    "bart_bare": saved(bart, "bare"),
    "marian_alias": saved(marian, "alias"),
    "pegasus_alias": saved(pegasus, "alias"),
    "bart_f16": saved(bart, "f16"),
    "marian_bf16": saved(marian, "bf16"),
    "t5_mixed": saved(t5_v11, "mixed"),
    "m2m100_sharded": saved(m2m100, "sharded"),
    "t5_encoder": t5_encoder,
    "bert": bert,
    "roberta": roberta,
    "xlm_roberta": xlm_roberta,
    "camembert": camembert,
    "mpnet": mpnet,
    "distilbert": distilbert,
    "bert_f16": saved(bert, "f16"),
}
