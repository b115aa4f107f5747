"""Write a session of Qwen Code: Gemini parts in records that are chained by parentUuid."""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import (
    Answer,
    HandoffConversation,
    Prompt,
    derive_uuid,
    format_timestamp,
)
from open_token.handoff.project_folders import encode_project_path
from open_token.handoff.session import HandoffDestination, HandoffSession

TITLE = "Qwen Code"
SEEN = "0.24.4"


def build_session(talk: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Build the session file, in the folder of the project."""
    session_id = derive_uuid(talk, "qwen-code", scene.cwd, scene.copy)
    root = Path(scene.env.get("QWEN_HOME") or scene.home / ".qwen")
    path = root / "projects" / encode_project_path(scene.cwd) / "chats" / f"{session_id}.jsonl"
    records = _build_records(talk, session_id, scene.cwd)
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    return HandoffSession(session_id, {path: lines}, [["qwen", "--resume", session_id]], [])


def _build_records(talk: HandoffConversation, session_id: str, cwd: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []

    def add(kind: str, role: str, parts: list[dict[str, Any]], ms: int) -> None:
        records.append(
            {
                "uuid": derive_uuid(talk, session_id, len(records)),
                "parentUuid": records[-1]["uuid"] if records else None,
                "sessionId": session_id,
                "timestamp": format_timestamp(ms),
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
        add("assistant", "model", _build_parts(turn), turn.ms)
        for call in turn.calls:
            response = {
                "id": call.id,
                "name": call.tool,
                "response": {"error" if call.failed else "output": call.output},
            }
            add("tool_result", "user", [{"functionResponse": response}], call.ms)
    return records


def _build_parts(turn: Answer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": turn.text}] if turn.text else []
    for call in turn.calls:
        parts.append({"functionCall": {"id": call.id, "name": call.tool, "args": call.arguments}})
    return parts
