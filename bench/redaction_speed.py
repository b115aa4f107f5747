"""What redaction costs: instructions of an export at each level, over those without redaction.

    python bench/redaction_speed.py [MEGABYTES]

Instructions are counted by valgrind, so that the load of the machine does not matter. The text is a
session of so many megabytes (3) in which no string stands twice. What is counted is the difference
between an export of twice and of once that size, so that start-up and the loading of rules are no
part of it. Growth compares the second half of four times that size with it."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import session

LEVELS = ("none", "secrets", "pii")
EXPORT = """
import gc, io, sys
from pathlib import Path
from open_token.api import load_context
from open_token.pipeline import export
from open_token.sources.source import Source
gc.disable()
class Sink(io.RawIOBase):
    def write(self, data): return len(data)
context = load_context({"mode": "ndjson", "redact": sys.argv[2]})
export(Source.of(Path(sys.argv[1])), Sink(), context)
"""
_COLLECTED = re.compile(r"Collected : (\d+)")


def count_instructions(path: Path, level: str) -> int:
    """Return the instructions of one export in a process of its own."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*words, sys.executable, "-c", EXPORT, str(path), level]
    run = subprocess.run(command, capture_output=True, text=True)
    match = _COLLECTED.search(run.stderr)
    if run.returncode or match is None:
        sys.exit(run.stderr[-2000:])
    return int(match[1])


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{times}.jsonl" for times in (1, 2, 4)]
        for times, path in zip((1, 2, 4), paths, strict=True):
            session.write(path, times * size * 1_000_000, fresh=True)
        baseline = 0
        for level in LEVELS:
            # Databases of rules are compiled once and kept for later runs.
            subprocess.run([sys.executable, "-c", EXPORT, str(paths[1]), level], check=True)
            one, two, four = (count_instructions(path, level) for path in paths)
            cost = two - one
            baseline = baseline or cost
            print(
                f"{level}: {cost / 1e6:.0f} million instructions for {size} MB, "
                f"{cost / baseline:.2f} times none; growth {(four - two) / 2 / cost:.2f}"
            )


if __name__ == "__main__":
    main()
