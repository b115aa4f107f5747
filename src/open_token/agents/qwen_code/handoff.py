"""Sessions of Qwen Code: Gemini's parts in records that are chained by parentUuid."""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Answer, Prompt, Talk, iso, made_uuid
from open_token.handoff.project_folders import dashed
from open_token.handoff.target import Scene, Session

TITLE = "Qwen Code"
SEEN = "0.24.4"


def session(talk: Talk, scene: Scene) -> Session:
    """Records below the folder of the project."""
    name = made_uuid(talk, "qwen-code", scene.cwd, scene.copy)
    root = Path(scene.env.get("QWEN_HOME") or scene.home / ".qwen")
    path = root / "projects" / dashed(scene.cwd) / "chats" / f"{name}.jsonl"
    lines = b"".join(
        msgspec.json.encode(record) + b"\n" for record in _records(talk, name, scene.cwd)
    )
    return Session(name, {path: lines}, [["qwen", "--resume", name]], [])


def _records(talk: Talk, name: str, cwd: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def add(kind: str, role: str, parts: list[dict[str, Any]], ms: int) -> None:
        made.append(
            {
                "uuid": made_uuid(talk, name, len(made)),
                "parentUuid": made[-1]["uuid"] if made else None,
                "sessionId": name,
                "timestamp": iso(ms),
                "type": kind,
                "cwd": cwd,
                "version": SEEN,
                "message": {"role": role, "parts": parts},
            }
        )

    for turn in talk.turns:
        if isinstance(turn, Prompt):
            add("user", "user", [{"text": turn.text}], turn.ms)
            continue
        add("assistant", "model", _said(turn), turn.ms)
        for call in turn.calls:
            answer = {
                "id": call.id,
                "name": call.tool,
                "response": {"error" if call.failed else "output": call.output},
            }
            add("tool_result", "user", [{"functionResponse": answer}], call.ms)
    return made


def _said(turn: Answer) -> list[dict[str, Any]]:
    text = [{"text": turn.text}] if turn.text else []
    return text + [
        {"functionCall": {"id": call.id, "name": call.tool, "args": call.arguments}}
        for call in turn.calls
    ]
