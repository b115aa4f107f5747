"""A shared session as a page: the turns that a stranger may see, with the rows of all pages."""

import io
from collections.abc import Mapping
from typing import Any

import msgspec

from open_token.formats.shared.messages import unpack_output
from open_token.model.document import Participant, Record
from open_token.writers.html import write

_PERSON = "act_001"
_MODEL = "act_002"
_ENDED = ("done", "error", "cancelled")


def render_share(view: Mapping[str, Any], redaction: str) -> bytes:
    """Render what a share shows, which is redacted already, as a self-contained page."""
    session = view["session"]
    builder = _EventBuilder()
    for turn in view["turns"]:
        builder.add_turn(turn)
    record = Record(
        conversation={
            "id": session["id"],
            "title": session["intent"],
            "redaction": {"mode": redaction, "notes": []},
        },
        participants=_list_participants(session),
        events=builder.events,
    )
    out = io.BytesIO()
    write(record, None, out)
    return out.getvalue()


def _list_participants(session: Mapping[str, Any]) -> list[Participant]:
    model = str(session.get("model") or "")
    return [
        {"actor_id": _PERSON, "kind": "human", "name": "user"},
        {"actor_id": _MODEL, "kind": "model", "name": model or "assistant", "model": model},
    ]


class _EventBuilder:
    """Turns the blocks and calls of turns into the events that a page is made of."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._ts: str | None = None

    def add_turn(self, turn: Mapping[str, Any]) -> None:
        """Add what a turn says and does, in its order."""
        self._ts = turn.get("started_at")
        calls = {call["id"]: call for call in turn["tool_calls"]}
        for block in turn["blocks"]:
            call = calls.pop(block.get("tool_call_id"), None)
            if call is not None:
                self._add_call(call)
            elif block["type"] in ("text", "thinking"):
                self._add_message(turn, block)
            elif block.get("content"):
                data = {"kind": block["type"], "text": _to_text(block["content"])}
                self._add("annotation", _MODEL, data)
        for call in calls.values():
            self._add_call(call)

    def _add_message(self, turn: Mapping[str, Any], block: Mapping[str, Any]) -> None:
        text = _to_text(block.get("content"))
        role = turn["role"]
        if block["type"] == "thinking":
            role = "assistant_thought"
        actor = _PERSON if role == "user" else _MODEL
        event = self._add("message", actor, text)
        event["role"] = role

    def _add_call(self, call: Mapping[str, Any]) -> None:
        link = {"call_id": f"call_{len(self.events) + 1:06d}"}
        data = {"tool_name": call["tool_name"], "arguments": _parse(call.get("arguments"))}
        event = self._add("tool_use", _MODEL, data)
        event["links"] = link
        if call.get("status") not in _ENDED:
            return
        result = self._add("tool_result", _MODEL, unpack_output(call.get("result")))
        result["links"] = link
        if call["status"] == "error":
            facts = self._add("annotation", _MODEL, {"kind": "result_facts", "is_error": True})
            facts["links"] = {"parent_id": result["id"]}

    def _add(self, kind: str, actor: str, content: Any) -> dict[str, Any]:
        number = len(self.events) + 1
        event: dict[str, Any] = {
            "id": f"evt_{number:06d}",
            "seq": number,
            "type": kind,
            "actor_id": actor,
            "visibility": "public",
            "content": _build_content(content),
        }
        if self._ts:
            event["ts"] = self._ts
        self.events.append(event)
        return event


def _build_content(content: Any) -> Any:
    if isinstance(content, str):
        return {"mime": "text/plain", "text": content}
    return {"mime": "application/json", "data": content}


def _to_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    return msgspec.json.encode(content).decode()


def _parse(arguments: Any) -> Any:
    """Return arguments, which a model wrote as JSON, as a value; as they are if they are none."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
