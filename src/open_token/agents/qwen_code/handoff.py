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


def build_session(conversation: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Build the session file, in the folder of the project."""
    session_id = derive_uuid(conversation, "qwen-code", scene.cwd, scene.copy)
    root = Path(scene.env.get("QWEN_HOME") or scene.home / ".qwen")
    chats = root / "projects" / encode_project_path(scene.cwd) / "chats"
    path = chats / f"{session_id}.jsonl"
    records = _build_records(conversation, session_id, scene.cwd)
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    command = ["qwen", "--resume", session_id]
    return HandoffSession(session_id, {path: lines}, [command], [])


def _build_records(
    conversation: HandoffConversation, session_id: str, cwd: str
) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []

    def add(kind: str, role: str, parts: list[dict[str, Any]], ms: int) -> None:
        records.append(
            {
                "uuid": derive_uuid(conversation, session_id, len(records)),
                "parentUuid": records[-1]["uuid"] if records else None,
                "sessionId": session_id,
                "timestamp": format_timestamp(ms),
                "type": kind,
                "cwd": cwd,
                "version": SEEN,
                "message": {"role": role, "parts": parts},
            }
        )

    for turn in conversation.turns:
        if isinstance(turn, Prompt):
            add("user", "user", [{"text": turn.text}], turn.ms)
            continue
        add("assistant", "model", _build_parts(turn), turn.ms)
        for call in turn.calls:
            # The Gemini API marks a failure by the name of the field.
            field = "error" if call.failed else "output"
            response = {
                "id": call.id,
                "name": call.tool,
                "response": {field: call.output},
            }
            add("tool_result", "user", [{"functionResponse": response}], call.ms)
    return records


def _build_parts(turn: Answer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if turn.text:
        parts.append({"text": turn.text})
    for call in turn.calls:
        function_call = {"id": call.id, "name": call.tool, "args": call.arguments}
        parts.append({"functionCall": function_call})
    return parts
