"""Reader of session server data: logs, turns, histories with branches, streams of patches."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.session_server.log import add_session, fold_records
from open_token.formats.session_server.shapes import (
    LIST_FIELDS,
    find_turns,
    is_entry,
    is_node,
    is_patch,
    is_turn,
    unwrap_records,
)
from open_token.formats.session_server.turns import TurnWriter
from open_token.formats.shared.fields import JsonObject, as_text, parse_json_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.model.patches import TurnPatcher
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Add the session to the draft."""
    draft.conversation["source_runtime"] = "api"
    if source.conversation:
        draft.conversation["id"] = source.conversation
    response = _get_response(source)
    if response is not None:
        _read_session(draft, response)
        nodes = response.get("nodes")
        if isinstance(nodes, list) and any(is_node(node) for node in nodes):
            _read_history(draft, nodes)
            return
    elif source.sample and is_entry(next(unwrap_records(source.sample[0]), None)):
        _read_log(source, draft)
        return
    _read_turns(source, draft)


def _read_turns(source: Source, draft: Draft) -> None:
    def note_unknown_patch(place: str, kind: str) -> None:
        detail = f"patch {format_kind(kind)}" if kind else "a change of a call that has no id"
        draft.note_omission("unknown-patch", place, detail)

    turns = TurnPatcher(note_unknown_patch)
    for place, record in _select_records(source):
        if not turns.take(record, place):
            _read_side_event(draft, turns, record, place)
            continue
        session_id = as_text(record.get("session_id"))
        if session_id:
            draft.conversation.setdefault("id", session_id)
    TurnWriter(draft, turns.whole()).add_all()


def _read_log(source: Source, draft: Draft) -> None:
    state, is_renamed = fold_records(_select_records(source), draft)
    if state is not None:
        add_session(state, draft, is_renamed)


def _get_response(source: Source) -> JsonObject | None:
    """Return the single object of the source if it is a response of the server."""
    value = source.sample[0] if len(source.sample) == 1 else None
    return value if isinstance(value, dict) and find_turns(value) is not None else None


def _iterate_records(source: Source) -> Iterator[tuple[str, Any]]:
    response = _get_response(source)
    if response is not None:
        lists = (response.get(name) for name in LIST_FIELDS)
        items = next(value for value in lists if isinstance(value, list))
        for number, item in enumerate(items, 1):
            for record in unwrap_records(item):
                yield f"turn {number}", record
        return
    unit = "line" if source.shape in ("lines", "events") else "turn"
    for number, envelope in source.records():
        for record in unwrap_records(envelope):
            # A list may be one packet of a socket: the name of an event and what was sent.
            if not isinstance(record, str):
                yield f"{unit} {number}", record


def _select_records(source: Source) -> Iterator[tuple[str, Any]]:
    """Yield the records of the chosen session."""
    wanted = source.conversation
    for place, record in _iterate_records(source):
        session_id = record.get("session_id") if isinstance(record, dict) else None
        if wanted is None or session_id is None or session_id == wanted:
            yield place, record


def _read_session(draft: Draft, response: JsonObject) -> None:
    """Read what a response says about the session itself."""
    session = response.get("session")
    if not isinstance(session, dict):
        session = response
    session_id = as_text(session.get("id")) or as_text(session.get("session_id"))
    if session_id:
        draft.conversation["id"] = session_id
    title = as_text(session.get("intent"))
    if title:
        draft.conversation["title"] = title
    started_at = to_utc(session.get("created_at"))
    if started_at:
        draft.conversation["started_at"] = started_at


def _read_history(draft: Draft, nodes: list[Any]) -> None:
    """Read the whole tree: turns that are not active are on abandoned branches."""
    known = [node for node in nodes if is_node(node)]
    abandoned = {number for number, node in enumerate(known) if node.get("active") is False}
    if len(known) < len(nodes):
        draft.note_omission("unknown-node", "nodes", "a node of the history without a turn")
    TurnWriter(draft, [node["turn"] for node in known], abandoned).add_all()


def _read_side_event(draft: Draft, turns: TurnPatcher, record: Any, place: str) -> None:
    """Read what is sent to clients in addition to turns."""
    event = record if isinstance(record, dict) else {}
    if event.get("message") is not None and ("code" in event or "detail" in event):
        turns.aside({"kind": "error", **pick_fields(event, "message", "code", "detail")})
    elif "finish_reason" in event or "result" in event:
        facts = pick_fields(
            event, "status", "result", "finish_reason", "chat_run_id", "duration_ms"
        )
        turns.aside({"kind": "run", **facts})
    else:
        draft.note_omission("server-event", place, "a server event that is not part of a turn")


def list_conversations(source: Source) -> list[Found]:
    """List the sessions of a log; none if it holds only one."""
    sessions: dict[str, Found] = {}
    for _, record in _iterate_records(source):
        session_id = as_text(record.get("session_id")) if isinstance(record, dict) else None
        if session_id and (is_patch(record) or is_turn(record) or is_entry(record)):
            started_at = to_utc(record.get("started_at"))
            sessions.setdefault(session_id, Found(session_id, started_at=started_at))
    return list(sessions.values()) if len(sessions) > 1 else []


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the session that a record, or an event of a saved stream, belongs to."""
    if isinstance(value, str):
        lines = [line for line in value.split("\n") if line.startswith("data:")]
        value = [parse_json_text(line[5:]) for line in lines]
    session_ids = {
        as_text(record.get("session_id"))
        for record in unwrap_records(value)
        if isinstance(record, dict)
    }
    return session_ids.pop() if len(session_ids) == 1 else None
