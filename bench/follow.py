"""How long after a line is written does `export --follow` write its event: the median and the
slowest of many.

    python bench/follow.py [MEGABYTES]

A session of that size (20 by default) is there already; then a line is appended every 50 ms."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import session

LINES = 60
LONGEST = 60.0


def wait(path: Path, size: int) -> int:
    """Until a file is larger; its size then."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        now = path.stat().st_size if path.exists() else 0
        if now > size:
            return now
        time.sleep(0.0005)
    raise SystemExit("nothing was written")


def settled(path: Path) -> int:
    """The size of a file that has stopped growing."""
    size = wait(path, 0)
    quiet = time.monotonic()
    while time.monotonic() - quiet < 2:
        now = path.stat().st_size
        if now != size:
            size, quiet = now, time.monotonic()
        time.sleep(0.05)
    return size


def main() -> None:
    """Follow, append, measure."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        conversation, out = Path(folder) / "session.jsonl", Path(folder) / "out.ndjson"
        session.write(conversation, megabytes * 1_000_000)
        command = [
            sys.executable,
            "-m",
            "open_token",
            "export",
            str(conversation),
            "--follow",
            "-o",
            str(out),
            "-q",
        ]
        with subprocess.Popen(command) as process:
            size = settled(out)
            delays = []
            for number in range(LINES):
                record = {
                    "type": "user",
                    "uuid": f"live-{number}",
                    "message": {"role": "user", "content": "go on"},
                }
                line = (
                    json.dumps({**record, "sessionId": "live", "timestamp": "2026-01-01T00:00:00Z"})
                    + "\n"
                )
                with conversation.open("a") as stream:
                    stream.write(line)
                start = time.perf_counter()
                size = wait(out, size)
                delays.append(1000 * (time.perf_counter() - start))
                time.sleep(0.05)
                size = out.stat().st_size
            process.terminate()
        middle, slowest = statistics.median(delays), max(delays)
        print(
            f"follow  {megabytes} MB session, {LINES} lines: median {middle:.0f} ms, slowest {slowest:.0f} ms"
        )


if __name__ == "__main__":
    main()
