"""Write a session of Claude Code: one record a line, chained by parentUuid.

Its folder is named after the directory of the project.
"""

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

TITLE = "Claude Code"
SEEN = "2.1.326"


def build_session(conversation: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Build the session file.

    Records have all the fields that Claude Code writes itself: some versions hang where one is
    missing.
    """
    session_id = derive_uuid(conversation, "claude-code", scene.cwd, scene.copy)
    root = Path(scene.env.get("CLAUDE_CONFIG_DIR") or scene.home / ".claude")
    path = root / "projects" / encode_project_path(scene.cwd) / f"{session_id}.jsonl"
    records = _build_records(conversation, session_id, scene.cwd)
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    commands = [["claude", "--resume", session_id]]
    return HandoffSession(session_id, {path: lines}, commands, ["claude", "--resume"])


def _build_records(
    conversation: HandoffConversation, session_id: str, cwd: str
) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []

    def add(kind: str, message: dict[str, Any], ms: int) -> None:
        records.append(
            {
                "parentUuid": records[-1]["uuid"] if records else None,
                "isSidechain": False,
                "userType": "external",
                "cwd": cwd,
                "sessionId": session_id,
                "version": SEEN,
                "gitBranch": "",
                "type": kind,
                "message": message,
                "uuid": derive_uuid(conversation, session_id, len(records)),
                "timestamp": format_timestamp(ms),
            }
        )

    for number, turn in enumerate(conversation.turns):
        if isinstance(turn, Prompt):
            add("user", {"role": "user", "content": turn.text}, turn.ms)
            continue
        add("assistant", _build_message(turn, f"msg_{number:06d}"), turn.ms)
        if turn.calls:
            add("user", {"role": "user", "content": _build_results(turn)}, turn.calls[-1].ms)
    records.append(
        {"type": "custom-title", "customTitle": conversation.title, "sessionId": session_id}
    )
    return records


def _build_message(turn: Answer, message_id: str) -> dict[str, Any]:
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments}
        for call in turn.calls
    ]
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": turn.model or "unknown",
        "content": text + calls,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def _build_results(turn: Answer) -> list[dict[str, Any]]:
    return [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": call.output,
            "is_error": call.failed,
        }
        for call in turn.calls
    ]
