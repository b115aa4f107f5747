"""A document becomes a session and comes out again as it was: every event, also after more was
said."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given

from helpers.server.random_sessions import SessionLog, session_logs
from helpers.server.reference_client import ReferenceClient
from open_token import api
from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.formats.session_server.log import add_session
from open_token.jsontools.canonical import hash_events
from open_token.model.document import Record
from open_token.model.log_events import LogEntry
from open_token.model.session_types import TurnProjection, from_builtins, to_builtins
from open_token.options import ExportOptions
from open_token.pipeline import read_record
from open_token.session import SessionState, actions, branches, fold_log, to_stream_item
from open_token.session.document_import import import_document
from open_token.sources.source import Source
from open_token.validation.validate import validate
from readers.provider_readers import tokens

ROOT = Path(__file__).resolve().parent.parent.parent
AT = "2026-02-01T00:00:00Z"
DOCUMENTS = sorted([*ROOT.glob("tests/golden/*/*/expected.json"), *ROOT.glob("examples/*.json*")])


def document_of(path: Path) -> Any:
    if path.name == "expected.json":
        return api.read(path)
    return api.export(
        path, include="include-internal", internal="full", redact="none", branches="all"
    )


def imported(document: Any) -> tuple[SessionState, list[LogEntry]]:
    state = SessionState("sess_9")
    entries = [state.add("session.created", {"session": {"intent": "Imported"}}, AT)]
    about = {
        name: document.get(name)
        for name in ("conversation", "participants", "exported_at", "integrity")
    }
    return state, entries + list(import_document(state, document["events"], lambda: AT, **about))


def export_state(state: SessionState, **options: Any) -> Record:
    draft = Draft(**options)
    add_session(state, draft)
    return draft.finish(lambda: "0" * 64)


@pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: "/".join(path.parts[-3:-1]) + "/" + path.name
)
def test_in_and_out_again(path: Path) -> None:
    document = document_of(path)
    state, entries = imported(document)
    entries = msgspec.json.decode(msgspec.json.encode(entries), type=list[LogEntry])
    record = export_state(fold_log(entries))
    events = [{**event, "seq": place} for place, event in enumerate(record.events, 1)]
    assert events == document["events"]
    assert (record.conversation, record.participants) == (
        document["conversation"],
        document["participants"],
    )
    assert record.exported_at == document.get("exported_at")
    words = [event["content"] for event in document["events"] if event["type"] == "message"]
    shown = [block for turn in state.turns.values() for block in turn.snapshot().blocks]
    assert len([block for block in shown if block.type in ("text", "thinking")]) == len(words)
    called = [call for turn in state.turns.values() for call in turn.snapshot().tool_calls]
    assert len(called) == len(
        [event for event in document["events"] if event["type"] == "tool_use"]
    )
    assert all(turn.facts.status == "completed" for turn in state.turns.values())


@pytest.mark.parametrize("path", DOCUMENTS[::5], ids=lambda path: "/".join(path.parts[-3:-1]))
def test_a_client_sees_what_was_imported(path: Path) -> None:
    state, entries = imported(document_of(path))
    mirror = ReferenceClient()
    for entry in entries:
        if (item := to_stream_item(entry, state)) is not None:
            mirror.hear_raw(msgspec.json.decode(msgspec.json.encode(item)))
    seen = [
        {name: value for name, value in turn.items() if name not in ("session_id", "parent_id")}
        for turn in mirror.branch()
    ]
    assert [to_builtins(from_builtins(turn, TurnProjection)) for turn in seen] == to_builtins(
        state.branch()
    )


def small() -> Any:
    return api.read(ROOT / "tests/golden/session_server/turns/expected.json")


def test_the_hash_is_the_same() -> None:
    document = small()
    data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in imported(document)[1])
    again = api.export(data, include="include-internal", internal="full", redact="none")
    assert again["integrity"]["events_hash"] == hash_events(document["events"])


def test_turns_of_a_document() -> None:
    state, _ = imported(small())
    turns = state.branch()
    about = [
        (turn.loop_id, turn.role, turn.kind, len(turn.blocks), len(turn.tool_calls))
        for turn in turns
    ]
    assert about[:4] == [
        ("root", "user", "message", 1, 0),
        ("root", "assistant", "message", 6, 2),
        ("sorter", "user", "message", 1, 0),
        ("sorter", "assistant", "message", 1, 1),
    ]
    assert turns[1].usage == tokens(input_tokens=500, output_tokens=200)
    assert [(call.id, call.status) for call in turns[1].tool_calls] == [
        ("tc_1", "done"),
        ("tc_2", "done"),
    ]
    assert turns[3].tool_calls[0].status == "error"
    assert turns[3].parent_fork_tool_call_id == "tc_2"
    assert [turn.summary_full for turn in turns if turn.kind == "compaction"] == [
        "Notes were sorted."
    ]
    assert [ref.id for ref in turns[1].memory_refs or ()] == [1]


def lived_on(document: Any) -> tuple[SessionState, list[Any]]:
    state, _ = imported(document)
    made = [
        *actions.send_user_message(
            "turn_new", actions.build_text_blocks("And now?"), checkpoint_id="cp_new"
        ),
        ("run.started", {"run_id": "r"}),
        ("turn.opened", {"turn": {"turn_id": "turn_a", "model": "claude-sonnet-4-20250514"}}),
        ("thinking.delta", {"turn_id": "turn_a", "text": "Hm."}),
        ("text.delta", {"turn_id": "turn_a", "text": "Now this."}),
        (
            "tool.called",
            {"turn_id": "turn_a", "call": {"id": "tc_1", "tool_name": "Bash", "arguments": "{}"}},
        ),
        ("turn.ended", {"turn_id": "turn_a"}),
        ("run.ended", {"run_id": "r"}),
    ]
    for kind, data in made:
        state.add(kind, data, AT)
    return state, list(export_state(state).events)


def test_what_was_lived_on_stands_behind_it() -> None:
    document = small()
    state, events = lived_on(document)
    old = [{**event, "seq": 0} for event in document["events"]]
    assert [{**event, "seq": 0} for event in events[: len(old)]] == old
    new = events[len(old) :]
    assert [event.get("role", event["type"]) for event in new] == [
        "user",
        "assistant_thought",
        "assistant",
        "assistant",
        "tool",
    ]
    record = export_state(state)
    whole = {
        "open_token_version": "0.1",
        "conversation": record.conversation,
        "participants": record.participants,
        "events": [{**event, "seq": place} for place, event in enumerate(events, 1)],
    }
    assert [problem for problem in validate(whole) if problem.severity == "error"] == []
    assert record.conversation["id"] == "sess_9"
    assert {event["actor_id"] for event in new} <= {
        person["actor_id"] for person in record.participants
    }
    assert new[1]["actor_id"] == events[1]["actor_id"]


@pytest.mark.parametrize(("chosen", "has_old"), [("active", False), ("all", True)])
def test_a_document_that_was_rewound(chosen: str, has_old: bool) -> None:
    document = small()
    state, _ = imported(document)
    last = list(state.checkpoints)[-1]
    state.add(*branches.rewind(state, last), AT)
    for kind, data in actions.send_user_message(
        "turn_new", actions.build_text_blocks("Otherwise.")
    ):
        state.add(kind, data, AT)
    record = export_state(state, branches=chosen)
    events = list(record.events)
    ids = [event["id"] for event in events]
    assert len(set(ids)) == len(ids)
    texts = str(events)
    assert "Otherwise." in texts
    assert ("overloaded" in texts) is has_old
    spans = [event for event in events if event["type"].startswith("span_")]
    assert (
        len([event for event in spans if event["content"]["data"] == {"kind": "abandoned_branch"}])
        == has_old
    )
    whole = {
        "open_token_version": "0.1",
        "conversation": record.conversation,
        "participants": record.participants,
        "events": [{**event, "seq": place} for place, event in enumerate(events, 1)],
    }
    assert [problem for problem in validate(whole) if problem.severity == "error"] == []


@given(session_logs())
def test_any_session_exports_and_comes_back(session_log: SessionLog) -> None:
    assume(session_log.state.turns)
    data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in session_log.entries)
    source = Source("log", data=data)
    record = read_record(
        source, Context(ExportOptions.of({"branches": "all", "redact": "none"})), "session_server"
    )
    events = [{**event, "seq": place} for place, event in enumerate(record.events, 1)]
    document = {
        "open_token_version": "0.1",
        "conversation": record.conversation,
        "participants": record.participants,
        "events": events,
    }
    assert [problem for problem in validate(document) if problem.severity == "error"] == []
    assert [note for note in record.notes if note.code == "bad-entry"] == []
    said = [event["content"].get("text") for event in events if event["type"] == "message"]
    blocks = [
        block for turn in session_log.state.turns.values() for block in turn.snapshot().blocks
    ]
    words = [
        block.content
        for block in blocks
        if block.type in ("text", "thinking") and block.content and not block.more
    ]
    assert sorted(filter(None, said)) == sorted(filter(None, words))
    calls = [call for turn in session_log.state.turns.values() for call in turn.calls]
    assert len([event for event in events if event["type"] == "tool_use"]) == len(calls)
    state, _ = imported(document)
    assert [
        {**event, "seq": place} for place, event in enumerate(export_state(state).events, 1)
    ] == events


def test_a_result_outside_the_branch_that_was_left_with_its_call() -> None:
    actor = {"actor_id": "act_001", "visibility": "internal"}
    span, held = {"span_id": "span_000001"}, {"data": {"kind": "branch"}}
    kinds: list[tuple[str, dict[str, str]]] = [
        ("span_start", span),
        ("tool_use", span | {"call_id": "c"}),
        ("span_end", span),
        ("tool_result", {"call_id": "c"}),
    ]
    events = [
        {
            "id": f"evt_{place:06d}",
            "seq": place,
            "type": kind,
            **actor,
            "content": held,
            "links": links,
        }
        for place, (kind, links) in enumerate(kinds, 1)
    ]
    state, _ = imported({"events": events, "conversation": {"id": "c"}})
    assert state.branch() == []
    assert [event["id"] for event in export_state(state).events] == [
        event["id"] for event in events
    ]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], True])
def test_hostile_events(odd: Any) -> None:
    names = ("type", "actor_id", "visibility", "role", "content", "links", "usage", "ts", "id")
    kinds = ("message", "tool_use", "tool_result", "span_start", "span_end", "annotation")
    whole = {"content": {"data": odd}, "links": {"call_id": odd, "span_id": odd, "parent_id": odd}}
    events = [
        {"type": kind, "role": "user", **whole, name: odd} for kind in kinds for name in names
    ]
    kinds_of = ("compaction", "memory_refs", "result_facts", "notice", "tool_ui", "plan_status")
    events += [
        {
            "type": "annotation",
            "content": {"data": {"kind": kind, "refs": [odd], "text": odd, "summary": odd}},
        }
        for kind in kinds_of
    ]
    state, entries = imported({"events": events})
    assert fold_log(entries).snapshot() == state.snapshot()
    assert len(state.imported_events) == len(events)
