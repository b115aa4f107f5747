"""Start-up of the installed command against `python -c pass`, medians of many runs in turn.

python bench/startup.py
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import session


def main() -> None:
    command = str(Path(sys.executable).parent / "open-token")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.jsonl"
        session.write(path, 2000)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "open-token --version": [command, "--version"],
            "open-token export, 2 KB": [command, "export", str(path), "--quiet"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(20):
            for name, words in commands.items():
                start = time.perf_counter()
                subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
                times[name].append(time.perf_counter() - start)
        base = statistics.median(times["python -c pass"])
        for name, runs in times.items():
            middle = statistics.median(runs)
            print(f"  {name:26} {middle * 1000:6.1f} ms   {middle / base:5.2f} x")


if __name__ == "__main__":
    main()
