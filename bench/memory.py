"""Peak memory of an export of a big session, in both modes: at most 200 MB and four times the
longest line.

python bench/memory.py [MEGABYTES]"""

import subprocess
import sys
import tempfile
from pathlib import Path

import session

PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    command = str(Path(sys.executable).parent / "open-token")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        longest = session.write(path, megabytes * 1_000_000)
        allowed = 200 + 4 * longest / 1e6
        print(
            f"{path.stat().st_size / 1e6:.0f} MB, longest line {longest / 1e6:.2f} MB, allowed {allowed:.0f} MB"
        )
        for mode in ("ndjson", "json"):
            words = [
                command,
                "export",
                str(path),
                f"mode={mode}",
                "-o",
                str(Path(folder) / "out"),
                "--quiet",
            ]
            run = subprocess.run(
                [sys.executable, "-c", PEAK, *words], capture_output=True, text=True, check=True
            )
            peak = int(run.stdout) / (1e6 if sys.platform == "darwin" else 1e3)
            print(f"  {mode:7} peak {peak:6.0f} MB   {peak / allowed:.2f} of what is allowed")


if __name__ == "__main__":
    main()
