"""Secrets at random places and in random forms, looked for in what is written.

`tests/longrun/fuzz_redaction.py SECONDS [ROUND]`: a round is the same whenever it is run, and the first one
may be chosen."""

import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzzing.planting import case_of, documents, survives
from fuzzing.seeds import real

AT_MOST = 10
"""So many violations are shown; a fault shows itself many times."""


def main(words: list[str]) -> int:
    deadline = time.monotonic() + float(words[0] if words else 60)
    first = int(words[1]) if len(words) > 1 else 1
    found = documents(real())
    wrong: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in itertools.count(first):
            if time.monotonic() > deadline:
                break
            case = case_of(number, found)
            if case and (fault := survives(case, Path(folder))):
                wrong[fault, case.plant.rule, case.form] += 1
                if len(wrong) <= AT_MOST:
                    print(f"round {number}: {fault}: {case.plant.rule}, {case.form}, {case.words}")
    print(
        f"{number - first} rounds from {first} on, {sum(wrong.values())} violations of {len(wrong)} kinds"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
