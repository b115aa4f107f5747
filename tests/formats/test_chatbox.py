"""Backups of Chatbox: first versions, odd messages, and what is not claimed."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.library.discovery import Discovery
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["chatbox"]

read = build_read_function(READER)


def backup(*messages: Any, **fields: Any) -> dict[str, Any]:
    session = {"id": "s", "name": "T", "messages": list(messages), **fields}
    return {"session:s": session, "__exported_items": [], "__exported_at": "2025-06-15T16:00:00Z"}


def said(role: str = "user", text: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"role": role, "contentParts": [{"type": "text", "text": text}], **fields}


@pytest.mark.parametrize("has_sessions", [True, False])
def test_the_data_on_disk_are_found_if_they_hold_sessions(
    tmp_path: Path, has_sessions: bool
) -> None:
    path = tmp_path / ".config" / "xyz.chatboxapp.app" / "config.json"
    path.parent.mkdir(parents=True)
    settings = {"settings": {"theme": 1}, "configVersion": 12}
    path.write_text(json.dumps({**settings, **(backup(said()) if has_sessions else {})}))
    discovery = Discovery({}, tmp_path)
    found = [discovery.inspect(session) for session in discovery.sessions()]
    assert [session.reader for session in found if session] == ["chatbox"] * has_sessions


def test_the_first_versions() -> None:
    messages = [{"id": "a", "role": "user", "content": "hi"}]
    value = {"chat-sessions": [{"id": "s", "name": "T", "messages": messages}], "settings": {}}
    record, events = read(value)
    assert summarize_events(events) == [("user", "hi")]
    assert (record.conversation["id"], record.conversation["title"]) == ("s", "T")


def test_forks_and_threads_are_branches() -> None:
    fork = {"m": {"lists": [{"messages": [said("assistant", "old")]}, {"messages": []}]}}
    threads = [{"id": "t", "name": "before", "messages": [said(text="earlier")]}]
    value = backup(said(id="m"), said("assistant", "new"), messageForksHash=fork, threads=threads)
    assert summarize_events(read(value)[1]) == [("user", "hi"), ("assistant", "new")]
    whole = summarize_events(read(value, branches="all")[1])
    assert ("assistant", "old") in whole
    assert ("user", "earlier") in whole


@pytest.mark.parametrize(
    "message",
    [
        5,
        {},
        {"role": "assistant", "contentParts": [5, {"type": "tool-call"}, {"type": "text"}]},
        {"role": "user", "contentParts": {"a": 1}, "content": {"b": 2}, "timestamp": "x"},
        {"role": "assistant", "usage": [], "model": [], "reasoningContent": 5, "error": {}},
    ],
)
def test_misshapen_messages(message: Any) -> None:
    forks: dict[str, Any] = {"x": 5, "y": {"lists": [5]}}
    _, events = read(backup(said(), message, messageForksHash=forks, threads=[5, {}]))
    assert ("user", "hi") in summarize_events(events)


@pytest.mark.parametrize(
    "value",
    [
        {"session:s": {"id": "s", "name": "T", "messages": []}},
        {"chat-sessions": []},
        {"__exported_at": "x", "messages": [said()]},
        {"session:s": {"id": "s"}, "__exported_items": []},
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_it_is_detected() -> None:
    assert detect_format(Source("x", data=json.dumps(backup(said())).encode())) == "chatbox"
