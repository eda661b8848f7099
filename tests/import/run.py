#!/usr/bin/env python3
"""Tests of tools/import_checkpoint.py and of examples/annalog: what PyTorch says against what the daemon says.

    SEQD=build/release/seqd python3 tests/import/run.py [PART_OF_A_NAME...]

Needs torch and safetensors; what needs more is skipped where that is missing.  Prints ok and not ok lines and, as the
last one, `N passed, N failed`.
"""
import importlib.util
import pathlib
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]


class Lines(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = self.failed = 0

    def line(self, word, test, more=""):
        print(f"{word} - import: {test.id().split('.')[-1].removeprefix('test_').replace('_', ' ')}{more}", flush=True)

    def addSuccess(self, test):
        self.passed += 1
        self.line("ok", test)

    def addSkip(self, test, reason):
        self.line("ok", test, f" # skip {reason}")

    def addFailure(self, test, error):
        self.failed += 1
        self.line("not ok", test)
        print(self._exc_info_to_string(error, test), flush=True)

    addError = addFailure


def main():
    if missing := [name for name in ("torch", "safetensors") if importlib.util.find_spec(name) is None]:
        sys.exit(f"not installed: {', '.join(missing)}")
    warnings.filterwarnings("ignore", module=r"torch\.")
    suite = unittest.defaultTestLoader.discover(str(HERE))
    wanted, lines = sys.argv[1:], Lines()

    def tests(parts):
        for part in parts:
            yield from tests(part) if isinstance(part, unittest.TestSuite) else [part]

    unittest.TestSuite(t for t in tests(suite) if not wanted or any(w in t.id() for w in wanted)).run(lines)
    print(f"{lines.passed} passed, {lines.failed} failed")
    sys.exit(1 if lines.failed or not lines.passed else 0)


if __name__ == "__main__":
    main()
