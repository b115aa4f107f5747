"""A small conversation to hand over, and a summary of what arrived."""

import json
from pathlib import Path
from typing import Any

import open_token
from open_token.handoff import (
    HandoffConversation,
    HandoffDestination,
    HandoffSession,
    build_conversation,
    load_handoff_module,
)
from open_token.handoff.conversation import Prompt

CWD = "/home/sam/tide_table"


def build_document(*events: dict[str, Any], **conversation: Any) -> Any:
    """An export with these events; what an event must have and is not said is filled in."""
    made = [
        {
            "id": f"evt_{n:06d}",
            "seq": n,
            "ts": f"2026-03-01T10:00:{n:02d}.500Z",
            "actor_id": "act_001",
            **event,
        }
        for n, event in enumerate(events, 1)
    ]
    people = [
        {"actor_id": "act_001", "kind": "model", "name": "assistant", "model": "some-model-1"}
    ]
    about = {"id": "conv-1", "title": "Tides", "provider": "anthropic", **conversation}
    return {
        "open_token_version": "0.1",
        "conversation": about,
        "participants": people,
        "events": made,
    }


def build_message(role: str, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": role,
        "visibility": "public",
        "content": {"mime": "text/plain", "text": text},
    }


def build_call(number: int, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
    data = {"tool_name": tool, "arguments": arguments}
    return {
        "type": "tool_use",
        "role": "assistant",
        "content": {"mime": "application/json", "data": data},
        "links": {"call_id": f"call_{number:06d}"},
    }


def build_result(number: int, output: str) -> dict[str, Any]:
    content = {"mime": "text/plain", "text": output}
    return {
        "type": "tool_result",
        "role": "tool",
        "content": content,
        "links": {"call_id": f"call_{number:06d}"},
    }


def build_annotation(parent: int, **data: Any) -> dict[str, Any]:
    content = {"mime": "application/json", "data": data}
    return {"type": "annotation", "content": content, "links": {"parent_id": f"evt_{parent:06d}"}}


SMALL = build_document(
    build_message("user", "Fix the test."),
    build_message("assistant", "I look."),
    build_call(1, command="make test"),
    build_call(2, "Read", path="tides.py"),
    build_result(1, "1 failed"),
    build_annotation(5, kind="result_facts", is_error=True),
    build_result(2, "def tide(): ..."),
    build_message("assistant", "Done, naïvely: 潮."),
)


def summarize(recorded: HandoffConversation, *, failures: bool = True) -> list[tuple[Any, ...]]:
    """What a session says, in order."""
    made: list[tuple[Any, ...]] = []
    for turn in recorded.turns:
        if isinstance(turn, Prompt):
            made.append(("user", turn.text))
            continue
        if turn.text:
            made.append(("assistant", turn.text))
        made += [
            ("call", call.tool, json.dumps(call.arguments, sort_keys=True)) for call in turn.calls
        ]
        made += [("result", call.output, call.failed and failures) for call in turn.calls]
    return made


def write_session(session: HandoffSession, folder: Path) -> Path:
    """The files below a folder; gives the session's own."""
    paths = []
    for path, data in session.files.items():
        paths.append(folder / path.relative_to(path.anchor))
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_bytes(data)
    return paths[0]


def hand_over(
    agent: str, recorded: HandoffConversation, folder: Path, **env: str
) -> tuple[HandoffSession, HandoffConversation]:
    """The session of an agent, and what our own reader makes of it."""
    session = load_handoff_module(agent).build_session(
        recorded, HandoffDestination(CWD, Path("/home/sam"), env)
    )
    back = open_token.export(write_session(session, folder), redact="none")
    assert not [fault for fault in open_token.validate(back) if fault.severity == "error"]
    return session, build_conversation(back, whole=True)


def read_records(session: HandoffSession) -> list[Any]:
    """The lines of a session's first file."""
    return [json.loads(line) for line in next(iter(session.files.values())).splitlines()]
