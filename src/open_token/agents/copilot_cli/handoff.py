"""Write a session of GitHub Copilot CLI: a folder with one event a line, chained by parentId."""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import (
    Call,
    HandoffConversation,
    Prompt,
    derive_uuid,
    format_timestamp,
)
from open_token.handoff.session import HandoffDestination, HandoffSession

TITLE = "GitHub Copilot CLI"
SEEN = "1.0.102"


def build_session(conversation: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Build the session folder.

    Copilot's own reader is strict: every event needs an id, a time and a parent.
    """
    session_id = derive_uuid(conversation, "copilot-cli", scene.cwd, scene.copy)
    root = Path(scene.env.get("COPILOT_HOME") or scene.home / ".copilot")
    folder = root / "session-state" / session_id
    events = _build_events(conversation, session_id, scene.cwd)
    files = {
        folder / "events.jsonl": b"".join(msgspec.json.encode(event) + b"\n" for event in events),
        folder / "workspace.yaml": _build_workspace(conversation, session_id, scene.cwd),
    }
    return HandoffSession(session_id, files, [["copilot", f"--resume={session_id}"]], [])


def _build_workspace(conversation: HandoffConversation, session_id: str, cwd: str) -> bytes:
    facts: dict[str, Any] = {
        "id": session_id,
        "cwd": cwd,
        "name": conversation.title,
        "user_named": False,
        "summary_count": 0,
        "created_at": format_timestamp(conversation.started_ms),
        "updated_at": format_timestamp(conversation.ended_ms),
    }
    # JSON on one line is also YAML.
    lines = (
        f"{key}: ".encode() + msgspec.json.encode(value) + b"\n" for key, value in facts.items()
    )
    return b"".join(lines)


def _build_events(
    conversation: HandoffConversation, session_id: str, cwd: str
) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def add(kind: str, data: dict[str, Any], ms: int) -> None:
        events.append(
            {
                "type": kind,
                "data": data,
                "id": derive_uuid(conversation, session_id, len(events)),
                "timestamp": format_timestamp(ms),
                "parentId": events[-1]["id"] if events else None,
            }
        )

    start = {
        "sessionId": session_id,
        "version": 1,
        "producer": "copilot-agent",
        "copilotVersion": SEEN,
        "startTime": format_timestamp(conversation.started_ms),
        "context": {"cwd": cwd},
    }
    add("session.start", start, conversation.started_ms)
    for turn in conversation.turns:
        if isinstance(turn, Prompt):
            add("user.message", {"content": turn.text}, turn.ms)
            continue
        message = {
            "messageId": derive_uuid(conversation, session_id, "message", len(events)),
            "content": turn.text,
            "toolRequests": [_build_request(call) for call in turn.calls],
        }
        add("assistant.message", message, turn.ms)
        for call in turn.calls:
            execution = {"toolCallId": call.id, "toolName": call.tool, "arguments": call.arguments}
            add("tool.execution_start", execution, call.ms)
        for call in turn.calls:
            add("tool.execution_complete", _build_completion(call), call.ms)
    return events


def _build_request(call: Call) -> dict[str, Any]:
    return {
        "toolCallId": call.id,
        "name": call.tool,
        "arguments": call.arguments,
        "type": "function",
    }


def _build_completion(call: Call) -> dict[str, Any]:
    if call.failed:
        return {"toolCallId": call.id, "success": False, "error": {"message": call.output}}
    return {"toolCallId": call.id, "success": True, "result": {"content": call.output}}
