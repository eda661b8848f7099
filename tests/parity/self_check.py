"""Shows that the comparison can fail: a right stand-in passes, each wrong one is found out."""

import os

import checkpoints
from parity_reference import Reference
from parity_session import Session
from stand_in import BREAKS, StandIn

FAMILY, SEED, COMBOS = "bart", 6, 24


class Now:
    """Instead of a pool of threads: sampling of the reference's is patched for one at a time."""

    def __init__(self, function, path, body):
        self.answer = function(path, body)

    @classmethod
    def submit(cls, function, *arguments):
        return cls(function, *arguments)

    @staticmethod
    def shutdown():
        pass

    def result(self):
        return self.answer


class Client:
    def __init__(self, stand_in):
        self.stand_in = stand_in

    @staticmethod
    def version():
        return None

    def post(self, path, body):
        return 200, self.stand_in.answer(path, body)


def compare(reference, broken, keep):
    client = Client(StandIn(reference, broken))
    top = reference.target_vocabulary
    session = Session(reference, client, SEED, top, f"self-check-{broken}", keep)
    session.pool = Now
    return session.run(6, 4, COMBOS)


def check(out):
    """What is wrong with the comparison, in words; empty: nothing."""
    folder = os.path.join(out, "models", "self-check")
    checkpoints.make(FAMILY, SEED, folder)
    reference, wrong = Reference(folder), []
    for broken in (None, *BREAKS):
        result = compare(reference, broken, os.path.join(out, "self-check"))
        differing = [kind for kind, n in result["rows"].items() if result["equal"][kind] < n]
        if broken is None and differing:
            wrong.append(f"a right stand-in differs in {differing}")
        if broken and BREAKS[broken] not in differing:
            wrong.append(f"wrong {broken} were not found out")
    return wrong
