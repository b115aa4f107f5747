"""Sessions of Claude Code: one record a line, chained by parentUuid, in a folder named after the
project's."""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Answer, Prompt, Talk, iso, made_uuid
from open_token.handoff.project_folders import dashed
from open_token.handoff.target import Scene, Session

TITLE = "Claude Code"
SEEN = "2.1.326"


def session(talk: Talk, scene: Scene) -> Session:
    """Records with all the fields that Claude Code writes itself: some versions hang where one is
    missing."""
    name = made_uuid(talk, "claude-code", scene.cwd, scene.copy)
    root = Path(scene.env.get("CLAUDE_CONFIG_DIR") or scene.home / ".claude")
    path = root / "projects" / dashed(scene.cwd) / f"{name}.jsonl"
    lines = b"".join(
        msgspec.json.encode(record) + b"\n" for record in _records(talk, name, scene.cwd)
    )
    return Session(name, {path: lines}, [["claude", "--resume", name]], ["claude", "--resume"])


def _records(talk: Talk, name: str, cwd: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def add(kind: str, message: dict[str, Any], ms: int) -> None:
        made.append(
            {
                "parentUuid": made[-1]["uuid"] if made else None,
                "isSidechain": False,
                "userType": "external",
                "cwd": cwd,
                "sessionId": name,
                "version": SEEN,
                "gitBranch": "",
                "type": kind,
                "message": message,
                "uuid": made_uuid(talk, name, len(made)),
                "timestamp": iso(ms),
            }
        )

    for number, turn in enumerate(talk.turns):
        if isinstance(turn, Prompt):
            add("user", {"role": "user", "content": turn.text}, turn.ms)
            continue
        add("assistant", _message(turn, f"msg_{number:06d}"), turn.ms)
        if turn.calls:
            add("user", {"role": "user", "content": _results(turn)}, turn.calls[-1].ms)
    made.append({"type": "custom-title", "customTitle": talk.title, "sessionId": name})
    return made


def _message(turn: Answer, name: str) -> dict[str, Any]:
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments}
        for call in turn.calls
    ]
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": turn.model or "unknown",
        "content": text + calls,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _results(turn: Answer) -> list[dict[str, Any]]:
    return [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": call.output,
            "is_error": call.failed,
        }
        for call in turn.calls
    ]
