"""Sources with several conversations: list them, choose one, export all with an index."""

import io
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import fake_multi_format
from open_token.api import conversations, export, load_context
from open_token.errors import InputError, MultipleConversationsError, OutputError
from open_token.library.export_many import export_conversations, list_exports
from open_token.library.restore import restore_files
from open_token.sources.source import Source

SECRET = "gh" + "p_" + "Zx8vK2mQ9rT4wY7uJ1nB5cD3fG6hL0pS2aEo"
SESSIONS: list[Any] = [
    {"session": "aa1", "title": f"use {SECRET}", "says": ["first"]},
    {"session": "aa2", "says": ["second", "third"]},
    {"session": "../b 3", "says": ["fourth"]},
    {"format": "kept with the first"},
]


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_multi_format.install_multi_format(monkeypatch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "sessions.json"
    made.write_text(json.dumps(SESSIONS))
    return made


def said(document: Any) -> list[str]:
    return [event["content"]["text"] for event in document["events"] if event["type"] == "message"]


def test_none_chosen_is_an_error_that_lists_them(path: Path) -> None:
    with pytest.raises(MultipleConversationsError) as caught:
        export(path)
    assert [item.id for item in caught.value.found] == ["aa1", "aa2", "../b 3"]
    assert caught.value.code == "input.several"
    assert [item.id for item in conversations(path)] == ["aa1", "aa2", "../b 3"]


@pytest.mark.parametrize(
    ("wanted", "words"), [("aa2", ["second", "third"]), ("3", ["fourth"]), ("../", ["fourth"])]
)
def test_one_is_chosen_by_id_number_or_start(path: Path, wanted: str, words: list[str]) -> None:
    assert said(export(path, conversation=wanted)) == words


@pytest.mark.parametrize("wanted", ["aa", "zz", "0", "4", ""])
def test_what_does_not_choose_one_is_an_error(path: Path, wanted: str) -> None:
    with pytest.raises(InputError) as caught:
        export(path, conversation=wanted)
    assert caught.value.code == "input.conversation"


def test_the_first_of_a_file_that_holds_one_may_be_named(tmp_path: Path) -> None:
    record = {
        "type": "user",
        "uuid": "u",
        "sessionId": "s",
        "message": {"role": "user", "content": "hello"},
    }
    (tmp_path / "session.jsonl").write_text(json.dumps(record) + "\n")
    assert said(export(tmp_path / "session.jsonl", reader="claude_code", conversation="1")) == [
        "hello"
    ]
    with pytest.raises(InputError) as caught:
        export(tmp_path / "session.jsonl", reader="claude_code", conversation="2")
    assert caught.value.help == "it holds one; leave --conversation out"


def test_a_file_with_one_needs_no_choice(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(SESSIONS[1:2]))
    assert said(export(tmp_path / "one.json")) == ["second", "third"]
    assert said(export(tmp_path / "one.json", conversation="1")) == ["second", "third"]


def test_all_go_into_a_folder_with_an_index(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    exported = export_conversations(Source.of(path), "many_sessions", folder, load_context({}))
    receipts = exported.receipts
    assert exported.failures == []
    assert [receipt.events for receipt in receipts] == [1, 2, 1]
    assert sorted(item.name for item in folder.iterdir()) == [
        "1_aa1.json",
        "2_aa2.json",
        "3_b-3.json",
        "index.json",
    ]
    index = json.loads((folder / "index.json").read_text())
    assert [entry["id"] for entry in index["conversations"]] == ["aa1", "aa2", "../b 3"]
    assert [entry["events"] for entry in index["conversations"]] == [1, 2, 1]
    assert SECRET not in (folder / "index.json").read_text()
    assert list_exports(folder) == [
        folder / name for name in ("1_aa1.json", "2_aa2.json", "3_b-3.json")
    ]


def test_a_folder_with_something_in_it_is_left_alone(path: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").write_text("mine")
    with pytest.raises(OutputError):
        export_conversations(Source.of(path), "many_sessions", tmp_path / "mine", load_context({}))
    assert [item.name for item in (tmp_path / "mine").iterdir()] == ["note"]


def fail_at(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reader fail at conversations whose id contains a text."""
    read = fake_multi_format.read

    def fail(source: Source, draft: Any) -> None:
        if wanted in str(source.conversation):
            raise InputError("the disk fails", where=source.name)
        read(source, draft)

    monkeypatch.setattr(fake_multi_format, "read", fail)


def test_one_that_fails_is_reported_and_the_others_are_exported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at("aa2", monkeypatch)
    folder = tmp_path / "out"
    exported = export_conversations(Source.of(path), "many_sessions", folder, load_context({}))
    assert [receipt.conversation_id for receipt in exported.receipts] == ["aa1", "../b 3"]
    (failure,) = exported.failures
    assert (failure.number, failure.id, failure.problem.what) == (2, "aa2", "the disk fails")
    index = json.loads((folder / "index.json").read_text())
    assert index["conversations"][1] == {
        "number": 2,
        "id": "aa2",
        "events": 0,
        "error": "input",
    }
    assert list_exports(folder) == [folder / "1_aa1.json", folder / "3_b-3.json"]
    assert len(list(folder.iterdir())) == 3


def test_a_failure_of_all_leaves_no_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at("", monkeypatch)
    with pytest.raises(InputError) as caught:
        export_conversations(Source.of(path), "many_sessions", tmp_path / "out", load_context({}))
    assert caught.value.what == "the disk fails"
    assert [item.name for item in tmp_path.iterdir()] == ["sessions.json"]


def test_each_holds_its_own_part_of_the_source_and_together_all(path: Path, tmp_path: Path) -> None:
    words = {"redact": "none", "include": "include-internal", "internal": "full", "native": "full"}
    export_conversations(Source.of(path), "many_sessions", tmp_path / "out", load_context(words))
    assert b"second" not in (tmp_path / "out" / "1_aa1.json").read_bytes()
    restore_files(tmp_path / "out", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "sessions.json").read_text()) == SESSIONS


def test_a_folder_without_an_index_is_no_set(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        list_exports(tmp_path)
    assert caught.value.code == "restore.index"


def test_one_in_which_nothing_was_said_is_only_in_the_index(path: Path, tmp_path: Path) -> None:
    path.write_text(json.dumps([{"session": "empty", "says": []}, *SESSIONS]))
    exported = export_conversations(
        Source.of(path), "many_sessions", tmp_path / "out", load_context({})
    )
    assert len(exported.receipts) == 3
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    assert index["conversations"][0] == {"number": 1, "id": "empty", "events": 0}
    assert len(list_exports(tmp_path / "out")) == 3


def test_one_in_which_nothing_was_said_keeps_its_part_of_the_source(
    path: Path, tmp_path: Path
) -> None:
    sessions = [{"session": "empty", "says": []}, *SESSIONS]
    path.write_text(json.dumps(sessions))
    words = {"redact": "none", "include": "include-internal", "internal": "full", "native": "full"}
    export_conversations(Source.of(path), "many_sessions", tmp_path / "out", load_context(words))
    restore_files(tmp_path / "out", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "sessions.json").read_text()) == sessions


def test_a_source_in_which_nothing_was_said_is_refused(path: Path, tmp_path: Path) -> None:
    path.write_text(json.dumps([{"session": "one", "says": []}, {"session": "two", "says": []}]))
    with pytest.raises(InputError) as caught:
        export_conversations(
            Source.of(path),
            "many_sessions",
            tmp_path / "made",
            load_context({}, env={}, cwd=tmp_path),
        )
    assert caught.value.code == "input.no-events"
    assert not (tmp_path / "made").exists()


def write_chats(path: Path, texts: list[Any]) -> None:
    """Write an export of ChatGPT with a conversation for each text."""
    chats = [
        {
            "conversation_id": f"chat-{number}",
            "title": f"Chat {number}",
            "create_time": 1_700_000_000 + number,
            "current_node": "b",
            "mapping": {
                "a": {"id": "a", "parent": None, "children": ["b"], "message": None},
                "b": {
                    "id": "b",
                    "parent": "a",
                    "children": [],
                    "message": {
                        "id": "b",
                        "author": {"role": "user"},
                        "create_time": 1_700_000_000 + number,
                        "content": {"content_type": "text", "parts": [text]},
                    },
                },
            },
        }
        for number, text in enumerate(texts)
    ]
    path.write_text(json.dumps(chats))


def test_several_processes_write_the_same_files(tmp_path: Path) -> None:
    source = tmp_path / "conversations.json"
    write_chats(source, [f"chat {number}: " + "a long text, " * 20_000 for number in range(12)])
    context = replace(load_context({"exported_at": "omit"}), key=bytes(32))
    folders = [tmp_path / "one", tmp_path / "two"]
    shares: list[list[tuple[int, int]]] = []
    for jobs, folder in enumerate(folders, 1):
        seen: list[tuple[int, int]] = []
        exported = export_conversations(
            Source.of(source),
            "chatgpt_export",
            folder,
            context,
            jobs=jobs,
            report=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert exported.failures == []
        shares.append(seen)
    assert shares[0] == shares[1] == [(number, 12) for number in range(1, 13)]
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert len(files[0]) == 13
    assert files[0] == files[1]


def test_a_source_for_another_process_is_opened_anew(path: Path) -> None:
    source = Source.of(path)
    assert source.document
    copy = pickle.loads(pickle.dumps(source))
    assert "_parsed_document" not in vars(copy)
    assert copy.document == SESSIONS
    piped = Source.of_stream(io.BytesIO(b'{"a": 1}'), "<stdin>")
    assert pickle.loads(pickle.dumps(piped)).document == {"a": 1}
