"""Whole collections: `archive` with one and with two jobs, beside tools that read them, too.

    python bench/many.py [COUNT [NAME ...]]

COUNT sessions of some 130 kB are made first, 500 by default. Each command runs once, with a fresh
output; NAME selects some of them. Processor time is that of the command and its children, start-up included.
Peers are measured where `bench/peers.sh` installed them.
"""

import contextlib
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sessions_corpus

_PEERS = Path(__file__).parent / "out" / "peers"
_TIMEOUT = 240
_PR_SET_CHILD_SUBREAPER = 36


def build_commands(home: Path, out: Path) -> dict[str, list[str]]:
    """Return the commands by their names."""
    projects = str(home / ".claude" / "projects")
    ours = [sys.executable, "-m", "open_token"]
    archive = [*ours, "archive", str(out / "archive"), "--quiet", "--jobs"]
    dataset = [*ours, "dataset", projects, "-o", str(out / "dataset"), "--quiet", "--jobs"]
    jq = f"find {projects} -name '*.jsonl' -exec jq -c . {{}} + > {out / 'jq'}"
    return {
        "archive-1": [*archive, "1"],
        "archive-2": [*archive, "2"],
        "index-1": [*ours, "index", "--quiet", "--jobs", "1"],
        "index-2": [*ours, "index", "--quiet", "--jobs", "2"],
        "dataset-1": [*dataset, "1"],
        "dataset-2": [*dataset, "2"],
        "jq": ["sh", "-c", jq],
        "claude-code-log": [
            str(_PEERS / "claude-code-log/bin/claude-code-log"),
            "convert",
            "--all-projects",
            "--output",
            str(out / "log"),
        ],
        "claude-code-transcripts": [
            str(_PEERS / "claude-code-transcripts/bin/claude-code-transcripts"),
            "all",
            "--source",
            projects,
            "--output",
            str(out / "transcripts"),
            "--quiet",
        ],
        "dataclaw": [
            str(_PEERS / "dataclaw/bin/dataclaw"),
            "export",
            "--source",
            "claude",
            "--no-push",
            "--all-projects",
            "--output",
            str(out / "dataclaw.jsonl"),
        ],
        "agentsview": ["agentsview", "sync", "--full"],
    }


def run(name: str, home: Path) -> str:
    """Run one command and return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        command = build_commands(home, out)[name]
        if shutil.which(command[0]) is None:
            return "not installed"
        env = {**os.environ, "HOME": str(home), "OPEN_TOKEN_HOME": str(out / "open-token")}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        with (out / "messages").open("wb") as messages:
            try:
                code = subprocess.run(
                    command, env=env, stdout=messages, stderr=messages, timeout=_TIMEOUT
                ).returncode
            except subprocess.TimeoutExpired:
                return f"stopped after {_TIMEOUT} s"
        wall = time.monotonic() - started
        _wait_for_orphans()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if code:
            last = (out / "messages").read_text(errors="replace").strip().splitlines()[-1:]
            return f"exit {code}: {last}"
        return f"{cpu:7.1f} s of CPU  {wall:7.1f} s"


def _adopt_orphans() -> None:
    """Become the parent of processes that outlive theirs, so that their time is counted."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def main() -> None:
    """Print a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    _adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        size = sessions_corpus.write_home(home, count)
        print(f"{count:,} sessions, {size / 1e6:,.0f} MB; load {os.getloadavg()[0]:.1f}")
        for name in sys.argv[2:] or build_commands(home, home):
            print(f"{name:24} {run(name, home)}", flush=True)


if __name__ == "__main__":
    main()
