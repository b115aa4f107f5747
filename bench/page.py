"""Size and time of a page against the JSON export of the same session, and its memory.

    python bench/page.py [MEGABYTES]

Times are CPU seconds of a process, the best of three, default options, without start-up.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import session

RUN = """
import gc, resource, sys, time
from pathlib import Path
from open_token.api import load_context
from open_token.pipeline import export
from open_token.sources.source import Source
gc.disable()
path, to = Path(sys.argv[1]), sys.argv[2]
with open(sys.argv[3], "wb") as out:
    start = time.process_time()
    receipt = export(Source.of(path), out, load_context({}), to=None if to == "json" else to)
    spent = time.process_time() - start
print(spent, receipt.bytes, receipt.events, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measured(path: Path, to: str, out: Path) -> list[float]:
    """CPU seconds, bytes, events and the highest memory in MiB; the fastest of three runs."""
    command = [sys.executable, "-c", RUN, str(path), to, str(out)]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    return min([float(word) for word in run] for run in runs)


def main() -> None:
    """Print a table."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        session.write(path, megabytes * 1_000_000)
        for to in ("json", "html", "markdown"):
            seconds, size, events, memory = measured(path, to, Path(folder, "out"))
            print(
                f"{to:9} {seconds:6.2f} s  {size / 1e6:6.1f} MB  {events:,.0f} events  {memory:,.0f} MiB"
            )


if __name__ == "__main__":
    main()
