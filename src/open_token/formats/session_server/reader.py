"""Reads turns and patches from whatever holds them, and has them told."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.session_server.log import fold_records, tell
from open_token.formats.session_server.shapes import (
    HOLDERS,
    is_entry,
    is_node,
    is_patch,
    is_turn,
    turns_in,
    unwrapped,
)
from open_token.formats.session_server.turns import Teller
from open_token.formats.shared.message_dicts import parsed
from open_token.formats.shared.messages import Body
from open_token.formats.shared.responses_content import name_of, word
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.model.patches import TurnPatcher
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Tell the session."""
    draft.conversation["source_runtime"] = "api"
    if source.conversation:
        draft.conversation["id"] = source.conversation
    answer = _answer(source)
    if answer is None and source.sample and is_entry(next(unwrapped(source.sample[0]), None)):
        _log(source, draft)
        return
    if answer is not None:
        _about(draft, answer)
        nodes = answer.get("nodes")
        if isinstance(nodes, list) and any(is_node(node) for node in nodes):
            _history(draft, nodes)
            return
    turns = TurnPatcher(lambda place, kind: draft.note_omission("unknown-patch", place, _odd(kind)))
    for place, record in _records(source):
        if not _is_wanted(record, source.conversation):
            continue
        if not turns.take(record, place):
            _beside(draft, turns, record, place)
        elif known := word(record.get("session_id")):
            draft.conversation.setdefault("id", known)
    Teller(draft, turns.whole()).tell()


def _log(source: Source, draft: Draft) -> None:
    """The log itself: what it comes to is told."""
    wanted = (
        (place, record)
        for place, record in _records(source)
        if _is_wanted(record, source.conversation)
    )
    state, is_renamed = fold_records(wanted, draft)
    if state is not None:
        tell(state, draft, is_renamed)


def _odd(kind: str) -> str:
    return f"patch {name_of(kind)}" if kind else "a change of a call that has no id"


def _answer(source: Source) -> Body | None:
    """The one object that the source is, when it is an answer of the server."""
    only = source.sample[0] if len(source.sample) == 1 else None
    return only if isinstance(only, dict) and turns_in(only) is not None else None


def _records(source: Source) -> Iterator[tuple[str, Any]]:
    answer = _answer(source)
    if answer is not None:
        held = next(answer[name] for name in HOLDERS if isinstance(answer.get(name), list))
        for number, item in enumerate(held, 1):
            yield from ((f"turn {number}", inner) for inner in unwrapped(item))
        return
    unit = "line" if source.shape in ("lines", "events") else "turn"
    for number, record in source.records():
        # A list may be one packet of a socket: the name of an event and what was sent.
        yield from (
            (f"{unit} {number}", inner) for inner in unwrapped(record) if not isinstance(inner, str)
        )


def _is_wanted(record: Any, wanted: str | None) -> bool:
    named = record.get("session_id") if isinstance(record, dict) else None
    return wanted is None or named is None or named == wanted


def _about(draft: Draft, value: Body) -> None:
    """What an answer says of the session itself."""
    held = value.get("session")
    session = held if isinstance(held, dict) else value
    told = draft.conversation
    if known := word(session.get("id")) or word(session.get("session_id")):
        told["id"] = known
    if title := word(session.get("intent")):
        told["title"] = title
    if begun := to_utc(session.get("created_at")):
        told["started_at"] = begun


def _history(draft: Draft, nodes: list[Any]) -> None:
    """The whole tree: turns that are no longer active are a branch that was left."""
    turns = [node["turn"] for node in nodes if is_node(node)]
    left = {
        number for number, node in enumerate(filter(is_node, nodes)) if node.get("active") is False
    }
    others = len(nodes) - len(turns)
    if others:
        draft.note_omission("unknown-node", "nodes", "a node of the history without a turn")
    Teller(draft, turns, left).tell()


def _beside(draft: Draft, turns: TurnPatcher, record: Any, place: str) -> None:
    """What is told to clients beside the turns."""
    held = record if isinstance(record, dict) else {}
    if held.get("message") is not None and ("code" in held or "detail" in held):
        data = {
            name: held[name] for name in ("message", "code", "detail") if held.get(name) is not None
        }
        turns.aside({"kind": "error", **data})
    elif "finish_reason" in held or "result" in held:
        names = ("status", "result", "finish_reason", "chat_run_id", "duration_ms")
        data = {name: held[name] for name in names if held.get(name) is not None}
        turns.aside({"kind": "run", **data})
    else:
        draft.note_omission("server-event", place, "an event beside the turns")


def sessions(source: Source) -> list[Found]:
    """The sessions of a log; none when it holds only one."""
    found: dict[str, Found] = {}
    for _, record in _records(source):
        name = word(record.get("session_id")) if isinstance(record, dict) else None
        if name and (is_patch(record) or is_turn(record) or is_entry(record)):
            found.setdefault(name, Found(name, started_at=to_utc(record.get("started_at"))))
    return list(found.values()) if len(found) > 1 else []


def session_of(value: Any) -> str | None:
    """The one session that a record, or an event of a saved stream, speaks of."""
    if isinstance(value, str):
        value = [parsed(line[5:]) for line in value.split("\n") if line.startswith("data:")]
    names = {word(inner.get("session_id")) for inner in unwrapped(value) if isinstance(inner, dict)}
    return names.pop() if len(names) == 1 else None


def list_conversations(source: Source) -> list[Found]:
    """List the sessions of a log; any other form is one."""
    return sessions(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the session that a record belongs to."""
    return session_of(value)
