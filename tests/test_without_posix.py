"""The command line and the library run where there are no POSIX modules, as on Windows."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POSIX = (
    "fcntl",
    "grp",
    "posix_ipc",
    "pty",
    "pwd",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
)

BLOCK = f"""
import sys
for name in {POSIX!r}:
    sys.modules[name] = None  # an import of it raises ImportError
"""

# The server needs a Unix system, and says so; everything else must be importable.
IMPORT_ALL = """
import importlib, pathlib, pkgutil
import open_token
failed = []
count = 0
for module in pkgutil.walk_packages(open_token.__path__, "open_token."):
    if module.name.startswith("open_token.server") or module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as problem:
        failed.append(f"{module.name}: {problem}")
    count += 1
assert count > 300, count
assert not failed, failed
"""

# Windows as far as it can be had here: the name of the platform, its module for locks, and a system
# interface without what Python does not have there. Modules of the standard library choose their
# implementation when they are imported, so these come first.
WINDOWS = """
import asyncio, concurrent.futures.process, ctypes, multiprocessing.pool, importlib.resources, os, pathlib, platform, shutil, signal, socket, sqlite3
import subprocess, tempfile, threading, types, uuid, zoneinfo
locks = types.ModuleType("msvcrt")
locks.LK_NBLCK = 2
locks.locking = lambda descriptor, mode, count: None
sys.modules["msvcrt"] = locks
missing = (
    "fork", "getuid", "geteuid", "getgid", "killpg", "setsid", "sched_getaffinity", "pread", "pwrite",
    "posix_fadvise", "fchown", "chown", "mkfifo", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY",
)
for name in missing:
    if hasattr(os, name):
        delattr(os, name)
for name in ("pthread_sigmask", "SIGHUP", "SIGKILL", "SIGTSTP", "SIGCONT", "SIGWINCH"):
    if hasattr(signal, name):
        delattr(signal, name)
sys.platform = "win32"
from open_token.cli import main

def use(*words, status=0):
    print("==", *words, file=sys.stderr, flush=True)
    ended = main([str(word) for word in words])
    assert ended == status, (words, ended)

"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "OPEN_TOKEN_HOME": str(folder / "ot"),
        "OPEN_TOKEN_DEBUG": "1",
    }
    command = [sys.executable, "-c", BLOCK + code]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    done = run(IMPORT_ALL, tmp_path)
    assert done.returncode == 0, done.stderr[-1500:]


def test_the_command_line_works(tmp_path: Path) -> None:
    examples = ROOT / "examples"
    steps = [
        f'use("export", {str(examples / "claude_code.jsonl")!r}, "redact=pii", "-o", "one.json")',
        'use("validate", "one.json")',
        'use("verify", "one.json")',
        'use("export", "one.json", "--to", "html", "-o", "one.html")',
        f'use("export", {str(examples / "codex.jsonl")!r}, "mode=ndjson", "-o", "two.ndjson")',
        f'use("export", {str(examples / "codex.jsonl")!r}, "max_bytes=8000", "-o", "three.json")',
        'use("diff", "one.json", "two.ndjson", "-q", status=1)',
        f'use("redact", {str(examples / "claude_code.jsonl")!r}, "-o", "four.json")',
        'use("archive", "archive", "-q")',
        'use("search", "tide", status=1)',
        'use("doctor", "--json")',
        'use("handoff", "one.json", "--to", "codex", "--cwd", ".", "-q")',
        'use("sessions", "--json")',
        # Most of the events of a session that is larger than the memory for them are in a file.
        "from open_token.storage.spool import Spool",
        "spool = Spool(0)",
        "for number in range(2000): spool.append({'seq': number}, 10)",
        "assert [event['seq'] for event in spool] == list(range(2000))",
        'use("skill", "install", "--for", "universal", "-q")',
        'use("hook", "install", "--for", "claude-code", "-q")',
    ]
    done = run(WINDOWS + "\n".join(steps), tmp_path)
    assert done.returncode == 0, done.stderr[-2500:]
    assert (tmp_path / "one.html").stat().st_size > 10_000
