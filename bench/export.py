"""Speed of an export against the limit (parse and print the same lines), and against the peers, in
one run.

    python bench/export.py [MEGABYTES]

Ours: Claude Code JSONL to ndjson, default redaction and integrity, one process. Times are CPU
seconds, the best of three processes, each of which runs ours twice or, if it is short, more often;
for ours and the limit without start-up, for whole commands with it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import session

PEERS = Path(__file__).parent / "out" / "peers"
OPEN_TOKEN = Path(sys.executable).parent / "open-token"

LIMIT = """
import sys, time, orjson
lines = open(sys.argv[1], "rb").read().splitlines()
start = time.process_time()
for line in lines: orjson.dumps(orjson.loads(line))
print(time.process_time() - start)
"""
OURS = """
import gc, io, sys, time
from pathlib import Path
from open_token.api import load_context
from open_token.pipeline import export
from open_token.sources.source import Source
gc.disable()
class Sink(io.RawIOBase):
    def write(self, data): return len(data)
def run(path):
    words = {"mode": "ndjson", **dict(word.split("=") for word in sys.argv[2:])}
    export(Source.of(Path(path)), Sink(), load_context(words))
all_runs = []
while len(all_runs) < 2 or sum(all_runs) < 0.3:
    start = time.process_time()
    run(sys.argv[1])
    all_runs.append(time.process_time() - start)
print(min(all_runs))
"""
COMMAND = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""


def timed(code: str, *words: str) -> float:
    """The best of three runs."""
    command = [sys.executable, "-c", code, *words]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(run.stdout.split()[-1]) for run in runs)


def show(name: str, seconds: float, size: float, than: str = "") -> None:
    print(f"  {name:34} {seconds:7.2f} s  {size / seconds:6.0f} MB/s  {than}")


def compare_with_limit(path: Path, half: Path) -> None:
    """Ours with several options, as times of the limit; and how time grows with size."""
    size = path.stat().st_size / 1e6
    limit = timed(LIMIT, str(path))
    show("limit: orjson.loads + dumps", limit, size)
    for words in ([], ["redact=none"], ["redact=none", "integrity=none"], ["redact=pii"]):
        seconds = timed(OURS, str(path), *words)
        show(
            f"ours: {' '.join(words) or 'secrets, hash'}",
            seconds,
            size,
            f"{seconds / limit:.2f} x the limit",
        )
    growth = timed(OURS, str(path)) / timed(OURS, str(half))
    print(f"  time(2n) / time(n)                 {growth:7.2f}")


def compare_with_peers(path: Path, out: Path) -> None:
    """Whole commands side by side."""
    size = path.stat().st_size / 1e6
    ours = timed(COMMAND, str(OPEN_TOKEN), "export", str(path), "mode=ndjson", "-o", str(out))
    show("open-token export", ours, size)
    commands = {
        "claude-code-log": ["claude-code-log", str(path), "--format", "json", "-o", f"{out}.json"],
        "atif-make": ["atif-make", "convert", str(path), "-o", str(out)],
    }
    for name, words in commands.items():
        program = PEERS / name / "bin" / words[0]
        if not program.exists():
            print(f"  {name}: not installed (bench/peers.sh installs it); skipped")
            continue
        seconds = timed(COMMAND, str(program), *words[1:])
        show(name, seconds, size, f"{seconds / ours:.2f} x ours")


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        path, half = Path(folder) / "session.jsonl", Path(folder) / "half.jsonl"
        session.write(path, megabytes * 1_000_000)
        session.write(half, megabytes * 500_000)
        kind = "real sessions repeated" if session.real_lines() else "a made session"
        lines = sum(1 for _ in path.open("rb"))
        print(f"{path.stat().st_size / 1e6:.1f} MB of Claude Code JSONL ({kind}), {lines:,} lines")
        compare_with_limit(path, half)
        compare_with_peers(path, Path(folder) / "out")


if __name__ == "__main__":
    main()
