"""Writes tests/unit/data/search_golden.json: what Transformers generates.

Every case has random options, a source row and a small prefix.  The model is a fixed function of
the last two tokens and the length, so that the C test computes the same logits and replays every
case; the source matters to the rules alone:

    python3 tools/golden_search.py > tests/unit/data/search_golden.json

Made with transformers 5.24 and torch 2.13.
"""

import json
import math
import random
import warnings

import torch
import transformers
from transformers import BartConfig, GenerationMixin, LogitsProcessor, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

ALONE = 3  # cases of each option alone, greedy and with beams
COMBINED = 240
WARPS = 140
START, EOS, PAD = 2, 3, 1
MASK = 0xFFFFFFFF
REMOVED = -1e30


def mix(x):
    """The lowbias32 hash; the test has the same."""
    x ^= x >> 16
    x = x * 0x7FEB352D & MASK
    x ^= x >> 15
    x = x * 0x846CA68B & MASK
    return x ^ x >> 16


def logit(bits, wild):
    """A multiple of 2**-13 in [-4, 4), so every float is exact; `wild` logits may be no numbers."""
    if wild and bits < 0xC00:
        return -math.inf if wild == 1 else [math.nan, math.inf, -math.inf][bits // 0x400]
    return bits / 8192 - 4


def logits(history, vocabulary, salt, wild):
    """Token 3 is made likelier."""
    state = mix(salt * 2654435761 + len(history) & MASK)
    for token in history[-2:]:
        state = mix(state ^ token + 0x9E3779B9 & MASK)
    row = [logit(mix(state + v & MASK) & 0xFFFF, wild) for v in range(vocabulary)]
    row[EOS] += 1.5
    return row


class Encoder(torch.nn.Module):
    main_input_name = "input_ids"

    def forward(self, input_ids, **_):
        return BaseModelOutput(torch.zeros(*input_ids.shape, 8))


class Fake(PreTrainedModel, GenerationMixin):
    config_class = BartConfig
    main_input_name = "input_ids"

    def __init__(self, vocabulary, rows):
        super().__init__(BartConfig(vocab_size=vocabulary, d_model=8, forced_eos_token_id=None))
        self.encoder = Encoder()
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.rows = rows

    def get_encoder(self, **_):
        return self.encoder

    def forward(self, input_ids=None, decoder_input_ids=None, encoder_outputs=None, **_):
        rows = [self.rows(r) for r in decoder_input_ids.tolist()]
        return Seq2SeqLMOutput(logits=torch.tensor(rows)[:, None, :])


def as_list(ids):
    return [] if ids is None else ids if isinstance(ids, list) else [ids]


def allowed(options):
    """The ids that may be generated at all."""
    ids = options.get("allowed_token_ids")
    return range(1 << 31) if ids is None else ids + as_list(options["eos_token_id"])


def forced(options):
    return as_list(options.get("forced_bos_token_id")) + as_list(options.get("forced_eos_token_id"))


class Allowed(LogitsProcessor):
    """allowed_token_ids, which the reference does not have; its own processors go before."""

    def __init__(self, options):
        self.ids = allowed(options)

    def __call__(self, input_ids, scores):
        kept = torch.full_like(scores, -math.inf)
        kept[:, self.ids] = scores[:, self.ids]
        return kept


def generate(model, source, prefix, options):
    own = [Allowed(options)] if "allowed_token_ids" in options else []
    options = {name: value for name, value in options.items() if name != "allowed_token_ids"}
    return model.generate(
        torch.tensor([source]), attention_mask=torch.ones(1, len(source)),
        decoder_input_ids=torch.tensor([prefix]), use_cache=False, decoder_start_token_id=START,
        pad_token_id=PAD, bos_token_id=0, output_scores=True, return_dict_in_generate=True,
        logits_processor=own, **options)


def answers(model, source, prefix, options):
    """The sequences; None where the reference leaves the answer open or has none."""
    out = generate(model, source, prefix, options)
    beams = options["num_beams"] > 1
    transitions = model.compute_transition_scores(
        out.sequences, out.scores, out.beam_indices if beams else None, normalize_logits=not beams)
    ends = as_list(options["eos_token_id"])
    sequences = []
    for i, row in enumerate(out.sequences.tolist()):
        tokens = row[len(prefix):]
        cut = next((n + 1 for n, token in enumerate(tokens) if token in ends), len(tokens))
        logprobs = [round(x, 5) for x in transitions[i].tolist()[:cut]]
        if any(not math.isfinite(x) or x < -1e6 for x in logprobs):
            return None
        sequence = {"tokens": tokens[:cut], "logprobs": logprobs}
        if beams:
            sequence["score"] = round(out.sequences_scores[i].item(), 5)
            if sequence["score"] < -1e6:
                return None  # copies of the first beam, in an order that topk leaves open
        sequences.append(sequence)
    return sequences


def search_options(rng, beams):
    o = {"num_beams": rng.randint(2, 5) if beams else 1}
    o[rng.choice(["max_new_tokens", "max_length"])] = rng.randint(6, 16)
    o["eos_token_id"] = rng.choice([EOS, EOS, [EOS, 7]])
    if beams:
        o["length_penalty"] = rng.choice([1.0, 0.0, 0.6, 2.0, -1.0])
        o["early_stopping"] = rng.choice([False, True, "never"])
        o["num_return_sequences"] = rng.randint(1, o["num_beams"])
    return o


def some(rng, plain, vocabulary, count):
    """Token ids, most of them such as the answer has without the option."""
    return [rng.choice(plain) if rng.random() < 0.6 else rng.randrange(4, vocabulary)
            for _ in range(count)]


def word(rng, plain, vocabulary):
    n = rng.randint(1, 3)
    at = rng.randrange(len(plain))
    return plain[at:at + n] if rng.random() < 0.7 else some(rng, plain, vocabulary, n)


def words(rng, plain, vocabulary):
    found = [word(rng, plain, vocabulary) for _ in range(rng.randint(1, 7))]
    return found + rng.choice([[], [[EOS]], found[:1]])


def biases(rng, plain, vocabulary):
    """Some words twice: the last bias counts; some ends twice: they add up."""
    return [[w, rng.choice([-6.0, -1.5, 0.75, 2.5])] for w in words(rng, plain, vocabulary)]


# Each option that a rule of its own stands behind; `plain` is an answer without it.
RULES = {
    "sequence_bias": biases,
    "encoder_repetition_penalty": lambda rng, plain, V: rng.choice([0.5, 1.6, 3.0]),
    "repetition_penalty": lambda rng, plain, V: rng.choice([0.7, 1.3, 2.0]),
    "no_repeat_ngram_size": lambda rng, plain, V: rng.randint(1, 3),
    "encoder_no_repeat_ngram_size": lambda rng, plain, V: rng.randint(1, 3),
    "bad_words_ids": words,
    "min_length": lambda rng, plain, V: rng.randint(2, 9),
    "min_new_tokens": lambda rng, plain, V: rng.randint(0, 8),
    "forced_bos_token_id": lambda rng, plain, V: rng.randrange(4, V),
    "forced_eos_token_id": lambda rng, plain, V: rng.choice([EOS, EOS, [EOS, 9]]),
    "remove_invalid_values": lambda rng, plain, V: True,
    "exponential_decay_length_penalty":
        lambda rng, plain, V: [rng.randint(-1, 6), rng.choice([1.05, 1.4, 2.0, 0.8])],
    "suppress_tokens": lambda rng, plain, V: some(rng, plain, V, rng.randint(1, 8)),
    "begin_suppress_tokens": lambda rng, plain, V: some(rng, plain, V, rng.randint(1, 8)),
    "allowed_token_ids": lambda rng, plain, V: some(rng, plain, V, V // 2),
    "renormalize_logits": lambda rng, plain, V: True,
}


def run_case(rng, salt, alone, beams):
    """A case of the option `alone`, or of any; None if the reference has no answer, or if the
    option changes nothing, which one case in four may."""
    vocabulary = rng.choice([16, 24, 40])
    options = search_options(rng, beams)
    prefix = [START] + [rng.randrange(4, vocabulary) for _ in range(rng.choice([0, 0, 0, 1, 3]))]
    wild = 0
    if alone == "remove_invalid_values":
        wild = 1 if beams else 2  # a sum with NaN leaves beams nothing but ties
    model = Fake(vocabulary, lambda history: logits(history, vocabulary, salt, 0))
    plain = answers(model, [5, 6], prefix, options)
    if not plain:
        return None
    tokens = plain[0]["tokens"]
    source = some(rng, tokens, vocabulary, rng.randint(3, 10)) + rng.choice([[EOS], [EOS, PAD]])
    chosen = [alone] if alone else [name for name in RULES if rng.random() < 0.22]
    for name in chosen:
        options[name] = RULES[name](rng, tokens, vocabulary)
    model.rows = lambda history: logits(history, vocabulary, salt, wild)
    if any(id not in allowed(options) for id in forced(options)):
        return None  # nothing is left
    try:
        sequences = answers(model, source, prefix, options)
    except ValueError:  # a forced token that is suppressed
        return None
    if not sequences or (alone and sequences == plain and rng.random() < 0.75):
        return None
    case = {"vocabulary": vocabulary, "salt": salt, "source": source, "prefix": prefix,
            "options": options, "sequences": sequences}
    return case | ({"wild": wild} if wild else {})


WARPERS = {
    "temperature": [0.5, 1.7],
    "top_h": [0.1, 0.35, 0.6, 0.9],
    "top_k": [0, 1, 3, 5, 50],
    "top_p": [0.93, 0.55, 0.31, 0.02, 0.0],
    "min_p": [0.07, 0.33, 1.0],
    "typical_p": [0.05, 0.3, 0.62, 0.9, 0.97],
    "epsilon_cutoff": [0.01, 0.05, 0.3],
    "eta_cutoff": [0.001, 0.02, 0.1, 0.4],
}


def run_warp(rng):
    """Coarse scores, so that ties at the thresholds are common, but none where the reference's sort
    leaves their order open.  None if a tie came about there, or if the reference leaves no token.
    """
    vocabulary = rng.choice([8, 8, 30, 130])
    names = [name for name in WARPERS if rng.random() < 0.3] or [rng.choice(list(WARPERS))]
    options = {"top_k": rng.choice([0, 0, 50])}
    options |= {name: rng.choice(WARPERS[name]) for name in names}
    sorts = "top_p" in options or "top_h" in options
    if sorts:
        steps = rng.sample(range(-5 * vocabulary, 5 * vocabulary), vocabulary)
        row = [x / 2 ** vocabulary.bit_length() for x in steps]
    else:
        row = [rng.randint(-8, 8) / 4 for _ in range(vocabulary)]
    prefix = [START] + [rng.randrange(4, vocabulary) for _ in range(rng.choice([0, 0, 2]))]
    source = [rng.randrange(4, vocabulary) for _ in range(5)]
    likely = sorted(range(4, vocabulary), key=lambda v: -row[v])[:6]
    for name in RULES:
        if name not in ("forced_bos_token_id", "forced_eos_token_id") and rng.random() < 0.07:
            options[name] = RULES[name](rng, likely, vocabulary)
    more = {"do_sample": True, "max_new_tokens": 1, "eos_token_id": EOS}

    def logprobs(noise):
        scores = [x + noise * rng.random() for x in row]
        out = generate(Fake(vocabulary, lambda _: scores), source, prefix, options | more)
        return out.scores[0].log_softmax(-1)[0].tolist()

    try:
        kept = logprobs(0)
        for _ in range(4 if sorts else 0):
            if [x < REMOVED for x in logprobs(1e-5)] != [x < REMOVED for x in kept]:
                return None
    except RuntimeError:  # multinomial over nothing
        return None
    return {"scores": row, "source": source, "prefix": prefix, "options": options,
            "logprobs": [None if x < REMOVED else round(x, 5) for x in kept]}


def gather(make, count):
    found = []
    while len(found) < count:
        item = make()
        if item:
            found.append(item)
    return found


def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    rng = random.Random(20)
    torch.manual_seed(0)
    salts = iter(range(1, 1 << 30))
    cases = []
    for name in RULES:
        for beams in (False, True):
            if name == "renormalize_logits":  # changes nothing alone
                continue
            cases += gather(lambda: run_case(rng, next(salts), name, beams), ALONE)
    cases += gather(lambda: run_case(rng, next(salts), None, rng.random() < 0.6), COMBINED)
    warps = gather(lambda: run_warp(rng), WARPS)

    def lines(items):
        return ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)

    print('{"cases":[\n' + lines(cases) + '\n],\n"warps":[\n' + lines(warps) + "\n]}")


if __name__ == "__main__":
    main()
