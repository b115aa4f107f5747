"""Small conversations, made of events that a few words describe, and what a form makes of them."""

import io
from typing import Any, cast

import msgspec

from open_token.model.document import Event, Participant, Record
from open_token.model.omissions import Note
from open_token.writers import load_exchange_writer

PEOPLE: list[Participant] = [
    {"actor_id": "u", "kind": "human", "name": "user"},
    {
        "actor_id": "m",
        "kind": "model",
        "name": "assistant",
        "provider": "openai",
        "model": "model-1",
    },
    {"actor_id": "n", "kind": "model", "name": "helper", "model": "model-2"},
]
CONVERSATION: Any = {"id": "talk-1"}


def event(kind: str, actor: str, content: Any, role: str | None = None, **more: Any) -> Any:
    """An event without an id; a text or data, links by their names, `ts` as seconds of one
    minute."""
    body = (
        {"mime": "text/plain", "text": content} if isinstance(content, str) else {"data": content}
    )
    links = {name: more.pop(name) for name in ("call_id", "span_id", "parent_id") if name in more}
    made = {
        "type": kind,
        "actor_id": actor,
        "content": body,
        "links": links,
        "visibility": "public",
        **more,
    }
    if "ts" in made:
        made["ts"] = f"2026-03-01T10:00:{made['ts']:02d}Z"
    return made | ({"role": role} if role else {})


def ask(text: Any, **more: Any) -> Any:
    return event("message", "u", text, "user", **more)


def say(text: Any, actor: str = "m", **more: Any) -> Any:
    return event("message", actor, text, "assistant", **more)


def think(text: Any, **more: Any) -> Any:
    return event("message", "m", text, "assistant_thought", **more)


def call(
    number: int,
    tool: str = "run",
    given: Any = None,
    actor: str = "m",
    native: str = "",
    **more: Any,
) -> Any:
    data = {"tool_name": tool, "arguments": {} if given is None else given}
    data |= {"native_call_id": native} if native else {}
    return event("tool_use", actor, data, "assistant", call_id=f"call_{number}", **more)


def result(number: int, output: Any = "done", **more: Any) -> Any:
    return event("tool_result", "t", output, "tool", call_id=f"call_{number}", **more)


def fact(kind: str, **data: Any) -> Any:
    links = {name: data.pop(name) for name in ("parent_id", "span_id", "usage") if name in data}
    return event("annotation", "m", {"kind": kind, **data}, **links)


def span(name: str, about: dict[str, Any] | None = None, **more: Any) -> Any:
    return event("span_start", "n", {"kind": "subagent"} | (about or {}), span_id=name, **more)


def build_record(*events: Any) -> Record:
    """A record of these events, with ids."""
    numbered = [
        {"id": f"evt_{number}", "seq": number, **item} for number, item in enumerate(events, 1)
    ]
    return Record(CONVERSATION, PEOPLE, cast(list[Event], numbered))


def write_conversation(to: str, *events: Any) -> tuple[Any, dict[str, Note]]:
    """What a form makes of these events, and its notes by their codes."""
    out = io.BytesIO()
    length, notes = load_exchange_writer(to).write(build_record(*events), None, out)
    assert length == len(out.getvalue())
    return msgspec.json.decode(out.getvalue()), {note.code: note for note in notes}
