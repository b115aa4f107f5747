"""`open-token sessions` on a home with 2,000 conversations of six runtimes: nothing remembered,
then remembered.

python bench/sessions.py [COUNT]"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from open_token.registry import READERS

TAIL = 1 << 20


def claude_code(home: Path, n: int) -> None:
    name, project = str(uuid.UUID(int=n << 96)), f"/home/you/project{n % 40}"
    fact = {
        "sessionId": name,
        "cwd": project,
        "version": "2.0.0",
        "gitBranch": "main",
        "userType": "external",
    }
    message = {
        "role": "user",
        "content": f"look at part {n}: " + "the parser reads one line too many. " * 20,
    }
    lines = [{"type": "file-history-snapshot", "messageId": name, "snapshot": {}}]
    lines += [
        {"parentUuid": None, "type": "user", "uuid": f"{name}-{k}", "message": message, **fact}
        for k in range(30)
    ]
    write(home / ".claude" / "projects" / project.replace("/", "-") / f"{name}.jsonl", lines, n)


def codex(home: Path, n: int) -> None:
    name, when = str(uuid.UUID(int=n << 96)), f"2026-01-{n % 28 + 1:02d}"
    meta = {"id": name, "cwd": f"/home/you/project{n % 40}", "instructions": "Be brief. " * 1500}
    lines = [{"timestamp": f"{when}T10:00:00Z", "type": "session_meta", "payload": meta}]
    words = {"type": "user_message", "message": f"change part {n}"}
    lines += [
        {"timestamp": f"{when}T10:00:01Z", "type": "event_msg", "payload": words} for _ in range(30)
    ]
    write(
        home / ".codex/sessions" / when.replace("-", "/") / f"rollout-{when}T10-00-00-{name}.jsonl",
        lines,
        n,
    )


def gemini_cli(home: Path, n: int) -> None:
    name = str(uuid.UUID(int=n << 96))
    conversation = {
        "id": name,
        "timestamp": "2026-01-02T03:04:05Z",
        "type": "user",
        "content": f"explain part {n} " * 30,
    }
    document = {"sessionId": name, "projectHash": f"{n:064x}", "messages": [conversation] * 200}
    path = (
        home
        / ".gemini"
        / "tmp"
        / f"{n % 40:064x}"
        / "chats"
        / f"session-2026-01-02T03-04-{name[:8]}.json"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2))
    os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))


def copilot_cli(home: Path, n: int) -> None:
    name = str(uuid.UUID(int=n << 96))
    start = {"sessionId": name, "context": {"cwd": f"/home/you/project{n % 40}"}}
    event = {"id": name, "timestamp": "2026-01-02T03:04:05Z", "parentId": None}
    lines = [{"type": "session.start", "data": start, **event}]
    lines += [
        {"type": "user.message", "data": {"content": f"test part {n} " * 20}, **event}
        for _ in range(30)
    ]
    write(home / ".copilot" / "session-state" / name / "events.jsonl", lines, n)


def pi(home: Path, n: int) -> None:
    name = str(uuid.UUID(int=n << 96))
    lines = [{"type": "session", "id": name, "version": 3, "cwd": f"/home/you/project{n % 40}"}]
    message = {"role": "user", "content": [{"type": "text", "text": f"rename part {n} " * 20}]}
    lines += [
        {"type": "message", "id": str(k), "parentId": None, "message": message} for k in range(30)
    ]
    write(
        home / ".pi" / "agent" / "sessions" / f"--project{n % 40}--" / f"2026_{name}.jsonl",
        lines,
        n,
    )


def qwen_code(home: Path, n: int) -> None:
    name = str(uuid.UUID(int=n << 96))
    message = {"role": "user", "parts": [{"text": f"document part {n} " * 20}]}
    record = {
        "sessionId": name,
        "cwd": f"/home/you/project{n % 40}",
        "type": "user",
        "message": message,
    }
    write(
        home / ".qwen/projects" / f"project{n % 40}" / "chats" / f"{name}.jsonl", [record] * 30, n
    )


def write(path: Path, lines: list[dict[str, object]], n: int) -> None:
    """A session whose middle is long: a hole, which costs no disk, and which nobody should read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with path.open("wb") as out:
        out.write(data)
        out.seek(TAIL, os.SEEK_CUR)
        out.write(b"\n" + data[-2000:].partition(b"\n")[2])
    os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    makers = [
        claude_code,
        claude_code,
        claude_code,
        codex,
        codex,
        gemini_cli,
        copilot_cli,
        pi,
        qwen_code,
    ]
    makers = [maker for maker in makers if maker.__name__ in READERS]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for n in range(count):
            makers[n % len(makers)](home, n)
        env = {**os.environ, "HOME": folder, "OPEN_TOKEN_HOME": f"{folder}/open-token"}
        command = [sys.executable, "-m", "open_token", "sessions", "--json", "--quiet"]
        times: dict[str, list[tuple[float, float]]] = {"nothing remembered": [], "remembered": []}
        for _ in range(5):
            (home / "open-token" / "cache" / "sessions.json").unlink(missing_ok=True)
            for runs in times.values():
                start, spent = time.perf_counter(), cpu_seconds()
                out = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout
                runs.append((time.perf_counter() - start, cpu_seconds() - spent))
                found = json.loads(out)["sessions"]
                assert len(found) == count, len(found)
                assert all(session["title"] for session in found)
        print(f"  {count:,} conversations, all of them listed, start-up included")
        for name, runs in times.items():
            wall, cpu = (statistics.median(column) * 1000 for column in zip(*runs, strict=True))
            print(f"  {name:20} {wall:7.0f} ms   {cpu:7.0f} ms of CPU")


if __name__ == "__main__":
    main()
