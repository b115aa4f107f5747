"""Start-up of the installed command against `python -c pass`: CPU time, in turn, the least and the
middle of many runs.

python bench/startup.py"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

import session

RUNS = 20


def seconds(words: list[str]) -> float:
    """What a command takes of the processor, itself and for the system."""
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    _, status, used = os.wait4(os.posix_spawn(words[0], words, os.environ, file_actions=silent), 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    return used.ru_utime + used.ru_stime


def main() -> None:
    command = str(Path(sys.executable).parent / "open-token")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.jsonl"
        session.write(path, 2000)
        export = [command, "export", str(path), "--quiet"]
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "open-token --version": [command, "--version"],
            "open-token export, 2 KB": export,
            "the same, redact=none": [*export, "redact=none"],
            "the same, redact=pii": [*export, "redact=pii"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(RUNS):
            for name, words in commands.items():
                times[name].append(seconds(words))
        base = times["python -c pass"]
        for name, runs in times.items():
            least, middle = min(runs), statistics.median(runs)
            ratios = f"{least / min(base):5.2f} x   {middle / statistics.median(base):5.2f} x"
            print(f"  {name:26} {least * 1000:6.1f} ms   {middle * 1000:6.1f} ms   {ratios}")


if __name__ == "__main__":
    main()
