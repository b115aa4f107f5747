"""Agents whose sessions are chat messages or entries of Pi: names, places, files of others."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.library.discovery import Discovery
from open_token.registry import READERS, detect_format, load_reader
from open_token.sources.source import Source
from readers.odd_shapes import iter_misshapen
from readers.session_files import (
    GOLDEN,
    assert_takes_odd_shapes,
    lines,
    read_file,
    summarize_messages,
)

AGENTS = ("gptme", "mistral_vibe", "openclaw")


def claims(*records: Any) -> list[str]:
    source = Source("x", data=lines(*records))
    return [name for name in READERS if load_reader(name).sniff(source)]


def golden_lines(agent: str) -> list[Any]:
    path = min((GOLDEN / agent).glob("*/**/*.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("agent", AGENTS)
def test_nobody_else_claims_it(agent: str) -> None:
    assert claims(*golden_lines(agent)) == [agent]


def test_plain_chat_messages_stay_with_the_api() -> None:
    talked = [
        {"role": "user", "content": "hi", "timestamp": "2026-08-01T10:00:00Z"},
        {"role": "assistant", "content": "Hello.", "timestamp": "2026-08-01T10:00:01Z"},
    ]
    assert claims(*talked) == ["openai_chat"]
    assert claims(*talked, {"role": "user", "content": "x", "injected": False}) == ["openai_chat"]


def test_openclaw_is_no_longer_called_pi() -> None:
    header = {"type": "session", "version": 3, "id": "s", "cwd": "/home/ada"}
    entry = {"type": "custom", "customType": "openclaw:prompt-error", "data": {}}
    assert claims(header) == ["pi"]
    assert claims(header, entry) == ["openclaw"]


@pytest.mark.parametrize("folder", [".openclaw", ".clawdbot", ".moltbot"])
def test_openclaw_is_found_under_its_older_names(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "agents" / "main" / "sessions" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(*golden_lines("openclaw")))
    discovery = Discovery({}, tmp_path)
    (found,) = [discovery.inspect(session) for session in discovery.sessions()]
    assert (found.reader, found.title) == ("openclaw", "Water the plants")
    assert found.cwd == "/home/ada/.openclaw/workspace"


@pytest.mark.parametrize(
    ("agent", "place", "title", "cwd"),
    [
        ("mistral_vibe", ".vibe/logs/session/session_1", "Sort the names", "/home/ada/names"),
        ("gptme", ".local/share/gptme/logs/2026-08-01-size", "How big is the file?", None),
    ],
)
def test_sessions_are_listed(
    tmp_path: Path, agent: str, place: str, title: str, cwd: str | None
) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    name = "messages.jsonl" if agent == "mistral_vibe" else "conversation.jsonl"
    (folder / name).write_bytes(lines(*golden_lines(agent)))
    for meta in (GOLDEN / agent).glob("*/input/meta.json"):
        (folder / meta.name).write_bytes(meta.read_bytes())
    discovery = Discovery({}, tmp_path)
    (found,) = [discovery.inspect(session) for session in discovery.sessions()]
    assert (found.reader, found.title, found.cwd) == (agent, title, cwd)


@pytest.mark.parametrize("meta", [None, "{", "[]", "{}"])
def test_vibe_without_its_other_file(tmp_path: Path, meta: str | None) -> None:
    path = tmp_path / "messages.jsonl"
    path.write_bytes(lines(*golden_lines("mistral_vibe")))
    if meta is not None:
        (tmp_path / "meta.json").write_text(meta)
    assert detect_format(Source.of(path)) == "mistral_vibe"
    record, events = read_file(READERS["mistral_vibe"], path)
    broken = ["broken-file"] if meta == "{" else []
    assert [note.code for note in record.notes] == [*broken, "experimental-reader"]
    assert [
        words for role, visibility, words in summarize_messages(events) if visibility == "public"
    ] == [
        "Sort names.txt",
        "I sort it.",
        "It is sorted.",
    ]


def test_openclaw_takes_odd_shapes() -> None:
    assert_takes_odd_shapes(READERS["openclaw"], "openclaw")


@pytest.mark.parametrize("odd", [None, 3, True, [], [3], {}, {"a": 1}, "x"])
@pytest.mark.parametrize("agent", ["gptme", "mistral_vibe"])
def test_odd_fields(agent: str, odd: Any) -> None:
    reader = READERS[agent]
    records = golden_lines(agent)
    for number, record in enumerate(records):
        for name in record:
            made = [*records]
            made[number] = {**record, name: odd}
            source = Source("odd", data=lines(*made, odd))
            reader.sniff(source)
            reader.peek(source.sample)
            draft = Draft()
            reader.read(source, draft)
            events = list(draft.finish(lambda: "0" * 64).events)
            kinds = [event["type"] for event in events]
            assert kinds.count("tool_result") >= kinds.count("tool_use")


def test_hermes_lists_its_sessions(tmp_path: Path) -> None:
    home = tmp_path / ".hermes"
    (home / "sessions").mkdir(parents=True)
    database = sqlite3.connect(home / "state.db")
    database.executescript((GOLDEN / "hermes/database/input.sql").read_text())
    database.close()
    (home / "sessions" / "session_1.json").write_text(
        (GOLDEN / "hermes/file/input.json").read_text()
    )
    discovery = Discovery({}, tmp_path)
    found = [discovery.inspect(session) for session in discovery.sessions()]
    assert {session.reader for session in found} == {"hermes"}
    listed = {session.title: (session.cwd, session.messages) for session in found}
    assert listed == {
        "Count the roses": ("/home/ada/garden", 8),
        "Another talk": (None, 1),
        "Where am I?": ("/home/ada/garden", None),
    }


def test_other_files_with_messages_are_not_of_hermes() -> None:
    talked = {"role": "user", "content": "hi"}
    assert "hermes" not in claims({"session_id": "s", "messages": [talked]})
    assert "hermes" not in claims({"model": "m", "messages": [talked]})
    assert claims({"role": "session_meta"}, talked) == ["hermes"]


def test_continue_is_listed(tmp_path: Path) -> None:
    folder = tmp_path / ".continue" / "sessions"
    folder.mkdir(parents=True)
    (folder / "s.json").write_text((GOLDEN / "continue_dev/session/input.json").read_text())
    (folder / "sessions.json").write_text('[{"sessionId": "s", "title": "Greet"}]')
    discovery = Discovery({}, tmp_path)
    (found,) = [discovery.inspect(session) for session in discovery.sessions()]
    assert (found.reader, found.title) == ("continue_dev", "Greet the world")
    assert found.cwd == "/home/ada/greeting"
    assert claims(json.loads((folder / "s.json").read_text())) == ["continue_dev"]


def test_continue_takes_odd_shapes() -> None:
    assert_takes_odd_shapes(READERS["continue_dev"], "continue_dev")


def test_hermes_takes_odd_shapes() -> None:
    session = json.loads((GOLDEN / "hermes/file/input.json").read_text())
    for made in iter_misshapen([session], rounds=1):
        source = Source("odd", data=lines(*made))
        READERS["hermes"].sniff(source)
        READERS["hermes"].peek(source.sample)
        draft = Draft()
        READERS["hermes"].read(source, draft)
        list(draft.finish(lambda: "0" * 64).events)


def test_token_counts_of_a_continue_session_are_counted_once() -> None:
    count = {"prompt_tokens": 100, "completion_tokens": 10}
    session = {
        "sessionId": "s",
        "title": "t",
        "workspaceDirectory": "",
        "history": [
            {"message": {"role": "user", "content": "Hello"}, "contextItems": []},
            {"message": {"role": "assistant", "content": "Hi", "usage": count}, "contextItems": []},
        ],
        "usage": {"promptTokens": 150, "completionTokens": 10, "totalCost": 0.5},
    }
    draft = Draft()
    source = Source("session.json", data=json.dumps(session).encode())
    READERS["continue_dev"].read(source, draft)
    record = draft.finish(lambda: "0" * 64)
    counts = [event["usage"] for event in record.events if "usage" in event]
    assert [count["input_tokens"] for count in counts] == [100, 50]
    assert [count["output_tokens"] for count in counts] == [10, 0]
