"""What redaction costs: instructions of an export at each level, over those without redaction.

    python bench/redaction_speed.py [MEGABYTES]

Instructions are counted by valgrind, so that the load of the machine does not matter; those of an
export of one line, which are start-up, are taken off. The text is the longest real session of
../shared, and a session of so many megabytes (3) in which no string stands twice. Growth is the
ratio for twice that size."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import session

LEVELS = ("none", "secrets", "pii")
LONGEST_SESSION = session.CORPUS / "cca_v0.2.105_first2.3MB.jsonl"
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


def measure(path: Path, small: Path) -> dict[str, int]:
    """Return the instructions of an export at each level, without start-up."""
    counts = {}
    for level in LEVELS:
        # The first run may compile rules, which is no part of the cost of text.
        start = count_instructions(small, level)
        counts[level] = count_instructions(path, level) - start
    return counts


def print_counts(title: str, counts: dict[str, int]) -> None:
    parts = [f"{level} {count / counts['none']:.2f}" for level, count in counts.items()]
    print(f"{title}: none {counts['none'] / 1e6:.0f} million instructions; times none:", *parts[1:])


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        twice = Path(folder) / "twice.jsonl"
        small = Path(folder) / "small.jsonl"
        session.write(path, size * 1_000_000, fresh=True)
        session.write(twice, 2 * size * 1_000_000, fresh=True)
        session.write(small, 1_000, fresh=True)
        for level in LEVELS:
            # Databases of rules are compiled once and kept for later runs.
            subprocess.run([sys.executable, "-c", EXPORT, str(path), level], check=True)
        if LONGEST_SESSION.exists():
            print_counts("longest real session", measure(LONGEST_SESSION, small))
        counts = measure(path, small)
        print_counts(f"{size} MB, no string twice", counts)
        for level, count in measure(twice, small).items():
            print(f"  twice the size at {level}: {count / counts[level]:.2f} times")


if __name__ == "__main__":
    main()
