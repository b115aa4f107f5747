"""Sessions of Gemini CLI: a line about the whole, then one a message, in the folder that it gave to
the project."""

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Answer, Call, Prompt, Talk, iso, made_uuid
from open_token.handoff.target import Scene, Session
from open_token.storage.files import read_optional

TITLE = "Gemini CLI"
SEEN = "0.61.0"
_MOST_FOLDERS = 100


def session(talk: Talk, scene: Scene) -> Session:
    """The file, and the mark that ties its folder to the project.

    The name ends otherwise than the id begins: on resuming, the clean-up of 0.61 deletes every file
    that ends so."""
    name = made_uuid(talk, "gemini-cli", scene.cwd, scene.copy)
    root = Path(scene.env.get("GEMINI_CLI_HOME") or scene.home) / ".gemini"
    folder = root / "tmp" / _slug(root, scene.cwd)
    ending = made_uuid(talk, name, "ending")[:8]
    path = folder / "chats" / f"session-{iso(talk.began)[:16].replace(':', '-')}-{ending}.jsonl"
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in _lines(talk, name, scene.cwd))
    files = {path: lines}
    mark = folder / ".project_root"
    if read_optional(mark) is None:
        files[mark] = scene.cwd.encode()
    return Session(name, files, [["gemini", "--resume", name]], ["gemini", "--session-file"])


def _slug(root: Path, cwd: str) -> str:
    """The folder that the project has, or one that no other project has."""
    known = _registered(root, cwd)
    if known:
        return known
    base = re.sub(r"[^a-z0-9]+", "-", Path(cwd).name.lower()).strip("-") or "project"
    for number in range(_MOST_FOLDERS):
        slug = f"{base}-{number}" if number else base
        mark = read_optional(root / "tmp" / slug / ".project_root")
        if mark is None or mark.decode("utf-8", "replace").strip() == cwd:
            return slug
    return hashlib.sha256(cwd.encode()).hexdigest()


def _registered(root: Path, cwd: str) -> str | None:
    try:
        known = msgspec.json.decode(read_optional(root / "projects.json") or b"{}")["projects"][cwd]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return known if isinstance(known, str) and re.fullmatch(r"[a-z0-9-]+", known) else None


def _lines(talk: Talk, name: str, cwd: str) -> list[dict[str, Any]]:
    about = {"sessionId": name, "projectHash": hashlib.sha256(cwd.encode()).hexdigest()}
    moments = {"startTime": iso(talk.began), "lastUpdated": iso(talk.ended)}
    made: list[dict[str, Any]] = [about | moments | {"kind": "main", "summary": talk.title}]
    for number, turn in enumerate(talk.turns, 1):
        line: dict[str, Any] = {"id": f"m{number:06d}", "timestamp": iso(turn.ms)}
        if isinstance(turn, Prompt):
            made.append(line | {"type": "user", "content": [{"text": turn.text}]})
        else:
            made.append(line | _answer(turn))
    return made


def _answer(turn: Answer) -> dict[str, Any]:
    line: dict[str, Any] = {
        "type": "gemini",
        "content": turn.text,
        "model": turn.model or "unknown",
    }
    if turn.calls:
        line["toolCalls"] = [_call(call) for call in turn.calls]
    return line


def _call(call: Call) -> dict[str, Any]:
    answer = {
        "id": call.id,
        "name": call.tool,
        "response": {"error" if call.failed else "output": call.output},
    }
    return {
        "id": call.id,
        "name": call.tool,
        "args": call.arguments,
        "status": "error" if call.failed else "success",
        "timestamp": iso(call.ms),
        "result": [{"functionResponse": answer}],
    }
