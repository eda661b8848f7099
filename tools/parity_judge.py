"""Compares one row's answers; says whether a difference is a near-tie or unexplained."""

import math

import torch

from parity_reference import Noise

STATES_TOLERANCE = 1e-4  # hidden states and attention weights
SCORE_TOLERANCE = 1e-4   # log-probabilities and scores
NEAR_TIE = 1e-4          # a gap in logits below it is rounding's to decide
COPIES = 64              # answers under noise, which is a little stronger each time
AMPLITUDES = (2e-6, 1e-5, NEAR_TIE / 2)
NEVER = -87.0            # log of what float32 can hardly hold: sampling never draws it


class Different(Exception):
    """What differs, in words."""


def error_of(got, expected):
    """The largest |got - expected| / max(1, |expected|) of two tensors."""
    if got.shape != expected.shape:
        raise Different(f"shape {list(got.shape)} instead of {list(expected.shape)}")
    if got.numel() == 0:
        return 0.0
    return ((got - expected).abs() / expected.abs().clamp(min=1)).max().item()


def close(got, expected, tolerance, what):
    error = error_of(got, expected)
    if not error <= tolerance:
        raise Different(f"{what} off by {error:.3g}")
    return error


def number_error(got, expected, tolerance, what):
    if got is None or not math.isfinite(got):
        raise Different(f"{what} is {got} instead of {expected}")
    error = abs(got - expected) / max(1.0, abs(expected))
    if error > tolerance:
        raise Different(f"{what} is {got} instead of {expected}")
    return error


def pooled(states, pooling, normalize):
    """States of real places -> one vector."""
    vector = {
        "mean": lambda: states.mean(0),
        "max": lambda: states.max(0).values,
        "cls": lambda: states[0],
        "last": lambda: states[-1],
    }[pooling]()
    return vector / vector.norm() if normalize else vector


def judge_states(states, row, body, datum, embedding):
    """The error of /v1/encode's answer to one row; `states` are the reference's."""
    got, real = torch.tensor(embedding), row.real
    if body["pooling"] != "none":
        expected = pooled(states[real], body["pooling"], body["normalize"])
        return close(got, expected, STATES_TOLERANCE, "the pooled vector")
    masked = [i for i in range(len(row.ids)) if i not in real]
    if masked and got[masked].abs().max() > 0:
        raise Different("a masked place has a state")
    if datum["tokens"] != len(real):
        raise Different(f"{datum['tokens']} tokens instead of {len(real)}")
    return close(got[real], states[real], STATES_TOLERANCE, "the last hidden state")


def judge_self_attention(weights, row, got):
    """Weights between real places; what the reference gives masked queries has no meaning."""
    got, real = torch.tensor(got), row.real
    if got.shape != weights.shape:
        raise Different(f"attention shape {list(got.shape)} instead of {list(weights.shape)}")
    index = torch.tensor(real)
    pick = lambda w: w[:, :, index][:, :, :, index]  # noqa: E731
    return close(pick(got), pick(weights), STATES_TOLERANCE, "encoder attention")


def judge_attention(weights, got, what):
    return close(torch.tensor(got), weights, STATES_TOLERANCE, what)


def possible(step, top, options):
    """What counts of the reference's [V] and of `top_logprobs` at one place."""
    floor = NEVER if options.get("do_sample") else -math.inf
    return (step.masked_fill(step <= floor, -math.inf),
            [candidate for candidate in top if candidate["logprob"] > floor])


def judge_step(step, top, count, at):
    """The error of `top_logprobs` at one place; `step` holds the reference's [V]."""
    finite = int(torch.isfinite(step).sum())
    if len(top) != min(count, finite):
        raise Different(f"top_logprobs[{at}] has {len(top)} entries instead of "
                        f"{min(count, finite)}")
    worst, best = 0.0, step.sort(descending=True).values[: len(top)].tolist()
    for place, (candidate, nth) in enumerate(zip(top, best)):
        what = f"top_logprobs[{at}][{place}]"
        own = step[candidate["id"]].item()
        for expected in (own, nth):
            worst = max(worst, number_error(candidate["logprob"], expected, SCORE_TOLERANCE, what))
    return worst


def divisor(expected):
    """length ** length_penalty: what makes a sum of log-probabilities a score."""
    return sum(expected["token_logprobs"]) / expected["score"] if expected["score"] else 1.0


def score_error(got, expected, what):
    """Of the sums: scores may be tiny or huge."""
    if got is None or not math.isfinite(got):
        raise Different(f"{what} is {got} instead of {expected['score']}")
    scale, own = divisor(expected), expected["score"]
    error = abs(got - own) * abs(scale) / max(1.0, abs(own * scale))
    if error > SCORE_TOLERANCE:
        raise Different(f"{what} is {got} instead of {own}")
    return error


def judge_sequence(expected, got, options, at):
    """The error of one sequence's numbers; raises Different where ids or numbers differ."""
    if got["token_ids"] != expected["token_ids"]:
        raise Different(f"sequence {at} is {got['token_ids']} instead of {expected['token_ids']}")
    if got["finish_reason"] != expected["finish_reason"]:
        raise Different(f"sequence {at} ended by {got['finish_reason']} instead of "
                        f"{expected['finish_reason']}")
    worst = 0.0
    if expected["score"] is not None:
        worst = score_error(got["score"], expected, f"score of {at}")
    elif got["score"] is not None:
        raise Different(f"sequence {at} has a score without beams")
    total = sum(expected["token_logprobs"])
    worst = max(worst, number_error(got["logprob"], total, SCORE_TOLERANCE, f"logprob of {at}"))
    if len(got["token_logprobs"]) != len(expected["token_logprobs"]):
        raise Different(f"sequence {at} has {len(got['token_logprobs'])} token_logprobs")
    for i, (a, b) in enumerate(zip(got["token_logprobs"], expected["token_logprobs"])):
        what = f"token_logprobs[{i}] of {at}"
        worst = max(worst, number_error(a, b, SCORE_TOLERANCE, what))
    count = options.get("logprobs")
    for i, step in enumerate(expected["steps"] if count else []):
        step, top = possible(step, got["top_logprobs"][i], options)
        worst = max(worst, judge_step(step, top, count, i))
    return worst


def judge_sequences(expected, got, options):
    if len(got) != len(expected):
        raise Different(f"{len(got)} sequences instead of {len(expected)}")
    return max(judge_sequence(e, g, options, i) for i, (e, g) in enumerate(zip(expected, got)))


def first_gap(expected, got):
    """How far the reference puts its own token above the one that was chosen instead."""
    for i, (own, other) in enumerate(zip(expected["token_ids"], got["token_ids"])):
        if own != other:
            step = expected["steps"][i]
            return (step[own] - step[other]).item()
    return math.inf


def swapped(expected, got):
    """The same sequences in another order: the largest gap between the sums of two that stand at
    one place."""
    own = {tuple(e["token_ids"]): e for e in expected}
    if sorted(own) != sorted(tuple(g["token_ids"]) for g in got):
        return math.inf
    return max(
        abs(own[tuple(g["token_ids"])]["score"] - e["score"]) * abs(divisor(e))
        for e, g in zip(expected, got)
    )


def near_tie(reference, asked, expected, got, mode):
    """Why the difference is a near-tie, or None: what counts are gaps below NEAR_TIE."""
    row, options, prefix = asked
    if len(got) != len(expected) or agrees(expected, got, options):
        return None  # the choices are the same; it is the numbers that differ
    gap = math.inf
    if mode == "greedy":
        gap = first_gap(expected[0], got[0])
    elif mode == "beams":
        gap = swapped(expected, got)
    if gap < NEAR_TIE:
        return "tie" if gap == 0 else f"gap {gap:.2g}"
    draws = [g["token_ids"] for g in got] * COPIES if mode == "sample" else None
    for amplitude in AMPLITUDES:
        shaken = reference.generate(
            row.ids, row.meant, options, prefix, draws, Noise(amplitude, 1), COPIES
        )
        count = len(expected)
        if any(agrees(shaken[i : i + count], got, options) for i in range(0, len(shaken), count)):
            return f"gap below {2 * amplitude:.0e}"
    return None


def agrees(expected, got, options):
    """Whether both chose the same tokens, when sampling among the same tokens."""
    if [e["token_ids"] for e in expected] != [g["token_ids"] for g in got]:
        return False
    if not options.get("do_sample") or not options.get("logprobs"):
        return True
    return all(
        same_support(*possible(step, top, options), options["logprobs"])
        for e, g in zip(expected, got)
        for step, top in zip(e["steps"], g["top_logprobs"])
    )


def same_support(step, top, count):
    best = set(step.topk(len(top)).indices.tolist())
    finite = int(torch.isfinite(step).sum())
    return len(top) == min(count, finite) and {c["id"] for c in top} == best
