"""Writes tests/unit/data/search_golden.json: what Transformers generates.

Every case has random options and a small prefix.

The model is a fixed function of the last two tokens and the length, so that the C test computes the
same logits and replays every case:

    python3 tools/golden_search.py > tests/unit/data/search_golden.json

Made with transformers 5.24 and torch 2.13.
"""

import json
import random
import warnings

import torch
import transformers
from transformers import BartConfig, GenerationMixin, PreTrainedModel
from transformers.generation import logits_process
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

CASES = 240
WARPS = 60
START, EOS, PAD = 2, 3, 1
MASK = 0xFFFFFFFF


def mix(x):
    """The lowbias32 hash; the test has the same."""
    x ^= x >> 16
    x = x * 0x7FEB352D & MASK
    x ^= x >> 15
    x = x * 0x846CA68B & MASK
    return x ^ x >> 16


def logits(history, vocabulary, salt):
    """Multiples of 2**-13 in [-4, 4), so every float is exact; token 3 is made likelier."""
    state = mix(salt * 2654435761 + len(history) & MASK)
    for token in history[-2:]:
        state = mix(state ^ token + 0x9E3779B9 & MASK)
    row = [(mix(state + v & MASK) & 0xFFFF) / 8192 - 4 for v in range(vocabulary)]
    row[EOS] += 1.5
    return row


class Encoder(torch.nn.Module):
    main_input_name = "input_ids"

    def forward(self, input_ids, **_):
        return BaseModelOutput(torch.zeros(*input_ids.shape, 8))


class Fake(PreTrainedModel, GenerationMixin):
    config_class = BartConfig
    main_input_name = "input_ids"

    def __init__(self, vocabulary, salt):
        super().__init__(BartConfig(vocab_size=vocabulary, d_model=8, forced_eos_token_id=None))
        self.encoder = Encoder()
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.salt = salt

    def get_encoder(self, **_):
        return self.encoder

    def forward(self, input_ids=None, decoder_input_ids=None, encoder_outputs=None, **_):
        rows = [logits(r, self.config.vocab_size, self.salt) for r in decoder_input_ids.tolist()]
        return Seq2SeqLMOutput(logits=torch.tensor(rows)[:, None, :])


def random_options(rng, vocabulary):
    o = {"num_beams": rng.choice([1, 1, 2, 3, 4, 5])}
    o[rng.choice(["max_new_tokens", "max_length"])] = rng.randint(6, 16)
    o["eos_token_id"] = rng.choice([EOS, EOS, [EOS, 7]])
    if o["num_beams"] > 1:
        o["length_penalty"] = rng.choice([1.0, 0.0, 0.6, 2.0, -1.0])
        o["early_stopping"] = rng.choice([False, True, "never"])
        o["num_return_sequences"] = rng.randint(1, o["num_beams"])
    may = {
        "min_length": rng.randint(2, 9),
        "min_new_tokens": rng.randint(0, 8),
        "no_repeat_ngram_size": rng.randint(2, 3),
        "repetition_penalty": rng.choice([0.7, 1.3, 2.0]),
        "forced_bos_token_id": rng.randrange(4, vocabulary),
        "forced_eos_token_id": EOS,
    }
    o.update({name: value for name, value in may.items() if rng.random() < 0.25})
    return o


def run_case(rng, salt):
    vocabulary = rng.choice([16, 24, 40])
    options = random_options(rng, vocabulary)
    prefix = [START] + [rng.randrange(4, vocabulary) for _ in range(rng.choice([0, 0, 0, 1, 3]))]
    model = Fake(vocabulary, salt)
    out = model.generate(
        torch.tensor([[5, 6]]), decoder_input_ids=torch.tensor([prefix]), use_cache=False,
        decoder_start_token_id=START, pad_token_id=PAD, bos_token_id=0,
        output_scores=True, return_dict_in_generate=True, **options,
    )
    beams = options["num_beams"] > 1
    transitions = model.compute_transition_scores(
        out.sequences, out.scores, out.beam_indices if beams else None, normalize_logits=not beams)
    eos = options["eos_token_id"]
    ends = eos if isinstance(eos, list) else [eos]
    sequences = []
    for i, row in enumerate(out.sequences.tolist()):
        tokens = row[len(prefix):]
        cut = next((n + 1 for n, token in enumerate(tokens) if token in ends), len(tokens))
        logprobs = [round(x, 5) for x in transitions[i].tolist()[:cut]]
        sequence = {"tokens": tokens[:cut], "logprobs": logprobs}
        if beams:
            sequence["score"] = round(out.sequences_scores[i].item(), 5)
        sequences.append(sequence)
    if any(s.get("score", 0) < -1e6 for s in sequences):
        return None  # copies of the first beam, in an order that topk leaves open
    return {"vocabulary": vocabulary, "salt": salt, "prefix": prefix, "options": options,
            "sequences": sequences}


def run_warp(rng):
    """Coarse scores, so that ties at the thresholds are common; none with top_p, whose sort leaves
    their order open."""
    vocabulary = rng.choice([8, 30])
    options = {
        "temperature": rng.choice([1.0, 0.5, 1.7]),
        "top_k": rng.choice([0, 1, 3, 5, 50]),
        "top_p": rng.choice([1.0, 0.93, 0.55, 0.31, 0.02]),
        "min_p": rng.choice([0.0, 0.07, 0.33, 1.0]),
    }
    if options["top_p"] < 1:
        row = [x / 4 for x in rng.sample(range(-20, 20), vocabulary)]
    else:
        row = [rng.randint(-8, 8) / 4 for _ in range(vocabulary)]
    scores = torch.tensor([row])
    if options["temperature"] != 1:
        scores = logits_process.TemperatureLogitsWarper(options["temperature"])(None, scores)
    if options["top_k"]:
        scores = logits_process.TopKLogitsWarper(options["top_k"])(None, scores)
    if options["top_p"] < 1:
        scores = logits_process.TopPLogitsWarper(options["top_p"])(None, scores)
    if options["min_p"]:
        scores = logits_process.MinPLogitsWarper(options["min_p"])(None, scores)
    kept = scores.log_softmax(-1)[0].tolist()
    return {"scores": row, "options": options,
            "logprobs": [None if x == float("-inf") else round(x, 5) for x in kept]}


def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    rng = random.Random(20)
    cases = []
    salt = 0
    while len(cases) < CASES:
        salt += 1
        case = run_case(rng, salt)
        if case:
            cases.append(case)
    warps = [run_warp(rng) for _ in range(WARPS)]

    def lines(items):
        return ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)

    print('{"cases":[\n' + lines(cases) + '\n],\n"warps":[\n' + lines(warps) + "\n]}")


if __name__ == "__main__":
    main()
