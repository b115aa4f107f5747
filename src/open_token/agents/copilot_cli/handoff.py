"""Sessions of GitHub Copilot CLI: a folder each, with one event a line, chained by parentId."""

from pathlib import Path
from typing import Any

import msgspec

from open_token.handoff.conversation import Call, Prompt, Talk, iso, made_uuid
from open_token.handoff.target import Scene, Session

TITLE = "GitHub Copilot CLI"
SEEN = "1.0.102"


def session(talk: Talk, scene: Scene) -> Session:
    """Its reader is strict: every event has an id, a time and a parent."""
    name = made_uuid(talk, "copilot-cli", scene.cwd, scene.copy)
    root = Path(scene.env.get("COPILOT_HOME") or scene.home / ".copilot")
    folder = root / "session-state" / name
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in _events(talk, name, scene.cwd))
    files = {
        folder / "events.jsonl": lines,
        folder / "workspace.yaml": _workspace(talk, name, scene.cwd),
    }
    return Session(name, files, [["copilot", f"--resume={name}"]], [])


def _workspace(talk: Talk, name: str, cwd: str) -> bytes:
    facts: dict[str, Any] = {
        "id": name,
        "cwd": cwd,
        "name": talk.title,
        "user_named": False,
        "summary_count": 0,
    }
    facts |= {"created_at": iso(talk.began), "updated_at": iso(talk.ended)}
    # What is JSON on one line is YAML, too.
    return b"".join(
        f"{key}: ".encode() + msgspec.json.encode(value) + b"\n" for key, value in facts.items()
    )


def _events(talk: Talk, name: str, cwd: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []

    def add(kind: str, data: dict[str, Any], ms: int) -> None:
        about = {"id": made_uuid(talk, name, len(made)), "timestamp": iso(ms)}
        made.append(
            {"type": kind, "data": data, **about, "parentId": made[-1]["id"] if made else None}
        )

    start = {"sessionId": name, "version": 1, "producer": "copilot-agent", "copilotVersion": SEEN}
    add(
        "session.start", start | {"startTime": iso(talk.began), "context": {"cwd": cwd}}, talk.began
    )
    for turn in talk.turns:
        if isinstance(turn, Prompt):
            add("user.message", {"content": turn.text}, turn.ms)
            continue
        said = {"messageId": made_uuid(talk, name, "message", len(made)), "content": turn.text}
        add("assistant.message", said | {"toolRequests": list(map(_request, turn.calls))}, turn.ms)
        for call in turn.calls:
            about = {"toolCallId": call.id, "toolName": call.tool, "arguments": call.arguments}
            add("tool.execution_start", about, call.ms)
        for call in turn.calls:
            add("tool.execution_complete", _end(call), call.ms)
    return made


def _request(call: Call) -> dict[str, Any]:
    return {
        "toolCallId": call.id,
        "name": call.tool,
        "arguments": call.arguments,
        "type": "function",
    }


def _end(call: Call) -> dict[str, Any]:
    if call.failed:
        return {"toolCallId": call.id, "success": False, "error": {"message": call.output}}
    return {"toolCallId": call.id, "success": True, "result": {"content": call.output}}
