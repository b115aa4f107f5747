"""Facts about a session: id, title, runtime, context and notes."""

import gc
import json
import weakref
from pathlib import Path

import pytest

from open_token.agents.claude_code import reader
from open_token.agents.claude_code.reader import SessionReader
from open_token.builder.draft import Draft
from open_token.library.discovery import Discovery
from open_token.sources.source import Source
from readers.claude_lines import SESSION, File, body, read, text

OLDER = "01de0000-0000-4000-8000-000000000009"


def test_nothing_of_a_session_waits_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[SessionReader]] = []

    class Watched(SessionReader):
        def __init__(self, source: Source, draft: Draft) -> None:
            super().__init__(source, draft)
            made.append(weakref.ref(self))

    monkeypatch.setattr(reader, "SessionReader", Watched)
    file = File()
    file.user("hi")
    file.assistant(text("hello"))
    gc.disable()
    try:
        assert read(file).conversation["id"] == SESSION
        assert [session() for session in made] == [None]
    finally:
        gc.enable()


def test_the_conversation() -> None:
    file = File(entrypoint="cli")
    file.user("hi")
    file.assistant(text("hello"))
    record = read(file)
    assert record.conversation == {
        "id": SESSION,
        "started_at": "2026-02-03T10:00:01.000Z",
        "source_runtime": "cli",
        "provider": "anthropic",
        "internal_availability": "unavailable",
    }
    assert record.participants == [
        {"actor_id": "act_001", "kind": "system", "name": "Claude Code"},
        {"actor_id": "act_002", "kind": "human", "name": "user"},
        {
            "actor_id": "act_003",
            "kind": "model",
            "name": "assistant",
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
        },
    ]


@pytest.mark.parametrize(
    ("entrypoint", "runtime"),
    [("cli", "cli"), ("sdk-py", "api"), ("claude-vscode", "ide"), ("remote", "web"), (None, "cli")],
)
def test_the_runtime(entrypoint: str | None, runtime: str) -> None:
    file = File(entrypoint=entrypoint)
    file.user("hi")
    assert read(file).conversation["source_runtime"] == runtime


def test_a_resumed_session_has_the_id_it_ends_with() -> None:
    file = File()
    file.user("long ago", sessionId=OLDER)
    file.user("today")
    assert read(file).conversation["id"] == SESSION


def test_the_name_of_the_file_decides_when_it_is_one_of_the_ids(tmp_path: Path) -> None:
    file = File()
    file.user("mine", sessionId=OLDER)
    file.user("from a fork")
    assert read(file.write(tmp_path / f"{OLDER}.jsonl")).conversation["id"] == OLDER
    assert read(file.write(tmp_path / "anything.jsonl")).conversation["id"] == SESSION


def test_a_session_without_an_id_gets_one() -> None:
    file = File(session="")
    file.user("hi")
    assert read(file).conversation["id"] == "conv_20260203_00000000"


@pytest.mark.spec("conversation-title")
def test_titles() -> None:
    file = File()
    leaf = file.user("hi")
    file.bare("summary", summary="Somebody else's session", leafUuid="not-here")
    assert "title" not in read(file).conversation
    file.bare("summary", summary="Our session", leafUuid=leaf)
    assert read(file).conversation["title"] == "Our session"
    file.bare("ai-title", aiTitle="A model's title")
    assert read(file).conversation["title"] == "A model's title"
    file.bare("custom-title", customTitle="First")
    file.bare("custom-title", customTitle="A person's title")
    file.bare("ai-title", aiTitle="Late")
    record = read(file)
    assert record.conversation["title"] == "A person's title"
    others = [body(event) for event in record.events if body(event).get("kind") == "other_title"]
    assert [(other["source"], other["title"]) for other in others] == [
        ("summary", "Somebody else's session"),
        ("summary", "Our session"),
        ("ai-title", "Late"),
    ]


def test_the_context_is_annotated_when_it_changes() -> None:
    file = File()
    file.user("hi")
    file.user("there", cwd="/home/kim/shop/api")
    file.user("still there", cwd="/home/kim/shop/api", gitBranch=None)
    found = [body(e) for e in read(file).events if body(e)]
    assert found == [
        {
            "kind": "context",
            "cwd": cwd,
            "git_branch": "main",
            "version": "2.1.0",
            "session_id": SESSION,
        }
        for cwd in ("/home/kim/shop", "/home/kim/shop/api")
    ]


@pytest.mark.spec("complete-output")
def test_what_is_not_carried_over_is_counted() -> None:
    file = File()
    file.user("hi")
    for _ in range(2):
        file.bare("file-history-snapshot", messageId="m", snapshot={})
    file.bare("a name with spaces, which may be content")
    data = file.data + b"[1]\n"
    assert [(note.code, note.place, note.detail, note.count) for note in read(data).notes] == [
        ("skipped-record", "line 2", "type file-history-snapshot", 2),
        ("skipped-record", "line 4", "type unknown", 1),
        ("skipped-record", "line 5", "line is not a JSON object", 1),
    ]


def test_a_half_last_line_and_lone_surrogates() -> None:
    file = File()
    file.user("hi")
    broken = json.dumps(
        file.lines[0]
        | {"uuid": "u2", "message": {"content": "SURROGATE"}, "toolUseResult": {"a": 1}}
    )
    data = (
        file.data + broken.replace("SURROGATE", "\\ud83d").encode() + b'\n{"type":"assistant","mess'
    )
    assert [e["content"].get("text") for e in read(data).events][1:] == ["hi", "�"]


@pytest.mark.parametrize(
    "folder",
    [
        "Library/Application Support/Claude/local-agent-mode-sessions/ac/org/local_1",
        ".config/Claude-3p/local-agent-mode-sessions/ac/org/agent/local_1",
        "AppData/Roaming/Claude/local-agent-mode-sessions/ac/org/local_1",
    ],
)
def test_sessions_of_cowork_are_found(folder: str, tmp_path: Path) -> None:
    file = File()
    file.user("Sort my receipts.")
    path = file.write(tmp_path / folder / ".claude" / "projects" / "-sessions-x" / "s.jsonl")
    found = Discovery({}, tmp_path, None).sessions()
    assert [(session.path, session.reader) for session in found] == [(path, "claude_code")]
