"""Write a session of Gemini CLI: a header line, then one line a message.

The file goes into the folder that Gemini CLI assigned to the project.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import (
    Answer,
    Call,
    HandoffConversation,
    Prompt,
    derive_uuid,
    format_timestamp,
)
from open_token.handoff.session import HandoffDestination, HandoffSession
from open_token.storage.files import read_optional

TITLE = "Gemini CLI"
SEEN = "0.61.0"
_MAX_FOLDERS = 100
_SLUG = re.compile(r"[a-z0-9-]+")


def build_session(conversation: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Build the session file, and the marker file that ties its folder to the project.

    The file name must not end with the beginning of the session id: on resuming, the clean-up of
    0.61 deletes every such file.
    """
    session_id = derive_uuid(conversation, "gemini-cli", scene.cwd, scene.copy)
    root = Path(scene.env.get("GEMINI_CLI_HOME") or scene.home) / ".gemini"
    folder = root / "tmp" / _find_project_folder(root, scene.cwd)
    suffix = derive_uuid(conversation, session_id, "ending")[:8]
    stamp = format_timestamp(conversation.started_ms)[:16].replace(":", "-")
    path = folder / "chats" / f"session-{stamp}-{suffix}.jsonl"
    lines = _build_lines(conversation, session_id, scene.cwd)
    files = {path: b"".join(msgspec.json.encode(line) + b"\n" for line in lines)}
    marker = folder / ".project_root"
    if read_optional(marker) is None:
        files[marker] = scene.cwd.encode()
    commands = [["gemini", "--resume", session_id]]
    return HandoffSession(session_id, files, commands, ["gemini", "--session-file"])


def _find_project_folder(root: Path, cwd: str) -> str:
    """Return the folder name of the project, or a new one that no other project has."""
    registered = _read_registered_folder(root, cwd)
    if registered:
        return registered
    base = re.sub(r"[^a-z0-9]+", "-", Path(cwd).name.lower()).strip("-") or "project"
    for number in range(_MAX_FOLDERS):
        slug = f"{base}-{number}" if number else base
        marker = read_optional(root / "tmp" / slug / ".project_root")
        if marker is None or marker.decode("utf-8", "replace").strip() == cwd:
            return slug
    return hashlib.sha256(cwd.encode()).hexdigest()


def _read_registered_folder(root: Path, cwd: str) -> str | None:
    registry = read_optional(root / "projects.json") or b"{}"
    try:
        slug = msgspec.json.decode(registry)["projects"][cwd]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return slug if isinstance(slug, str) and _SLUG.fullmatch(slug) else None


def _build_lines(
    conversation: HandoffConversation, session_id: str, cwd: str
) -> list[dict[str, Any]]:
    header = {
        "sessionId": session_id,
        "projectHash": hashlib.sha256(cwd.encode()).hexdigest(),
        "startTime": format_timestamp(conversation.started_ms),
        "lastUpdated": format_timestamp(conversation.ended_ms),
        "kind": "main",
        "summary": conversation.title,
    }
    lines: list[dict[str, Any]] = [header]
    for number, turn in enumerate(conversation.turns, 1):
        line: dict[str, Any] = {"id": f"m{number:06d}", "timestamp": format_timestamp(turn.ms)}
        if isinstance(turn, Prompt):
            lines.append(line | {"type": "user", "content": [{"text": turn.text}]})
        else:
            lines.append(line | _build_answer(turn))
    return lines


def _build_answer(turn: Answer) -> dict[str, Any]:
    line: dict[str, Any] = {
        "type": "gemini",
        "content": turn.text,
        "model": turn.model or "unknown",
    }
    if turn.calls:
        line["toolCalls"] = [_build_call(call) for call in turn.calls]
    return line


def _build_call(call: Call) -> dict[str, Any]:
    response = {
        "id": call.id,
        "name": call.tool,
        "response": {"error" if call.failed else "output": call.output},
    }
    return {
        "id": call.id,
        "name": call.tool,
        "args": call.arguments,
        "status": "error" if call.failed else "success",
        "timestamp": format_timestamp(call.ms),
        "result": [{"functionResponse": response}],
    }
