"""Kiro CLI and Amazon Q CLI: their databases, and what is damaged in them."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from open_token.builder.draft import Draft
from open_token.library.discovery import Discovery
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.session_files import GOLDEN, assert_paired

READER = READERS["kiro_cli"]
FIRST = "11111111-2222-4333-8444-555555555555"


def make(path: Path, case: str = "database") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    change(path, (GOLDEN / "kiro_cli" / case / "input.sql").read_text())
    return path


def change(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("name", ["kiro-cli", "amazon-q"])
def test_conversations_are_found_with_folder_title_and_time(tmp_path: Path, name: str) -> None:
    make(tmp_path / ".local" / "share" / name / "data.sqlite3")
    discovery = Discovery({}, tmp_path)
    found = [discovery.inspect(session) for session in discovery.sessions()]
    assert [(session.title, session.cwd) for session in found] == [
        ("And the frogs?", "/home/sam/pond"),
        ("Count the herons at the pond.", "/home/sam/pond"),
    ]
    assert found[0].modified == 1779285410.0


@pytest.mark.parametrize("case", ["database", "amazon_q"])
def test_nobody_else_claims_it(tmp_path: Path, case: str) -> None:
    assert detect_format(Source.of(make(tmp_path / "data.sqlite3", case))) == "kiro_cli"


def test_another_database_with_conversations_is_not_claimed(tmp_path: Path) -> None:
    change(tmp_path / "x.db", "CREATE TABLE conversations (id TEXT, title TEXT);")
    assert not READER.sniff(Source.of(tmp_path / "x.db"))


def test_calls_pair_with_results(tmp_path: Path) -> None:
    source = Source.of(make(tmp_path / "data.sqlite3"))
    source.conversation = FIRST
    draft = Draft()
    READER.read(source, draft)
    events = list(draft.finish(lambda: "0" * 64).events)
    assert_paired(events)
    rejected = [event for event in events if "rejected" in str(event["content"])]
    assert len(rejected) == 1


@pytest.mark.parametrize(
    "value",
    [
        "7",
        "[]",
        '{"history": 7}',
        '{"history": [7, [1, 2, 3], {"user": 7, "assistant": []}]}',
        '{"history": [{"user": {"content": {"Prompt": 7}}, "assistant": {"ToolUse": 7}}]}',
        '{"history": [{"user": {"content": {"ToolUseResults": {"tool_use_results": [{"content": 7}]}}}}]}',
        '{"history": [], "latest_summary": [7, {"a": 1}], "next_message": 7, "model_info": 7}',
    ],
)
def test_odd_values_do_not_fail(tmp_path: Path, value: str) -> None:
    path = make(tmp_path / "data.sqlite3")
    change(path, f"UPDATE conversations_v2 SET value = '{value}';")
    source = Source.of(path)
    READER.list_conversations(source)
    READER.read(source, Draft())


SESSION = "5f0c2f6e-0000-4000-8000-0000000000c1"
SESSION_FILE = GOLDEN / "kiro_cli/session_file/input"


def events(*records: object) -> Source:
    return Source(
        "session.jsonl", data="".join(json.dumps(item) + "\n" for item in records).encode()
    )


def event(kind: object, content: object, **fields: object) -> dict[str, object]:
    return {"version": "v1", "kind": kind, "data": {"content": content, **fields}}


def test_session_files_are_found(tmp_path: Path) -> None:
    shutil.copytree(SESSION_FILE, tmp_path / ".kiro/sessions/cli")
    discovery = Discovery({}, tmp_path)
    (session,) = [discovery.inspect(item) for item in discovery.sessions()]
    assert (session.reader, session.title) == ("kiro_cli", "How many herons are at the pond?")
    assert detect_format(Source.of(SESSION_FILE / f"{SESSION}.jsonl")) == "kiro_cli"


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "Prompt", "data": {}},
        {"version": "v1", "kind": "prompt", "data": {}},
        {"version": "v1", "kind": "Prompt", "data": []},
        {"version": "v1", "kind": 7, "data": {}},
        [],
    ],
)
def test_other_events_are_not_claimed(record: object) -> None:
    assert not READER.sniff(events(record))


@pytest.mark.parametrize(
    "record",
    [
        event("Prompt", "x", meta=[]),
        event("Prompt", [7, {"kind": "image", "data": {"source": {"data": [300]}}}]),
        event("AssistantMessage", [{"kind": "toolUse", "data": {"name": 7, "input": []}}]),
        event("ToolResults", [{"kind": "toolResult", "data": {"content": [{"kind": "x"}]}}]),
        event("ToolResults", [{"kind": "toolResult", "data": 7}], meta={"timestamp": "x"}),
        7,
    ],
)
def test_odd_events_do_not_stop_it(record: object) -> None:
    draft = Draft()
    READER.read(events(event("Prompt", [{"kind": "text", "data": "Sow"}]), record), draft)
    assert draft.finish(lambda: "0" * 64).events


def test_broken_facts_beside_a_session_are_noted(tmp_path: Path) -> None:
    shutil.copytree(SESSION_FILE, tmp_path / "input")
    (tmp_path / "input" / f"{SESSION}.json").write_text("{")
    draft = Draft()
    READER.read(Source.of(tmp_path / "input" / f"{SESSION}.jsonl"), draft)
    record = draft.finish(lambda: "0" * 64)
    assert "broken-file" in {note.code for note in record.notes}
    assert record.conversation["id"] == SESSION
