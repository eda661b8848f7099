"""A model folder answered by Transformers, row by row as the daemon answers it.

The reference computes in float32 with eager attention.  A row is asked alone, as it was sent, so
that no answer depends on another row's padding.
"""

import contextlib
import json
import math
import os
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# Below this the reference keeps what does not count: the empty places of a beam search.
NO_SCORE = -1e8
NO_TOKEN = -1e30
# More than rounding: the reference contradicts itself.
CONTRADICTION = 1e-3
# Switches off every default of a model that changes its logits.
PLAIN = dict.fromkeys(
    ("repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
     "encoder_repetition_penalty", "bad_words_ids", "min_length", "min_new_tokens",
     "forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty",
     "suppress_tokens", "begin_suppress_tokens", "sequence_bias")
)


class Refused(Exception):
    """The reference refuses the request, or has no answer to it that means anything."""


def kept(step):
    """What the rules removed is -inf; remove_invalid_values makes a huge number of that."""
    return step.masked_fill(step < NO_TOKEN, -math.inf)


class Noise(transformers.LogitsProcessor):
    """Moves every logit a little: an answer that changes under it was a near-tie."""

    def __init__(self, amplitude, seed):
        self.amplitude, self.random = amplitude, torch.Generator().manual_seed(seed)

    def __call__(self, input_ids, scores):
        shake = torch.rand(scores.shape, generator=self.random) * 2 - 1
        return scores + self.amplitude * shake


@contextlib.contextmanager
def drawing(sequences):
    """Lets sampling draw these sequences instead of random ones."""
    multinomial, step = torch.multinomial, iter(range(1 << 30))

    def drawn(probabilities, num_samples):
        at = next(step)
        return torch.tensor([[s[at] if at < len(s) else 0] for s in sequences])

    torch.multinomial = drawn
    try:
        yield
    finally:
        torch.multinomial = multinomial


def read_json(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def model_class(config):
    names = config.get("architectures") or []
    if names and names[0].endswith("EncoderModel"):
        return getattr(transformers, names[0])
    if config.get("is_encoder_decoder", names and names[0].endswith("ForConditionalGeneration")):
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModel


class Reference:
    def __init__(self, folder):
        config = read_json(folder, "config.json")
        if config is None:
            raise SystemExit(f"{folder} has no config.json")
        if config.get("model_type") == "transformer":
            raise SystemExit(f'{folder}: model_type "transformer" is ours; Transformers has none')
        self.model, info = model_class(config).from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        self.missing = sorted(info["missing_keys"])
        self.unexpected = sorted(info["unexpected_keys"])
        self.model.eval()
        self.family = config["model_type"]
        self.generates = self.model.can_generate() and self.model.config.is_encoder_decoder
        self.read_facts()
        if self.generates:
            self.distrust_cache()

    def read_facts(self):
        config = self.model.config
        table = self.model.get_input_embeddings()
        self.source_vocabulary = table.num_embeddings
        self.pad = config.pad_token_id
        self.positions = getattr(config, "max_position_embeddings", None)
        if self.family in ("roberta", "xlm-roberta", "camembert", "mpnet"):
            self.positions -= self.pad + 1  # their positions begin behind the padding's row
        if self.generates:
            self.defaults = self.model.generation_config
            self.start = self.defaults.decoder_start_token_id
            if self.start is None:
                self.start = self.defaults.bos_token_id
            self.eos = self.eos_ids({})
            self.target_vocabulary = self.decode([self.start], None, [self.start])[0].shape[-1]

    def distrust_cache(self):
        """The reference's cache is left out where generation with it contradicts its own forward
        pass."""
        self.cache_works = self.generation_error(True) < CONTRADICTION
        if not self.cache_works and self.generation_error(False) < CONTRADICTION:
            self.defaults.use_cache = False
        # FSMT does not mask what comes later in a prefix.
        prefix = [(5 * i + 3) % self.target_vocabulary for i in range(4)]
        self.prefixes_work = self.generation_error(self.cache_works, prefix) < CONTRADICTION

    def generation_error(self, use_cache, prefix=()):
        """How far generate()'s log-probabilities are from those of one pass over the same ids."""
        ids = [(7 * i + 3) % self.source_vocabulary for i in range(5)]
        options = {"max_new_tokens": 6, "num_beams": 1, "do_sample": False, "use_cache": use_cache}
        options.update(PLAIN)
        try:
            answer = self.generate(ids, None, options, list(prefix))[0]
        except Refused:
            return math.inf
        before = self.prefix_of(options, prefix)
        logits = self.decode(ids, None, before + answer["token_ids"][:-1])[0][len(before) - 1 :]
        steps = torch.stack(answer["steps"])
        return (steps - logits.log_softmax(-1)).abs().max().item()

    def versions(self):
        return f"transformers {transformers.__version__}, torch {torch.__version__}"

    def eos_ids(self, options):
        ids = options.get("eos_token_id", self.defaults.eos_token_id)
        return [] if ids is None else list(ids) if isinstance(ids, (list, tuple)) else [ids]

    @staticmethod
    def tensors(ids, mask):
        return torch.tensor([ids]), torch.tensor([[int(m) for m in mask or [1] * len(ids)]])

    @torch.no_grad()
    def encode(self, ids, mask=None, attentions=False):
        """[place][d] and, if asked for, [layer][head][query][key]."""
        ids, mask = self.tensors(ids, mask)
        encoder = self.model.get_encoder() if self.generates else self.model
        out = encoder(input_ids=ids, attention_mask=mask, output_attentions=attentions)
        weights = torch.stack([layer[0] for layer in out.attentions]) if attentions else None
        return out.last_hidden_state[0], weights

    @torch.no_grad()
    def decode(self, ids, mask, decoder_ids, attentions=False):
        """Logits [place][V]; attentions of the decoder and to the source."""
        ids, mask = self.tensors(ids, mask)
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=torch.tensor([decoder_ids]),
            use_cache=False,
            output_attentions=attentions,
        )
        if not attentions:
            return out.logits[0], None, None
        stack = [torch.stack([layer[0] for layer in a]) for a in
                 (out.decoder_attentions, out.cross_attentions)]
        return out.logits[0], *stack

    def start_of(self, options):
        start = options.get("decoder_start_token_id", self.start)
        return self.start if start is None else start

    def prefix_of(self, options, prefix):
        """The decoder start, unless the row begins with it, and the row's prefix."""
        start = self.start_of(options)
        return list(prefix) if prefix and prefix[0] == start else [start, *(prefix or [])]

    def run(self, ids, mask, options, prefix, copies, noise):
        ids, mask = self.tensors(ids, mask)
        extra = {}
        if prefix:
            extra["decoder_input_ids"] = torch.tensor([prefix] * copies)
        if noise is not None:
            extra["logits_processor"] = transformers.LogitsProcessorList([noise])
        return self.model.generate(
            input_ids=ids.repeat(copies, 1),
            attention_mask=mask.repeat(copies, 1),
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
            **{k: v for k, v in options.items()},
            **extra,
        )

    def generate(self, ids, mask, options, prefix=None, draws=None, noise=None, copies=1):
        """The sequences of one row, best first (of `copies` equal rows one after the other).

        `options` are the request's parameters.  `draws`: what sampling draws.
        """
        options = {k: v for k, v in options.items() if k not in ("logprobs", "seed",
                                                                 "output_attentions")}
        with drawing(draws) if draws is not None else contextlib.nullcontext():
            try:
                out = self.run(ids, mask, options, prefix, copies, noise)
            except (ValueError, RuntimeError, IndexError, TypeError, AttributeError) as error:
                raise Refused(f"{type(error).__name__}: {str(error)[:200]}") from error
        beams = getattr(out, "beam_indices", None)
        skip = len(self.prefix_of(options, prefix))
        eos = set(self.eos_ids(options))
        answers = []
        for i, row in enumerate(out.sequences.tolist()):
            count = len(row) - skip if beams is None else int((beams[i] >= 0).sum())
            tokens = row[skip : skip + count]
            end = next((at for at, token in enumerate(tokens) if token in eos), None)
            tokens = tokens if end is None else tokens[: end + 1]
            steps = [
                kept(out.scores[t][i].log_softmax(-1) if beams is None
                     else out.scores[t][beams[i, t]])
                for t in range(len(tokens))
            ]
            answers.append(
                {
                    "token_ids": tokens,
                    "finish_reason": "length" if end is None else "eos",
                    "score": None if beams is None else out.sequences_scores[i].item(),
                    "token_logprobs": [step[t].item() for step, t in zip(steps, tokens)],
                    "steps": steps,
                }
            )
        return answers

    def expected(self, ids, mask, options, prefix=None, draws=None):
        """generate(), but refused if a part of the answer has no meaning."""
        answers = self.generate(ids, mask, options, prefix, draws)
        for answer in answers:
            numbers = answer["token_logprobs"] + [answer["score"] or 0.0]
            if not answer["token_ids"] or any(torch.isnan(s).any() for s in answer["steps"]):
                raise Refused("the reference's answer is empty or not a number")
            if draws is None and not all(math.isfinite(n) and n > NO_SCORE for n in numbers):
                raise Refused("the rules leave no token")
        return answers
