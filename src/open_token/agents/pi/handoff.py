"""Write a session of Pi: one entry a line, chained by parentId.

Its folder is named after the directory of the project.
"""

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

TITLE = "pi"
SEEN = "0.87.1"
_COUNTS = ("input", "output", "cacheRead", "cacheWrite")


def build_session(conversation: HandoffConversation, scene: HandoffDestination) -> HandoffSession:
    """Build a session file of version 3.

    Every answer has a usage: Pi exits where one is missing.
    """
    session_id = derive_uuid(conversation, "pi", scene.cwd, scene.copy)
    root = Path(scene.env.get("PI_CODING_AGENT_DIR") or scene.home / ".pi" / "agent")
    stamp = format_timestamp(conversation.started_ms).replace(":", "-").replace(".", "-")
    project = scene.cwd.lstrip("/").replace("/", "-").replace("\\", "-").replace(":", "-")
    path = root / "sessions" / f"--{project}--" / f"{stamp}_{session_id}.jsonl"
    entries = _build_entries(conversation, session_id, scene.cwd)
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    commands = [["pi", "--session", session_id]]
    return HandoffSession(session_id, {path: lines}, commands, ["pi", "--session"])


def _build_entries(
    conversation: HandoffConversation, session_id: str, cwd: str
) -> list[dict[str, Any]]:
    header = {
        "type": "session",
        "version": 3,
        "id": session_id,
        "timestamp": format_timestamp(conversation.started_ms),
        "cwd": cwd,
    }
    entries: list[dict[str, Any]] = [header]

    def add(kind: str, ms: int, fields: dict[str, Any]) -> None:
        entry = {
            "type": kind,
            "id": f"{len(entries):08x}",
            "parentId": entries[-1]["id"] if len(entries) > 1 else None,
            "timestamp": format_timestamp(ms),
        }
        entries.append(entry | fields)

    for turn in conversation.turns:
        if isinstance(turn, Prompt):
            content = [{"type": "text", "text": turn.text}]
            message = {"role": "user", "content": content, "timestamp": turn.ms}
            add("message", turn.ms, {"message": message})
            continue
        add("message", turn.ms, {"message": _build_answer(turn, conversation.provider)})
        for call in turn.calls:
            add("message", call.ms, {"message": _build_result(call)})
    add("session_info", conversation.ended_ms, {"name": conversation.title})
    return entries


def _build_answer(turn: Answer, provider: str) -> dict[str, Any]:
    text = [{"type": "text", "text": turn.text}] if turn.text else []
    calls = [
        {"type": "toolCall", "id": call.id, "name": call.tool, "arguments": call.arguments}
        for call in turn.calls
    ]
    cost = dict.fromkeys((*_COUNTS, "total"), 0)
    return {
        "role": "assistant",
        "content": [*text, *calls],
        "api": "openai-completions",
        "provider": provider or "unknown",
        "model": turn.model or "unknown",
        "usage": {**dict.fromkeys((*_COUNTS, "totalTokens"), 0), "cost": cost},
        "stopReason": "toolUse" if turn.calls else "stop",
        "timestamp": turn.ms,
    }


def _build_result(call: Call) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": call.id,
        "toolName": call.tool,
        "isError": call.failed,
        "content": [{"type": "text", "text": call.output}],
        "timestamp": call.ms,
    }
